"""CSI's node service: devices, file systems and mounts of this machine. Must not know of EC2's API."""
