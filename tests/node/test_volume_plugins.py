"""What the agent takes a volume for, on its plugin's word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from one_volume import DISK, UNIQUE, OneVolume, disk, pod

from mooring.node.volumes import operations as module
from mooring.node.volumes.records import VolumeRecord
from mooring.volumes.interfaces import AttachCapabilities, Attributes
from mooring.volumes.spec import VolumeSpec


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> OneVolume:
    return OneVolume(tmp_path, played)


def test_an_empty_record_says_what_the_node_will_do_with_a_volume(stage: OneVolume) -> None:
    empty = stage.operations.empty_record
    assert empty(UNIQUE, disk()) == VolumeRecord(UNIQUE, DISK, attachable=True, has_device=True)
    stage.plugin.attaches = False
    assert not empty(UNIQUE, disk()).attachable
    stage.plugin.can_device_mount = lambda spec: False
    assert not empty(UNIQUE, disk()).has_device
    raw = VolumeRecord(UNIQUE, DISK, has_device=True, block=True)
    assert empty(UNIQUE, disk(volume_mode="Block")) == raw


@pytest.mark.parametrize("read_only", [True, False])
def test_containers_may_only_read_what_the_plugin_mounts_read_only_and_never_a_raw_device_so(
    stage: OneVolume, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounter = SimpleNamespace(get_attributes=lambda: Attributes(read_only=read_only, managed=True))
    monkeypatch.setattr(stage.plugin, "new_mounter", lambda spec, pod: mounter)
    assert stage.operations.is_read_only(disk(), pod("u")) is read_only
    assert not stage.operations.is_read_only(disk(volume_mode="Block"), pod("u"))


@pytest.mark.parametrize("attaches", [True, False])
@pytest.mark.parametrize(
    ("mode", "multi_attach", "exclusive"),
    [
        ("ReadWriteOnce", True, True),
        ("ReadWriteMany", True, False),
        ("ReadWriteMany", False, True),
    ],
)
def test_one_node_alone_may_have_what_is_not_shared_or_what_its_storage_attaches_once(
    stage: OneVolume, attaches: bool, mode: str, multi_attach: bool, exclusive: bool
) -> None:
    stage.plugin.attaches = attaches
    stage.capabilities = AttachCapabilities(refuses=True, revokes=False, multi_attach=multi_attach)
    known = exclusive if attaches else mode == "ReadWriteOnce"
    assert stage.operations.is_exclusive(disk(access_modes=(mode,))) is known


def test_of_a_plugin_that_is_gone_nothing_is_repeated_and_nothing_waits(stage: OneVolume) -> None:
    stage.plugin.one_at_a_time = lambda: True
    stage.plugin.remount_period = lambda spec: 60.0
    stage.plugin.requires_remount = lambda: True
    want = stage.want("u")
    assert stage.operations.one_at_a_time(stage.volume)
    assert stage.operations.remount_period(stage.volume, want) == 60.0
    assert stage.operations.requires_remount(stage.volume)
    stage.plugin_is_gone()
    assert stage.operations.one_at_a_time(stage.volume) is False
    assert stage.operations.remount_period(stage.volume, want) is None


CLAIMED: dict[str, Any] = {"claim_ref": {"name": "c"}}


@pytest.mark.parametrize(
    ("spec", "expandable", "grows"),
    [
        (disk(**CLAIMED), True, True),
        (disk(), True, False),
        (disk(volume_mode="Block", **CLAIMED), True, False),
        (disk(**CLAIMED), False, False),
    ],
)
def test_a_node_has_a_part_in_growing_a_file_system_that_a_claim_has(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch, spec: VolumeSpec, expandable: bool, grows: bool
) -> None:
    if not expandable:
        monkeypatch.setattr(stage.plugins, "find_node_expandable_plugin_by_spec", lambda spec: None)
    assert stage.operations.grows(spec) is grows


async def test_only_what_is_mounted_and_wanted_grows(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def grow(client: Any, plugin: Any, spec: VolumeSpec, path: str) -> str:
        return f"{spec.name} at {path}"

    monkeypatch.setattr(module, "grow_file_system", grow)
    client: Any = None
    assert await stage.operations.grow(client, stage.volume) is None
    stage.want("u")
    assert await stage.operations.grow(client, stage.volume) is None
    stage.is_mounted()
    assert await stage.operations.grow(client, stage.volume) == "pv at /m"
    wants, stage.volume.wants = stage.volume.wants, {}
    assert await stage.operations.grow(client, stage.volume) is None
    stage.volume.wants = wants
    monkeypatch.setattr(stage.plugins, "find_node_expandable_plugin_by_spec", lambda spec: None)
    assert await stage.operations.grow(client, stage.volume) is None


@pytest.mark.parametrize(
    ("block", "counted"),
    [
        (False, ["mount_device", "volume_mount", "volume_unmount", "unmount_device", "volume_detach"]),
        (True, ["map_device", "map_volume", "unmap_volume", "unmap_device", "volume_detach"]),
    ],
)
async def test_each_operation_is_counted_by_the_name_that_kubelets_give_it(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch, block: bool, counted: list[str]
) -> None:
    names: list[str] = []

    @contextmanager
    def operation(plugin: str, name: str) -> Iterator[None]:
        names.append(name)
        yield

    async def done(*_: Any) -> str:
        return "/dev/d1"

    device = SimpleNamespace(
        get_pod_device_map_path=lambda: "/link", map_pod_device=done, unmap_pod_device=done
    )
    raw = SimpleNamespace(
        get_global_map_path=lambda spec: "/place",
        set_up_device=done,
        tear_down_device=done,
        new_block_volume_mapper=lambda spec, pod: device,
        new_block_volume_unmapper=lambda name, uid: device,
    )
    monkeypatch.setattr(module, "operation", operation)
    monkeypatch.setattr(stage.operations, "_block_plugin", lambda volume: raw)
    stage.want("u", disk(volume_mode="Block") if block else disk())
    stage.has_record(block=block)
    await stage.operations.mount_device(stage.volume, None)
    await stage.operations.set_up(stage.volume, "u")
    await stage.operations.tear_down(stage.volume, "u")
    stage.has_record(attached_here=True)
    await stage.operations.unmount_device(stage.volume, "n1")
    assert names == counted
    await stage.operations.attach(stage.volume, "n1", "node-uid")
    assert names[-1] == "volume_attach"
