"""The size and the usage of a volume, for NodeGetVolumeStats and NodeExpandVolume. Blocking."""

from __future__ import annotations

import os

from mooring.csi.proto import csi_pb2 as csi

_UNIT = csi.VolumeUsage.Unit


def volume_usage(path: str) -> list[csi.VolumeUsage]:
    """Bytes and inodes of the file system at the path; bytes only of a device. Raises OSError."""
    if not os.path.isdir(path):
        return [csi.VolumeUsage(total=device_size(path), unit=_UNIT.BYTES)]
    room = os.statvfs(path)
    size = csi.VolumeUsage(
        total=room.f_blocks * room.f_frsize,
        available=room.f_bavail * room.f_frsize,
        used=(room.f_blocks - room.f_bfree) * room.f_frsize,
        unit=_UNIT.BYTES,
    )
    used = room.f_files - room.f_ffree
    return [size, csi.VolumeUsage(total=room.f_files, available=room.f_ffree, used=used, unit=_UNIT.INODES)]


def device_size(path: str) -> int:
    """The size of a block device in bytes. Raises OSError."""
    with open(path, "rb", buffering=0) as device:
        return device.seek(0, os.SEEK_END)
