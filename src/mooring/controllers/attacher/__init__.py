"""Fulfils VolumeAttachments: calls the volume's plugin and records what came of it."""
