"""Decides who holds which volume; writes VolumeAttachments and `node.status.volumesAttached`."""
