"""Raw devices on a node: what may be set up is written down before, and is taken down whatever came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.mounts.interface import Mounts
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.handshake import Permission
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.records import DeviceRecord, PodRecord, Records
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DEVICE_PATH
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.pod_device import PodDevice
from mooring.volumes.spec import VolumeSpec

DISK = "example.com/disk"
PLACE = "/plugins/devices/d1"
PERMISSION = Permission({DEVICE_PATH: "/dev/d1"}, "attachment", "node")
AS_SET_UP = DeviceRecord("/dev/d1", "attachment", "node")


class Host(VolumeHost):  # type: ignore[misc]
    """Says where pods find their devices."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_pod_device_path(self, pod_uid: str, plugin: str, name: str) -> Path:
        return self._root / pod_uid / name


class Node:
    """A node with one volume, which a pod wants as a raw device; its plugin fails to set it up if a test
    wants so."""

    def __init__(self, root: Path, played: Any) -> None:
        self.records = Records(root)
        self.records.load()
        self.failure: Exception | None = None
        self.before: list[DeviceRecord | None] = []
        """What was written down when the plugin was asked."""
        self.torn_down: list[str] = []
        self.plugins = PluginManager([self._plugin(played)], Host(root))  # type: ignore[abstract]
        self.operations = Operations(self.plugins, self.records, cast(Mounts, None))
        source = FlexVolumeSource(driver=DISK, options={"disk": "d1"})
        spec = VolumeSpec.of_persistent_volume(
            PersistentVolume(
                metadata=ObjectMeta(name="pv"),
                spec=PersistentVolumeSpec(flex_volume=source, volume_mode="Block"),
            )
        )
        self.volume = WantedVolume(self.operations.empty_record(f"{DISK}/d1", spec))
        self.volume.wants["u1"] = Want(Pod(metadata=ObjectMeta(name="web-0", uid="u1")), ("data",), spec, 0.0)

    def _plugin(self, played: Any) -> Any:
        node = self

        class Raw(played.RawDisk):  # type: ignore[misc]
            async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
                node.before += [record.device for record in node.records.load()] or [None]
                if node.failure is not None:
                    raise node.failure
                return device_path

            async def tear_down_device(self, device_path: str) -> None:
                if node.failure is not None:
                    raise node.failure
                node.torn_down.append(device_path)

        return Raw(played.JournalledMachine())


@pytest.fixture
def node(tmp_path: Path, played: Any) -> Node:
    return Node(tmp_path, played)


async def test_that_a_device_may_be_set_up_is_written_down_before(node: Node) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    assert node.before == [DeviceRecord(PLACE, "attachment", "node", unfinished=True)]
    assert node.volume.record.device == DeviceRecord("/dev/d1", "attachment", "node")
    assert node.volume.device is Presence.PRESENT


async def test_a_device_whose_set_up_failed_may_be_there_and_is_taken_down(node: Node) -> None:
    node.failure = TimeoutError("the driver has not answered")
    with pytest.raises(TimeoutError):
        await node.operations.mount_device(node.volume, PERMISSION)
    assert node.volume.device is Presence.UNCERTAIN
    with pytest.raises(TimeoutError):
        await node.operations.unmount_device(node.volume, "n1")
    assert node.volume.device is Presence.UNCERTAIN
    node.failure = None
    await node.operations.unmount_device(node.volume, "n1")
    assert node.torn_down == [PLACE]
    assert node.volume.device is Presence.ABSENT
    assert node.records.load() == []


async def test_a_device_that_is_set_up_once_more_stays_known_as_what_it_was(node: Node) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    node.failure = TimeoutError("the driver has not answered")
    with pytest.raises(TimeoutError):
        await node.operations.mount_device(node.volume, Permission({DEVICE_PATH: "/dev/d1"}, "next", "node"))
    assert node.volume.record.device == DeviceRecord("/dev/d1", "next", "node", unfinished=True)


async def test_what_may_still_be_taken_down_is_recorded_so_until_it_is_set_up(node: Node) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    node.volume.record = replace(node.volume.record, device=replace(AS_SET_UP, leaving=True))
    node.failure = TimeoutError("it is still being taken down")
    with pytest.raises(TimeoutError):
        await node.operations.mount_device(node.volume, PERMISSION)
    assert node.volume.record.device == replace(AS_SET_UP, leaving=True, unfinished=True)
    node.failure = None
    await node.operations.mount_device(node.volume, PERMISSION)
    assert node.volume.record.device == AS_SET_UP


async def test_a_pod_finds_its_device_by_a_link_that_is_gone_when_it_has_let_go(
    node: Node, tmp_path: Path
) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    await node.operations.set_up(node.volume, "u1")
    link = tmp_path / "u1" / "pv"
    assert str(link.readlink()) == "/dev/d1"
    assert node.volume.record.pods == {"u1": PodRecord("pv", str(link))}
    assert node.volume.pods == {"u1": Presence.PRESENT}
    await node.operations.tear_down(node.volume, "u1")
    assert not link.is_symlink()
    assert node.volume.record.pods == {}
    await node.operations.unmount_device(node.volume, "n1")
    assert node.torn_down == ["/dev/d1"]


async def test_a_link_that_cannot_be_removed_stays_the_pods(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    await node.operations.set_up(node.volume, "u1")
    record = node.volume.record.pods["u1"]

    async def fails(device: PodDevice) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(PodDevice, "unmap_pod_device", fails)
    with pytest.raises(OSError, match="read-only"):
        await node.operations.tear_down(node.volume, "u1")
    assert node.volume.pods == {"u1": Presence.UNCERTAIN}
    assert node.volume.record.pods == {"u1": replace(record, leaving=True)}


@pytest.mark.parametrize("asked", ["mount_device", "set_up", "tear_down"])
async def test_a_plugin_that_has_no_raw_devices_any_more_is_told(
    node: Node, monkeypatch: pytest.MonkeyPatch, played: Any, asked: str
) -> None:
    await node.operations.mount_device(node.volume, PERMISSION)
    await node.operations.set_up(node.volume, "u1")
    plain = played.PlayedDisk(played.JournalledMachine())
    monkeypatch.setattr(node.plugins, "find_plugin_by_name", lambda name: plain)
    steps = {
        "mount_device": lambda: node.operations.mount_device(node.volume, PERMISSION),
        "set_up": lambda: node.operations.set_up(node.volume, "u1"),
        "tear_down": lambda: node.operations.tear_down(node.volume, "u1"),
    }
    with pytest.raises(InvalidSpec, match="cannot give pods raw devices: use volumeMode Filesystem"):
        await steps[asked]()
