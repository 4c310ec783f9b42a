"""After a restart of the agent: which volumes are there, by what is recorded and by what is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.kube.objects import FlexVolumeSource, Volume
from mooring.mounts.interface import Mount
from mooring.node.volumes.reconstruction import reconstruct
from mooring.node.volumes.records import DeviceRecord, PodRecord, VolumeRecord
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import DeviceMountableVolumePlugin
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

DISK = "example.com/disk"


class RecognisingPlugin:
    """A plugin that tells from a pod's directory which disk it shows."""

    def __init__(self, played: Any) -> None:
        disk = played.PlayedDisk(played.JournalledMachine())

        async def construct(volume_name: str, mount_path: str) -> VolumeSpec:
            if volume_name == "unknown":
                raise InvalidSpec("nobody knows")
            source = FlexVolumeSource(driver=DISK, options={"disk": "d1"})
            return VolumeSpec.of_volume(Volume(name=volume_name, flex_volume=source))

        disk.construct_volume_spec = construct
        self.manager = PluginManager([disk, played.PlayedLocal(played.JournalledMachine())], _NoHost())  # type: ignore[arg-type]


class _NoHost(VolumeHost):  # type: ignore[misc]
    """Nothing is asked of it."""


def pod_directory(root: Path, name: str) -> str:
    path = root / "pods" / "u1" / "volumes" / "example.com~disk" / name
    path.mkdir(parents=True)
    return str(path)


def mount(path: Path) -> Mount:
    return Mount(1, 0, (8, 0), "/", str(path), frozenset(), "ext4", "/dev/x")


async def test_a_pods_directory_and_its_device_are_found_to_be_one_volume(
    tmp_path: Path, played: Any
) -> None:
    path = pod_directory(tmp_path, "data")
    device = tmp_path / "plugins" / "example.com~disk" / "mounts" / "d1"
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [], [mount(device)])
    assert list(found) == [f"{DISK}/d1"]
    (record,) = found.values()
    assert record.device == DeviceRecord(str(device))
    assert record.attachable
    assert {uid: pod.path for uid, pod in record.pods.items()} == {"u1": path}


async def test_what_is_recorded_is_completed_by_what_is_found(tmp_path: Path, played: Any) -> None:
    path = pod_directory(tmp_path, "data")
    device = DeviceRecord("/m", "attachment", "node")
    known = VolumeRecord(f"{DISK}/d1", DISK, attachable=True, has_device=True, device=device)
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [known], [])
    pods = {"u1": PodRecord("data", path)}
    assert found == {f"{DISK}/d1": replace(known, pods=pods)}


async def test_a_device_and_another_pod_of_a_recorded_volume_are_added_to_what_is_recorded(
    tmp_path: Path, played: Any
) -> None:
    path = pod_directory(tmp_path, "data")
    device = tmp_path / "plugins" / "example.com~disk" / "mounts" / "d1"
    former = {"u0": PodRecord("data", "/pods/u0")}
    known = VolumeRecord(f"{DISK}/d1", DISK, attachable=True, pods=former)
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [known], [mount(device)])
    both = former | {"u1": PodRecord("data", path)}
    added = replace(known, device=DeviceRecord(str(device)), has_device=True, pods=both)
    assert found == {f"{DISK}/d1": added}


async def test_a_volume_with_a_device_that_is_not_mounted_any_more_keeps_that_it_has_one(
    tmp_path: Path, played: Any
) -> None:
    """Its device was unmounted when the agent was stopped, or was about to be mounted."""
    pod_directory(tmp_path, "data")
    known = VolumeRecord(f"{DISK}/d1", DISK, attachable=True, has_device=True, attached_here=True)
    (found,) = (await reconstruct(tmp_path, RecognisingPlugin(played).manager, [known], [])).values()
    assert (found.attachable, found.has_device, found.attached_here, found.device) == (True, True, True, None)


async def test_what_no_plugin_knows_stays_by_itself(tmp_path: Path, played: Any) -> None:
    pod_directory(tmp_path, "unknown")
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [], [])
    assert list(found) == [f"{DISK}/u1-unknown"]
    assert not found[f"{DISK}/u1-unknown"].attachable


async def test_a_raw_device_of_a_pod_is_found_by_its_link(tmp_path: Path, played: Any) -> None:
    link = tmp_path / "pods" / "u1" / "volumeDevices" / "example.com~disk" / "data"
    link.parent.mkdir(parents=True)
    link.symlink_to("/dev/x")
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [], [])
    name = f"{DISK}/u1-data"
    pods = {"u1": PodRecord("data", str(link))}
    assert found == {name: VolumeRecord(name, DISK, block=True, pods=pods)}


async def test_what_a_plugin_mounts_once_and_attaches_not_is_not_attachable(
    tmp_path: Path, played: Any
) -> None:
    class Shares(played.PlayedLocal, DeviceMountableVolumePlugin):  # type: ignore[misc]
        """Finds its volumes at places of its own."""

        def new_device_mounter(self) -> Any: ...

        def new_device_unmounter(self) -> Any: ...

        async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
            return ()

        def get_volume_name_at(self, device_mount_path: str) -> str | None:
            return Path(device_mount_path).name.removeprefix("share-")

    place = tmp_path / "plugins" / "example.com~local" / "share-s1"
    plugins = PluginManager([Shares(played.JournalledMachine())], _NoHost())  # type: ignore[abstract]
    found = await reconstruct(tmp_path, plugins, [], [mount(place)])
    device = DeviceRecord(str(place))
    assert found == {
        "example.com/local/s1": VolumeRecord(
            "example.com/local/s1", "example.com/local", attachable=False, has_device=True, device=device
        )
    }


async def test_a_mount_of_a_plugin_that_mounts_no_devices_is_no_volume(tmp_path: Path, played: Any) -> None:
    place = tmp_path / "plugins" / "example.com~local" / "mounts" / "x"
    assert await reconstruct(tmp_path, RecognisingPlugin(played).manager, [], [mount(place)]) == {}


async def test_what_a_plugin_that_is_gone_has_left_counts_as_attached_if_it_is_a_device(
    tmp_path: Path, played: Any
) -> None:
    device = tmp_path / "plugins" / "example.com~gone" / "mounts" / "d9"
    directory = tmp_path / "pods" / "u1" / "volumes" / "example.com~gone" / "data"
    directory.mkdir(parents=True)
    found = await reconstruct(tmp_path, RecognisingPlugin(played).manager, [], [mount(device)])
    gone = "example.com/gone"
    assert found == {
        f"{gone}/d9": VolumeRecord(
            f"{gone}/d9", gone, attachable=True, has_device=True, device=DeviceRecord(str(device))
        ),
        f"{gone}/u1-data": VolumeRecord(
            f"{gone}/u1-data", gone, pods={"u1": PodRecord("data", str(directory))}
        ),
    }
