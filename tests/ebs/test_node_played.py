"""The node service on disks and mounts that are played: what it mounts where, and what it leaves alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ebs_machine import OTHER, VOLUME, mounted, raw
from played_disks import PlayedDisks

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.node_service import node
from mooring.ebs.node_service.node import EbsNode
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.interface import Mount

GIB = 1024**3
DEVTMPFS = 0, 5


class PlayedMounts:
    """A mount table, and every request that would change something."""

    def __init__(self, disks: PlayedDisks) -> None:
        self.disks = disks
        self.table: list[Mount] = []
        self.asked: list[tuple[object, ...]] = []
        self.failing = ""
        """The request that fails."""

    def ask(self, *request: object) -> None:
        self.asked.append(request)
        if request[0] == self.failing:
            raise DeviceBusy(str(request[-1]))

    def at(self, path: str) -> Mount | None:
        return next((each for each in self.table if each.mount_point == path), None)

    def show(self, source: str, path: str, number: tuple[int, int], options: Sequence[str] = ()) -> None:
        access = {"ro"} if "ro" in options else {"rw"}
        self.table.append(Mount(1, 0, number, "/", path, frozenset({*options, *access}), "ext4", source))

    async def mount_table(self, pid: int | None = None) -> tuple[Mount, ...]:
        return tuple(self.table)

    async def format_and_mount(
        self, device: str, target: str, fs_type: str, options: Sequence[str], format_options: Sequence[str]
    ) -> None:
        self.ask("mount", device, target, fs_type, [*options], [*format_options])
        if self.at(target) is None:
            self.show(device, target, self.disks.nodes[device], options)

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        self.ask("bind", source, target, read_only)
        if self.at(target) is not None:
            return
        options = ("ro",) if read_only else ()
        if number := self.disks.nodes.get(source):
            self.disks.nodes[target] = number  # what is at the target is the device now
            self.show("devtmpfs", target, DEVTMPFS, options)
        else:
            below = self.at(source)
            assert below is not None
            os.makedirs(target, exist_ok=True)
            self.show(below.source, target, below.device, options)

    async def unmount(self, target: str) -> None:
        self.ask("unmount", target)
        self.table = [each for each in self.table if each.mount_point != target]
        self.disks.nodes.pop(target, None)

    async def remove_mount_point(self, target: str) -> None:
        self.ask("remove", target)
        if os.path.isdir(target):
            os.rmdir(target)

    async def resize(self, device: str, mount_path: str) -> None:
        self.ask("resize", device, mount_path)


class Machine:
    """An instance with the disk of a volume, and folders as an orchestrator has them."""

    def __init__(self, root: Path, disks: PlayedDisks) -> None:
        self.disks = disks
        self.device = disks.disk("nvme1n1", VOLUME.replace("-", ""), partitions=1, size=GIB)
        self.mounts = PlayedMounts(disks)
        self.staging, self.target = str(root / "staging"), str(root / "target")
        self.node = self.restarted()

    def restarted(self, **options: Any) -> EbsNode:
        played: Any = self.mounts
        metadata: Any = None
        self.node = EbsNode(played, self.disks.finder, metadata, **{"device_wait_s": 0.0} | options)
        return self.node

    async def stage(
        self,
        capability: csi.VolumeCapability | None = None,
        context: Mapping[str, str] | None = None,
        attached_as: str = "/dev/xvdba",
        volume: str = VOLUME,
    ) -> None:
        await self.node.node_stage_volume(
            csi.NodeStageVolumeRequest(
                volume_id=volume, staging_target_path=self.staging, volume_context=context or {},
                publish_context={"devicePath": attached_as}, volume_capability=capability or mounted(),
            )
        )  # fmt: skip

    async def publish(
        self,
        capability: csi.VolumeCapability | None = None,
        readonly: bool = False,
        staging: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> None:
        await self.node.node_publish_volume(
            csi.NodePublishVolumeRequest(
                volume_id=VOLUME, staging_target_path=self.staging if staging is None else staging,
                target_path=self.target, publish_context={"devicePath": "/dev/xvdba"}, readonly=readonly,
                volume_capability=capability or mounted(), volume_context=context or {},
            )
        )  # fmt: skip

    async def unstage(self) -> None:
        await self.node.node_unstage_volume(
            csi.NodeUnstageVolumeRequest(volume_id=VOLUME, staging_target_path=self.staging)
        )

    async def unpublish(self) -> None:
        await self.node.node_unpublish_volume(
            csi.NodeUnpublishVolumeRequest(volume_id=VOLUME, target_path=self.target)
        )

    async def stats(self, path: str, volume: str = VOLUME) -> list[csi.VolumeUsage]:
        request = csi.NodeGetVolumeStatsRequest(volume_id=volume, volume_path=path)
        return [*(await self.node.node_get_volume_stats(request)).usage]

    async def expand(self, path: str, size: int) -> int:
        request = csi.NodeExpandVolumeRequest(
            volume_id=VOLUME, volume_path=path, capacity_range=csi.CapacityRange(required_bytes=size)
        )
        return (await self.node.node_expand_volume(request)).capacity_bytes


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, PlayedDisks(tmp_path, monkeypatch))


async def refused(call: Awaitable[object]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


# --- staging


@pytest.mark.parametrize(
    ("capability", "fs_type", "options", "grows"),
    [
        (mounted(), "ext4", [], False),
        (mounted("ext3", ["noatime", "ro", "noatime"]), "ext3", ["noatime", "ro"], False),
        (mounted("xfs"), "xfs", ["nouuid"], True),
        (mounted("xfs", ["noatime", "nouuid"]), "xfs", ["noatime", "nouuid"], True),
        (mounted("xfs", ["ro"]), "xfs", ["ro", "nouuid"], False),
    ],
)
async def test_a_volume_is_mounted_as_it_is_asked_for_and_xfs_grows_then(
    machine: Machine, capability: csi.VolumeCapability, fs_type: str, options: list[str], grows: bool
):
    await machine.stage(capability)
    mount, *more = machine.mounts.asked
    assert mount == ("mount", machine.device, machine.staging, fs_type, options, [])
    assert more == ([("resize", machine.device, machine.staging)] if grows else [])


async def test_a_partition_is_mounted_and_formatted_as_the_volumes_context_says(machine: Machine):
    await machine.stage(context={"partition": "1", "blocksize": "1024"})
    [(_, device, *_, format_options)] = machine.mounts.asked
    assert device == f"{machine.device}p1"
    assert format_options == ["-b", "1024"]


async def test_an_xfs_for_old_kernels_is_made_otherwise(machine: Machine):
    for legacy in (False, True):
        machine.restarted(legacy_xfs=legacy)
        await machine.stage(mounted("xfs"))
    made = [request[-1] for request in machine.mounts.asked if request[0] == "mount"]
    assert made[0] == []
    assert made[1] != []


async def test_a_raw_volume_is_staged_when_its_device_is_there(machine: Machine):
    await machine.stage(raw())
    assert machine.mounts.asked == []
    assert (await refused(machine.stage(raw(), volume=OTHER))).code is Code.NOT_FOUND


async def test_a_volume_of_which_it_is_not_said_where_it_is_attached_is_not_staged(machine: Machine):
    error = await refused(machine.stage(attached_as=""))
    assert (error.code, error.message) == (
        Code.INVALID_ARGUMENT, "publish_context lacks devicePath, which ControllerPublish gives"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "context"),
    [
        (raw(), {"blocksize": "1024"}),
        (mounted("ntfs"), {}),
        (mounted(mode=AccessMode.MULTI_NODE_MULTI_WRITER), {}),
        (raw(AccessMode.MULTI_NODE_READER_ONLY), {}),
    ],
)
async def test_what_an_ebs_volume_is_not_for_is_neither_staged_nor_published(
    machine: Machine, capability: csi.VolumeCapability, context: dict[str, str]
):
    for call in (machine.stage(capability, context), machine.publish(capability, context=context)):
        assert (await refused(call)).code is Code.INVALID_ARGUMENT
    assert machine.mounts.asked == []


async def test_the_mount_of_a_device_that_has_gone_is_cleared_away_before_the_volume_is_mounted(
    machine: Machine,
):
    machine.mounts.show("/dev/nvme9n1", machine.staging, (259, 99))
    await machine.stage()
    assert [request[0] for request in machine.mounts.asked] == ["unmount", "mount"]


@pytest.mark.parametrize("number", [(259, 1), (0, 44)], ids=["a disk that is there", "no device"])
async def test_a_mount_that_is_alive_is_left_alone(machine: Machine, number: tuple[int, int]):
    assert machine.disks.number("nvme1n1") == (259, 1)
    machine.mounts.show("there", machine.staging, number)
    await machine.stage()
    assert [request[0] for request in machine.mounts.asked] == ["mount"]


async def test_a_device_that_appears_a_little_later_is_waited_for(machine: Machine):
    machine.restarted(device_wait_s=60)
    waiting = asyncio.ensure_future(machine.stage(raw(), volume=OTHER))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    machine.disks.disk("nvme2n1", OTHER.replace("-", ""))
    await waiting


@pytest.mark.parametrize(
    ("volume", "attached_as", "code"),
    [("disk1", "/dev/xvdba", Code.NOT_FOUND), (VOLUME, "xvdba", Code.INVALID_ARGUMENT)],
)
async def test_for_what_cannot_be_no_device_is_waited_for(
    machine: Machine, volume: str, attached_as: str, code: Code
):
    machine.restarted(device_wait_s=60)
    async with asyncio.timeout(10):
        assert (await refused(machine.stage(raw(), volume=volume, attached_as=attached_as))).code is code


async def test_a_volume_that_is_unstaged_is_mounted_there_no_more(machine: Machine):
    await machine.stage()
    for _ in range(2):
        await machine.unstage()
    assert machine.mounts.table == []


# --- publishing


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("flags", [[], ["ro"]])
async def test_a_staged_volume_is_shown_at_the_target_as_it_is_asked_for(
    machine: Machine, readonly: bool, flags: list[str]
):
    await machine.stage(mounted("", flags))
    for _ in range(2):
        await machine.publish(mounted("", flags), readonly=readonly)
    assert (
        machine.mounts.asked[1:]
        == [("bind", machine.staging, machine.target, readonly or flags == ["ro"])] * 2
    )


async def test_a_target_that_shows_the_volume_with_another_access_is_refused(machine: Machine):
    await machine.stage()
    await machine.publish()
    assert (await refused(machine.publish(readonly=True))).code is Code.ALREADY_EXISTS
    assert [request[0] for request in machine.mounts.asked] == ["mount", "bind"]


@pytest.mark.parametrize("block", [False, True])
async def test_a_target_that_shows_something_else_is_refused(machine: Machine, block: bool):
    other = machine.disks.disk("nvme2n1", OTHER.replace("-", ""))
    machine.mounts.show(other, machine.target, machine.disks.number("nvme2n1"))
    await machine.stage()
    error = await refused(machine.publish(raw() if block else mounted()))
    assert (error.code, error.message) == (
        Code.FAILED_PRECONDITION, f"{other} is mounted at {machine.target}: unpublish that first"
    )  # fmt: skip
    assert [request[0] for request in machine.mounts.asked] == ["mount"]
    assert not os.path.exists(machine.target)


async def test_what_a_device_that_has_gone_has_left_at_the_target_is_cleared_away(machine: Machine):
    await machine.stage()
    machine.mounts.show("/dev/nvme9n1", machine.target, (259, 99))
    await machine.publish()
    assert [request[0] for request in machine.mounts.asked] == ["mount", "unmount", "bind"]


@pytest.mark.parametrize("shown", [None, "nvme2n1"])
async def test_a_volume_that_is_not_staged_is_not_published(machine: Machine, shown: str | None):
    if shown is not None:
        machine.mounts.show(machine.disks.disk(shown), machine.staging, machine.disks.number(shown))
    error = await refused(machine.publish())
    assert (error.code, error.message) == (
        Code.FAILED_PRECONDITION, f"volume {VOLUME} is not staged at {machine.staging}"
    )  # fmt: skip
    assert machine.mounts.asked == []


@pytest.mark.parametrize("block", [False, True])
async def test_without_a_staging_path_no_volume_is_published(machine: Machine, block: bool):
    error = await refused(machine.publish(raw() if block else mounted(), staging=""))
    assert error.code is Code.FAILED_PRECONDITION
    assert "staging_target_path is missing" in error.message


async def test_a_raw_volume_is_its_device_over_a_file_which_goes_with_it(machine: Machine):
    await machine.stage(raw())
    for _ in range(2):
        await machine.publish(raw())
    assert machine.mounts.asked == [("bind", machine.device, machine.target, False)] * 2
    assert os.path.exists(machine.target)
    [usage] = await machine.stats(machine.target)
    assert usage.unit is csi.VolumeUsage.Unit.BYTES
    for _ in range(2):
        await machine.unpublish()
    assert not os.path.exists(machine.target)
    assert ("remove", machine.target) not in machine.mounts.asked


async def test_a_raw_partition_is_published_as_the_volumes_context_says(machine: Machine):
    await machine.publish(raw(), context={"partition": "1"})
    assert machine.mounts.asked == [("bind", f"{machine.device}p1", machine.target, False)]


async def test_a_file_is_no_target_for_a_file_system_and_a_folder_none_for_a_raw_device(machine: Machine):
    await machine.stage()
    Path(machine.target).touch()
    assert "is no directory" in (await refused(machine.publish())).message
    os.unlink(machine.target)
    os.mkdir(machine.target)
    assert "is a directory" in (await refused(machine.publish(raw()))).message
    assert [request[0] for request in machine.mounts.asked] == ["mount"]


async def test_the_folder_of_a_file_system_goes_with_it(machine: Machine):
    await machine.stage()
    await machine.publish()
    for _ in range(2):
        await machine.unpublish()
    assert not os.path.exists(machine.target)
    assert [each.mount_point for each in machine.mounts.table] == [machine.staging]


STEPS = ("stage", "publish", "expand", "unpublish", "unstage")


@pytest.mark.parametrize(
    ("failing", "step"),
    [
        ("mount", "stage"), ("resize", "stage"), ("bind", "publish"), ("resize", "expand"),
        ("unmount", "unpublish"), ("remove", "unpublish"), ("unmount", "unstage"),
    ],
)  # fmt: skip
async def test_what_the_mounts_refuse_is_told(machine: Machine, failing: str, step: str):
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "stage": lambda: machine.stage(mounted("xfs")),
        "publish": lambda: machine.publish(mounted("xfs")),
        "expand": lambda: machine.expand(machine.target, 0),
        "unpublish": machine.unpublish,
        "unstage": machine.unstage,
    }
    for before in STEPS[: STEPS.index(step)]:
        await calls[before]()
    machine.mounts.failing = failing
    with pytest.raises(DeviceBusy):
        await calls[step]()


@pytest.mark.parametrize("step", ["stage", "publish"])
async def test_a_dead_mount_that_cannot_be_cleared_away_is_told(machine: Machine, step: str):
    if step == "publish":
        await machine.stage()
    machine.mounts.show("/dev/nvme9n1", machine.staging if step == "stage" else machine.target, (259, 99))
    machine.mounts.failing = "unmount"
    with pytest.raises(DeviceBusy):
        await (machine.stage() if step == "stage" else machine.publish())


def test_a_device_is_looked_for_several_times_a_second_for_some_seconds(
    machine: Machine, run: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
):
    looks: list[float] = []

    async def at_once(function: Callable[..., object], *given: object) -> object:
        looks.append(asyncio.get_running_loop().time())
        return function(*given)

    monkeypatch.setattr(node, "blocking", at_once)
    played: Any = machine.mounts
    machine.node = EbsNode(played, machine.disks.finder, played)

    async def story() -> None:
        assert (await refused(machine.stage(raw(), volume=OTHER))).code is Code.NOT_FOUND
        assert looks[0] == 0
        assert looks[-1] == asyncio.get_running_loop().time() == 5
        assert 3 * 5 < len(looks) < 10 * 5

    run(story())


# --- volumes in use


async def test_a_file_system_grows_when_its_device_has_grown(machine: Machine):
    await machine.stage()
    await machine.publish()
    for size in (0, GIB):
        assert await machine.expand(machine.target, size) == GIB
    assert machine.mounts.asked[2:] == [("resize", machine.device, machine.target)] * 2


async def test_a_raw_volume_has_grown_with_its_device(machine: Machine):
    await machine.stage(raw())
    await machine.publish(raw())
    os.truncate(machine.target, GIB)
    assert await machine.expand(machine.target, GIB) == GIB
    assert [request[0] for request in machine.mounts.asked] == ["bind"]


async def test_a_size_that_the_device_does_not_have_yet_is_to_be_asked_for_again(machine: Machine):
    await machine.stage()
    error = await refused(machine.expand(machine.staging, GIB + 1))
    assert error.code is Code.UNAVAILABLE
    assert f"{machine.device} of {VOLUME} has {GIB} bytes, {GIB + 1} are asked for" in error.message
    assert [request[0] for request in machine.mounts.asked] == ["mount"]


async def test_a_path_where_the_volume_is_not_is_not_found(machine: Machine):
    await machine.stage()
    os.makedirs(machine.staging)
    size, inodes = await machine.stats(machine.staging)
    assert (size.unit, inodes.unit) == (csi.VolumeUsage.Unit.BYTES, csi.VolumeUsage.Unit.INODES)
    for call, volume, path in (
        (machine.stats(machine.staging, OTHER), OTHER, machine.staging),
        (machine.stats(machine.target), VOLUME, machine.target),
        (machine.expand(machine.target, 0), VOLUME, machine.target),
    ):
        error = await refused(call)
        assert (error.code, error.message) == (Code.NOT_FOUND, f"volume {volume} is not at {path}")
