"""Snapshots of volumes: made by the plugin, kept as VolumeSnapshotContents, given to claims as their first content."""
