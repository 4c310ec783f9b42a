"""What iscsiadm and records of open-iscsi say, and sources and paths of iSCSI volumes: read, or refused."""

from __future__ import annotations

import contextlib

from mooring.kube.objects import ISCSIVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.iscsi import records
from mooring.volumes.plugins.iscsi.source import disk, disk_at, volume_name
from mooring.volumes.spec import VolumeSpec

TARGET = "iqn.2026-01.dev.mooring:storage.a"
SEEDS = [
    b"10.88.0.2:3260,1 iqn.2026-01.dev.mooring:storage.a\n[fd00::1]:3261,2 iqn.2026-01.dev.mooring:storage.a\n",
    b"# BEGIN RECORD 2.1.8\nnode.startup = manual\nnode.session.auth.password = x\n# END RECORD\n",
    b"/p/iface-default/10.88.0.2:3260-iqn.2026-01.dev.mooring:storage.a-lun-1",
    b"/p/iface-[fd00::1]:3260:pv/[fd00::1]:3260-iqn.2026-01.a:b-lun-255",
    b"[fd00::1]:3260",
    b"eui.0123456789abcdef",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    for portal, group in records.offers(text, TARGET).items():
        assert 0 < portal.port < 1 << 16
        assert group >= 0
    with contextlib.suppress(VolumeError):
        assert "node.startup = automatic" in records.changed(text, {"node.startup": "automatic"}).splitlines()
    with contextlib.suppress(InvalidSpec):
        secret = {"node.session.auth.username": b"u", "node.session.auth.password": data}
        lines = records.chap(secret, records.SESSION_AUTH, "Secret a/b")
        assert all("\n" not in value and value == value.strip() for value in lines.values())
    if (found := disk_at(text)) is not None:
        assert "/" not in volume_name(found)
    for fields in (
        {"target_portal": text},
        {"iqn": text},
        {"initiator_name": text},
        {"iscsi_interface": text},
    ):
        _refused_or_plain({"target_portal": "10.0.0.1", "iqn": TARGET, **fields})


def _refused_or_plain(fields: dict[str, str]) -> None:
    pv_spec = PersistentVolumeSpec(iscsi=ISCSIVolumeSource(**fields))  # type: ignore[arg-type]
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=pv_spec)
    with contextlib.suppress(InvalidSpec):
        found = disk(VolumeSpec.of_persistent_volume(pv))
        for word in (*map(str, found.portals), found.target, found.interface, found.initiator):
            assert not word.startswith("-")
            assert "/" not in word
            assert word.isprintable() and word.isascii() and " " not in word
