"""A disk of a Fibre Channel storage is found by its port and LUN or by its own name, used by one device, and
dropped with its last volume, whatever fails on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from played_fc import ONE, TWO, A, B, PlayedFabric, PlayedPrograms
from waiting import until

from mooring.volumes.errors import (
    DeviceNotAttached,
    DeviceStillInUse,
    OutcomeUnknown,
    VolumeError,
    WrongDevice,
)
from mooring.volumes.plugins.fc import connections as connections_module
from mooring.volumes.plugins.fc.connections import Connections
from mooring.volumes.plugins.fc.devices import EVERYTHING, Scan
from mooring.volumes.plugins.fc.notes import Note, Notes
from mooring.volumes.plugins.fc.source import Disk
from mooring.volumes.plugins.scsi import paths as paths_module

DISK, BOTH, SECOND = Disk((A,), 0), Disk((A, B), 0), Disk((A,), 1)
NAMED = Disk(wwids=(ONE,))
PATH, OTHER = "/p/mounts/one", "/p/mounts/other"


class Killed(Exception):
    """The agent ends here; nothing that it does after that happens."""


class Node:
    """A node with its agent, which can be started anew."""

    def __init__(self, root: Path, hosts: int = 1) -> None:
        self.root = root
        self.fabric = PlayedFabric(root, hosts)
        self.programs = PlayedPrograms()
        self.steps = 0
        self.dies_at: int | None = None
        self.start()

    def start(self, boot: str = "boot-1") -> None:
        """An agent that knows nothing but what is written down."""
        self.dies_at = None
        self.notes = Notes(self.root / "plugin", boot)
        for each in ("save", "remove"):
            setattr(self.notes, each, self._step(getattr(self.notes, each)))
        for each in ("scan", "forget", "flush"):
            self.fabric.hooks[each] = self._count
        run: Any = self.programs
        self.connections = Connections(self.notes, self.fabric, "a", run)

    def _step(self, act: Callable[..., None]) -> Callable[..., None]:
        def stepped(*given: Any) -> None:
            self._count()
            act(*given)

        return stepped

    def _count(self) -> None:
        if self.dies_at is not None and self.steps >= self.dies_at:
            raise Killed
        self.steps += 1

    async def connect(self, disk: Disk = DISK, path: str = PATH, **how: bool) -> str:
        return await self.connections.connect(disk, path, **{"block": False, "in_use": False, **how})

    def left(self) -> list[str]:
        """What is left on the node: disks and notes."""
        return [*self.fabric.names(), *(str(each) for each in (self.root / "plugin").rglob("*.json"))]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"APPEAR_S": 1.0, "POLL_S": 0.01, "MULTIPATH_S": 0.03}.items():
        monkeypatch.setattr(connections_module, name, value)
    monkeypatch.setattr(connections_module, "multipathd_runs", lambda: False)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.fabric.port(A)
    return found


async def test_a_disk_is_found_and_nothing_is_left_of_it_when_it_is_released(node: Node):
    assert await node.connect() == "/dev/sda"
    await node.connections.release(PATH)
    assert node.left() == []
    assert node.fabric.flushed == ["/dev/sda"]


async def test_only_the_port_and_the_lun_of_the_volume_are_scanned_and_only_if_it_is_not_there(node: Node):
    node.fabric.port(B, number=7, target="7")
    await node.connect()
    await node.connect()
    assert node.fabric.scanned == [Scan("host1", "0 0 0")]
    assert node.fabric.names() == ["sda"]


async def test_a_disk_is_found_by_its_name_wherever_it_is(node: Node):
    port = node.fabric.port(B, number=7, target="7")
    node.fabric.disk(port, 3, TWO)
    node.fabric.disk(port, 4, ONE)
    assert await node.connect(NAMED) == "/dev/sdb"
    assert node.fabric.scanned == []
    await node.connections.release(PATH)
    assert node.fabric.names() == ["sda"]


async def test_a_disk_that_is_not_there_by_its_name_is_looked_for_once_at_each_host(tmp_path: Path):
    node = Node(tmp_path, hosts=2)
    node.fabric.port(A, host=2)
    assert await node.connect(NAMED) == "/dev/sda"
    assert node.fabric.scanned == [Scan("host1", EVERYTHING), Scan("host2", EVERYTHING)]


async def test_a_node_without_an_adapter_scans_its_other_hosts_and_leaves_iscsis_alone(tmp_path: Path):
    node = Node(tmp_path, hosts=2)
    for host in ("host1", "host2"):
        (tmp_path / "sys/class/fc_host" / host).rmdir()
    (tmp_path / "sys/class/iscsi_host/host1").mkdir(parents=True)
    node.fabric.port(A, host=2)
    assert await node.connect(NAMED) == "/dev/sda"
    assert node.fabric.scanned == [Scan("host2", EVERYTHING)]


async def test_a_node_without_an_adapter_says_so(tmp_path: Path):
    with pytest.raises(DeviceNotAttached, match="no Fibre Channel host adapter"):
        await Node(tmp_path, hosts=0).connect()


async def test_a_port_that_the_fabric_does_not_show_is_said_to_be(node: Node):
    with pytest.raises(DeviceNotAttached, match="zones"):
        await node.connect(Disk((B,), 0))
    await node.connections.release(PATH)
    assert node.left() == []


async def test_a_port_that_is_not_online_is_named_with_its_state(tmp_path: Path):
    node = Node(tmp_path)
    node.fabric.port(A, state="Blocked")
    with pytest.raises(DeviceNotAttached, match=rf"{A} \(Blocked\)"):
        await node.connect()


async def test_a_port_that_is_no_target_of_scsi_is_not_scanned(tmp_path: Path):
    node = Node(tmp_path)
    node.fabric.port(A, target="-1")
    with pytest.raises(DeviceNotAttached, match="did not appear"):
        await node.connect()
    assert node.fabric.scanned == []


async def test_a_lun_that_the_storage_does_not_show_does_not_appear(node: Node):
    node.fabric.luns = {}
    with pytest.raises(DeviceNotAttached, match="LUN 0"):
        await node.connect()


async def test_a_path_that_is_offline_is_not_used(node: Node):
    node.fabric.disk(node.fabric.port(B, number=1), 0, ONE)
    name = node.fabric.disk(next(node.root.glob("sys/devices/*/host1/rport-1:0-0")), 0, ONE)
    (unit,) = node.root.glob("sys/devices/**/target1:0:1/*")
    (unit / "state").write_text("transport-offline\n")
    assert await node.connect(BOTH) == f"/dev/{name}"


async def test_a_path_that_does_not_answer_is_not_used_and_keeps_no_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections_module, "RESCAN_S", 0.05)
    for number in (1, 2):
        node.fabric.disk(node.fabric.port(B, number=number), 0, ONE)
    held = threading.Event()
    node.fabric.hooks["rescan sda"] = held.wait  # type: ignore[assignment]
    try:
        assert await node.connect(Disk((B,), 0)) == "/dev/sdb"
    finally:
        held.set()


async def test_a_host_that_does_not_end_its_scan_is_not_scanned_again_meanwhile(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections_module, "SCAN_S", 0.02)
    held, entered = threading.Event(), []

    def hang() -> None:
        entered.append(1)
        held.wait()

    node.fabric.hooks["scan"] = hang
    try:
        for _ in range(3):
            with pytest.raises(DeviceNotAttached):
                await node.connect()
        assert entered == [1]
    finally:
        held.set()


async def test_a_flush_that_does_not_end_is_given_up_in_time_and_the_volume_stays_written_down(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(paths_module, "FLUSH_S", 0.02)
    await node.connect()
    held = threading.Event()
    node.fabric.hooks["flush"] = held.wait  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown, match="write /dev/sda back"):
        await node.connections.release(PATH)
    assert len(node.left()) == 2
    held.set()
    await node.connections.release(PATH)
    assert node.left() == []


async def test_the_disk_stays_as_long_as_another_volume_of_it_is_there_whatever_that_calls_it(node: Node):
    await node.connect(block=True)
    await node.connect(NAMED, OTHER, block=True)
    await node.connections.release(PATH)
    assert node.fabric.names() == ["sda"]
    await node.connections.release(OTHER)
    assert node.left() == []


async def test_another_lun_of_the_same_port_stays(node: Node):
    await node.connect()
    await node.connect(SECOND, OTHER)
    await node.connections.release(PATH)
    assert node.fabric.names() == ["sdb"]


async def test_a_disk_that_somebody_uses_is_not_let_go_of(node: Node):
    node.fabric.used.add(await node.connect())
    with pytest.raises(DeviceStillInUse):
        await node.connections.release(PATH)
    assert node.fabric.names() == ["sda"]
    node.fabric.used.clear()
    await node.connections.release(PATH)
    assert node.left() == []


async def test_a_disk_that_the_node_itself_uses_is_refused_and_kept(node: Node):
    node.fabric.disk(node.fabric.port(B, number=1), 0, ONE)
    node.fabric.used.add("/dev/sda")
    with pytest.raises(DeviceStillInUse):
        await node.connect(NAMED)
    await node.connections.release(PATH)
    assert node.left() == ["sda"]


async def test_a_disk_that_is_in_use_by_another_of_its_paths_is_refused(node: Node):
    node.fabric.disk(node.fabric.port(B, number=1), 0, ONE)
    await node.connect(NAMED)
    node.fabric.used.add("/dev/sda")
    with pytest.raises(VolumeError, match="/dev/sda"):
        await node.connect(DISK, OTHER)


async def test_a_note_of_a_mount_that_has_gone_keeps_no_other_volume_of_the_disk(node: Node):
    node.fabric.disk(node.fabric.port(B, number=1), 0, ONE)
    await node.connect(NAMED)
    assert await node.connect(DISK, OTHER) == "/dev/sdb"


async def test_a_disk_that_is_being_let_go_of_is_not_given_meanwhile(node: Node):
    await node.connect()
    held, flushing = threading.Event(), threading.Event()

    def hold() -> None:
        flushing.set()
        held.wait()

    node.fabric.hooks["flush"] = hold
    leaving = asyncio.create_task(node.connections.release(PATH))
    await until(flushing.is_set)
    with pytest.raises(VolumeError, match="being let go"):
        await node.connect(NAMED, OTHER)
    held.set()
    await leaving


async def test_writes_that_cannot_be_flushed_do_not_keep_the_disk_for_ever(node: Node):
    await node.connect()

    def broken() -> None:
        raise OSError(5, "Input/output error")

    node.fabric.hooks["flush"] = broken
    await node.connections.release(PATH)
    assert node.left() == []


async def test_a_lun_that_has_become_another_disk_is_that_disk_at_the_next_mount(node: Node):
    await node.connect()
    await node.connections.release(PATH)
    node.fabric.luns[0] = TWO
    await node.connect()
    assert node.notes.find(PATH).wwid == f"naa.{TWO[1:]}"  # type: ignore[union-attr]


async def test_a_lun_that_becomes_another_disk_while_it_is_mounted_is_found_out_and_its_path_left(node: Node):
    await node.connect()
    node.fabric.luns[0] = TWO
    with pytest.raises(WrongDevice, match=rf"{TWO[1:]}.*{ONE[1:]}"):
        await node.connect(in_use=True)
    with pytest.raises(WrongDevice):
        await node.connections.refresh(DISK, PATH)
    await node.connections.release(PATH)
    assert node.left() == ["sda"]


async def test_a_disk_whose_name_moves_to_another_lun_is_found_there(node: Node):
    await node.connect(NAMED)
    await node.connections.release(PATH)
    node.fabric.luns = {0: TWO, 5: ONE}
    await node.connect(NAMED)
    (unit,) = node.fabric.units(NAMED)
    assert unit.lun == 5


@pytest.mark.parametrize("names", [(ONE, TWO), ("", ""), (ONE, "")])
async def test_paths_that_are_not_known_to_lead_to_one_disk_are_refused(
    node: Node, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(node.fabric, "rescan", lambda unit: None)
    node.fabric.disk(next(node.root.glob("sys/devices/*/host1/rport-1:0-0")), 0, names[0])
    node.fabric.disk(node.fabric.port(B, number=1), 0, names[1])
    with pytest.raises(WrongDevice, match="one disk"):
        await node.connect(BOTH)


async def test_a_disk_that_comes_back_under_another_name_is_found_by_its_lun(node: Node):
    await node.connect()
    node.fabric.lose("sda")
    node.start()
    assert await node.connect(in_use=True) == "/dev/sdb"
    await node.connections.release(PATH)
    assert node.fabric.flushed == ["/dev/sdb"]
    assert node.left() == []


async def test_the_path_that_is_in_use_is_kept_when_another_appears(node: Node):
    await node.connect(BOTH)
    node.fabric.disk(node.fabric.port(B, number=0, host=0), 0, ONE)  # sorts before the other
    node.start()
    assert await node.connect(BOTH, in_use=True) == "/dev/sda"


async def test_the_multipath_device_is_used_and_goes_with_all_its_paths(node: Node):
    await node.connect(BOTH)
    await node.connections.release(PATH)
    first = node.fabric.disk(next(node.root.glob("sys/devices/*/host1/rport-1:0-0")), 0, ONE)
    second = node.fabric.disk(node.fabric.port(B, number=1), 0, ONE)
    beside = node.fabric.disk(node.fabric.port("50060e801049cfd3", number=2), 0, ONE)
    node.fabric.multipath("dm-0", first, second, beside)
    assert await node.connect(BOTH) == "/dev/dm-0"
    await node.connections.release(PATH)
    assert node.programs.calls == [("multipath", "-f", "/dev/dm-0")]
    assert node.left() == []


async def test_a_multipath_device_that_another_disk_is_part_of_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(node.fabric, "rescan", lambda unit: None)
    port = next(node.root.glob("sys/devices/*/host1/rport-1:0-0"))
    node.fabric.multipath("dm-0", node.fabric.disk(port, 0, ONE), node.fabric.disk(port, 1, TWO))
    with pytest.raises(WrongDevice, match=r"dm-0.*sdb"):
        await node.connect()


async def test_a_multipath_device_that_is_not_removed_keeps_its_paths(node: Node):
    port = next(node.root.glob("sys/devices/*/host1/rport-1:0-0"))
    node.fabric.multipath("dm-0", node.fabric.disk(port, 0, ONE))
    await node.connect()
    node.programs.fails = True
    with pytest.raises(VolumeError, match="map in use"):
        await node.connections.release(PATH)
    assert node.fabric.names() == ["sda"]


async def test_a_multipath_device_that_is_still_being_made_is_waited_for(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections_module, "multipathd_runs", lambda: True)
    monkeypatch.setattr(connections_module, "MULTIPATH_S", 5.0)
    monkeypatch.setattr(connections_module, "APPEAR_S", 5.0)
    node.fabric.port(B, number=1)
    connecting = asyncio.create_task(node.connect(BOTH))
    await until(lambda: len(node.fabric.names()) == 2)
    node.fabric.multipath("dm-0", *node.fabric.names())
    assert await connecting == "/dev/dm-0"


async def test_a_disk_that_has_grown_says_its_size_and_its_multipath_device_follows(node: Node):
    port = next(node.root.glob("sys/devices/*/host1/rport-1:0-0"))
    node.fabric.multipath("dm-0", node.fabric.disk(port, 0, ONE, size=128 << 20))
    await node.connect()
    assert await node.connections.refresh(DISK, PATH) == ("/dev/dm-0", 128 << 20)
    assert node.programs.calls == [("multipathd", "resize", "map", "dm-0")]


async def test_a_name_of_a_device_that_pods_have_as_another_disk_is_not_given_again(node: Node):
    await node.connect(block=True)
    node.fabric.lose("sda")
    node.fabric.disks = 0
    with pytest.raises(VolumeError, match="Delete its pods"):
        await node.connect(SECOND, OTHER, block=True)


async def test_after_a_new_boot_no_name_of_a_device_counts(node: Node):
    await node.connect(block=True)
    node.fabric.lose("sda")
    node.fabric.disks = 0
    node.start(boot="boot-2")
    assert not await node.connections.has(PATH)
    assert await node.connections.block_path("/dev/sda") is None
    assert await node.connect(SECOND, OTHER, block=True) == "/dev/sda"
    await node.connections.release(OTHER)
    assert node.left() == []


async def test_a_raw_device_that_could_not_be_given_leaves_nothing(node: Node):
    node.fabric.luns = {}
    with pytest.raises(DeviceNotAttached):
        await node.connect(block=True)
    assert node.left() == []


async def test_a_raw_device_whose_agent_was_killed_does_not_keep_the_disk_of_others(node: Node):
    node.notes.save(Note(OTHER, DISK, block=True))
    await node.connect()
    await node.connections.release(PATH)
    assert node.left() == []


async def test_a_raw_device_is_found_by_its_name(node: Node):
    device = await node.connect(block=True)
    assert await node.connections.block_path(device) == PATH
    assert await node.connections.block_path("/dev/sdx") is None
    assert await node.connections.has(PATH)


async def test_a_raw_device_whose_agent_was_killed_at_any_step_of_connecting_is_let_go_of(tmp_path: Path):
    """Its record names the path by which it was to be connected."""
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.fabric.port(A)
        node.dies_at = step
        try:
            await node.connect(block=True)
            break
        except Killed:
            node.start()
        if (path := await node.connections.block_path(PATH)) is not None:
            await node.connections.release(path)
        assert node.left() == [], f"killed before step {step}"
    assert step > 2


@pytest.mark.parametrize("again", [True, False])
async def test_an_agent_that_is_killed_at_any_step_of_connecting_leaves_what_the_next_one_connects_or_undoes(
    tmp_path: Path, again: bool
):
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.fabric.port(A)
        node.dies_at = step
        try:
            await node.connect()
            break
        except Killed:
            node.start()
        if again:
            await node.connect()
        if node.notes.all():  # else nothing has been tried
            await node.connections.release(PATH)
        assert node.left() == [], f"killed before step {step}"
    assert step > 2


async def test_an_agent_that_is_killed_at_any_step_of_releasing_releases_when_it_is_back(tmp_path: Path):
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.fabric.port(A)
        await node.connect()
        node.dies_at = node.steps + step
        try:
            await node.connections.release(PATH)
            break
        except Killed:
            node.start()
        await node.connections.release(PATH)
        assert node.left() == [], f"killed before step {step}"
    assert step > 2


async def test_a_damaged_note_drops_no_disk(node: Node):
    await node.connect()
    await node.connect(SECOND, OTHER)
    next((node.root / "plugin/notes").glob("*.json")).write_text("{")
    for path in (PATH, OTHER):
        with pytest.raises(VolumeError, match="damaged"):
            await node.connections.release(path)
    assert node.fabric.names() == ["sda", "sdb"]
