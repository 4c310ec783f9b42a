"""What Flocker's control service and Photon Controller answer, and what is written in their volumes and in
Quobyte's: read, or refused."""

from __future__ import annotations

import contextlib
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mooring.kube.objects import (
    FlockerVolumeSource,
    PhotonPersistentDiskVolumeSource,
    QuobyteVolumeSource,
    Volume,
)
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins import quobyte
from mooring.volumes.plugins.flocker import source as flocker
from mooring.volumes.plugins.photon import source as photon
from mooring.volumes.plugins.rest import SAID_CHARACTERS, read, refusal, said
from mooring.volumes.spec import VolumeSpec

SEEDS = [
    b'[{"uuid": "aaaaaaaa-0000-4000-8000-00000000000a", "host": "10.0.0.1"}]',
    b'[{"dataset_id": "aaaaaaaa-0000-4000-8000-00000000000a", "primary": null, "path": "/flocker/x"}]',
    b'[{"dataset_id": "aaaaaaaa-0000-4000-8000-00000000000a", "deleted": false, "metadata": {"name": "d"}}]',
    b'{"id": "t-1", "state": "ERROR", "steps": [{"errors": [{"code": "StateError", "message": "no"}]}]}',
    b'{"items": [{"id": "vm-1", "name": "node-1"}]}',
    b'{"id": "6000c298-595b-f457-5739-e9105b2c0c2d", "state": "ATTACHED", "vms": ["vm-1"]}',
    b'{"code": "x", "message": "y"}',
    b"registry:7861,[fd00::1]:7861",
    b"https://photon.example.com:443/v1",
    b"localhost:4523",
    b"user#group@volume",
    b"6000c298-595b-f457-5739-e9105b2c0c2d",
]
_UUID = re.compile(r"[0-9a-f-]{36}", re.ASCII)
_KINDS: tuple[Any, ...] = (
    list[flocker.NodeState],
    list[flocker.Existing],
    list[flocker.Configured],
    photon.Task,
    photon.VMs,
    photon.DiskState,
)


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    for words in (said(text), refusal(data)):
        assert len(words) <= SAID_CHARACTERS + 2 and words.isprintable()
    for kind in _KINDS:
        with contextlib.suppress(VolumeError):
            _used(read(data, kind, "it"))
    for written in (
        Volume(name="v", quobyte=QuobyteVolumeSource(registry=text, volume="v")),
        Volume(name="v", quobyte=QuobyteVolumeSource(registry="r:1", volume=text, user=text, group=text)),
        Volume(name="v", flocker=FlockerVolumeSource(dataset_uuid=text)),
        Volume(name="v", flocker=FlockerVolumeSource(dataset_name=text)),
        Volume(name="v", photon_persistent_disk=PhotonPersistentDiskVolumeSource(pd_id=text)),
    ):
        with contextlib.suppress(VolumeError):
            _plain(VolumeSpec.of_volume(written))
    for setting in (photon.target, flocker.service):
        with contextlib.suppress(VolumeError):
            url = urlsplit(setting(text))
            assert url.scheme == "https" and url.hostname and not url.username and not url.query


def _used(found: Any) -> None:
    """As the plugins use it."""
    if isinstance(found, photon.Task):
        assert len(found.why) <= SAID_CHARACTERS and found.why.isprintable()
        photon.checked_id(found.id, "task")
        assert not set("/?#%.") & set(found.id)
    elif isinstance(found, photon.VMs):
        found_vm = photon.vm_of("node-1", found)
        assert found_vm is None or not set("/?#%.") & set(found_vm)
    elif isinstance(found, photon.DiskState):
        assert all(each.isprintable() for each in photon.others(found.vms or (), "vm-1"))
    else:
        _of_flocker(found)


def _of_flocker(found: Any) -> None:
    named = flocker.Dataset("d", "", read_only=False)
    if found and isinstance(found[0], flocker.NodeState):
        assert _UUID.fullmatch(flocker.node_of({"10.0.0.1"}, found))
    elif found and isinstance(found[0], flocker.Configured):
        assert _UUID.fullmatch(flocker.uuid_of(named, found))
    elif found:
        flocker.primary_of("aaaaaaaa-0000-4000-8000-00000000000a", found)


def _plain(spec: VolumeSpec) -> None:
    if quobyte.written(spec) is not None:
        share = quobyte.share(spec)
        assert "/" not in share.entry and share.entry.count("#") == share.entry.count("@") == 1
        assert share.registry.isascii() and share.registry.isprintable() and " " not in share.registry
        assert not share.registry.startswith("-")
    elif flocker.written(spec) is not None:
        of = flocker.dataset(spec)
        assert not of.uuid or _UUID.fullmatch(of.uuid)
        assert str(of).isprintable()
    else:
        disk = photon.disk(spec)
        assert _UUID.fullmatch(disk.id)
        assert photon.disk_at(f"/p/mounts/{disk.id}") == disk
        assert msgspec.json.encode(disk.id)
