"""Names of ports and disks of Fibre Channel, pages 83h and paths: read, or refused."""

from __future__ import annotations

import contextlib

from mooring.kube.objects import FCVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.fc.identity import named, names
from mooring.volumes.plugins.fc.source import LONGEST_DIRECTORY, directory, disk, disk_at
from mooring.volumes.spec import VolumeSpec

SEEDS = [
    b"50060e801049cfd1",
    b"50:06:0e:80:10:49:cf:d1",
    b"3600508b400105e210000900000490000",
    b"naa.600508b400105e210000900000490000",
    b"t10.ATA     WDC WD10  S1",
    b"/p/mounts/50060e801049cfd1,50060e801049cfd2-lun-1",
    b"/p/volumeDevices/3600508b400105e210000900000490000,1ATA_X",
    b"\0\x83\0\x22\1\3\0\x10\x60\5\x08\xb4\0\x10^!\0\0\x90\0\0I\0\0\2\1\0\nLIO-ORG  x",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert named(named(text)) == named(text)
    for name in names("", data):
        assert name.isprintable()
        assert named(name) == name
    if (found := disk_at(text)) is not None:
        assert disk_at(f"/p/mounts/{directory(found)}") == found
    for source in (FCVolumeSource(target_wwns=(text,), lun=1), FCVolumeSource(wwids=(text,))):
        _refused_or_plain(source)


def _refused_or_plain(source: FCVolumeSource) -> None:
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(fc=source))
    with contextlib.suppress(InvalidSpec):
        found = disk(VolumeSpec.of_persistent_volume(pv))
        name = directory(found)
        assert len(name) <= LONGEST_DIRECTORY
        assert "/" not in name and not name.startswith(("-", "."))
        assert name.isprintable() and name.isascii() and " " not in name
        assert disk_at(f"/p/mounts/{name}") == found
