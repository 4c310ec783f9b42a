"""The disk array: its lock, its refusals, and its state after a crash at any point. Devices are simulated."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.mounts.errors import DeviceBusy
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    InvalidSpec,
    StorageRefused,
    VolumeInUse,
    VolumeNotFound,
)
from mooring.volumes.plugins import disk_array, disk_files
from mooring.volumes.plugins.disk_array import Delays, Disk, DiskArray
from mooring.volumes.plugins.disk_devices import DiskDevices

MIB = 1024 * 1024


def refuse_as_too_large(_descriptor: int, _size: int) -> None:
    raise OSError(errno.EFBIG, "File too large")


def test_a_disk_larger_than_a_file_can_be_is_not_made_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    array = DiskArray(tmp_path)
    array.create("small", MIB)
    with pytest.raises(InvalidSpec, match="ask for less"):
        array.create("d", 2**63)
    monkeypatch.setattr(os, "ftruncate", refuse_as_too_large)
    with pytest.raises(InvalidSpec, match="ask for less"):
        array.create("d", 20 * 2**40)
    with pytest.raises(InvalidSpec, match="ask for less"):
        array.expand("small", 20 * 2**40)
    assert os.listdir(tmp_path / "disks") == ["small"]
    assert array.get("small").size == MIB


class Crash(BaseException):
    """The process is killed here."""


class SimulatedDevices(DiskDevices):
    """Devices of a kernel that outlives the processes: files in a directory, each holding
    the path of its medium."""

    medium = "disk.img"

    def __init__(self, kernel: Path, step: Callable[[], None] = lambda: None) -> None:
        self.kernel = kernel
        self.step = step
        self.busy: set[str] = set()
        self.sizes: dict[str, int] = {}
        kernel.mkdir(exist_ok=True)

    def make_medium(self, path: Path, size: int) -> None:
        self.step()
        path.write_bytes(b"")
        self.step()

    def grow_medium(self, path: Path, size: int) -> None:
        self.step()

    def create(self, medium: Path) -> str:
        self.step()
        number = next(number for number in range(100) if not (self.kernel / f"loop{number}").exists())
        device = self.kernel / f"loop{number}"
        device.write_text(str(medium))
        self.step()
        return str(device)

    def of(self, medium: Path) -> list[str]:
        return [str(device) for device in sorted(self.kernel.iterdir()) if device.read_text() == str(medium)]

    def shows(self, device: str, medium: Path) -> bool:
        path = Path(os.path.realpath(device))
        return path.is_file() and path.read_text() == str(medium)

    def grown(self, device: str) -> None:
        self.sizes[device] = self.sizes.get(device, 0) + 1

    def remove(self, device: str, medium: Path) -> None:
        self.step()
        if device in self.busy:
            raise DeviceBusy(device, ["held open by process 7 (postgres)"])
        Path(device).unlink()
        self.step()


@pytest.fixture
def devices(tmp_path: Path) -> SimulatedDevices:
    return SimulatedDevices(tmp_path / "kernel")


@pytest.fixture
def array(tmp_path: Path, devices: SimulatedDevices) -> DiskArray:
    array = DiskArray(tmp_path, devices)
    array.create("d", MIB)
    return array


# --- disks


def test_a_disk_is_what_it_was_made_as(array: DiskArray):
    made = array.create("e", 5 * MIB, exclusive=False, delays=Delays(attach=2))
    assert array.get("e") == made == Disk(5 * MIB, exclusive=False, delays=Delays(attach=2))
    assert sorted(array.list()) == ["d", "e"]


def test_making_a_disk_again_returns_it_as_it_is(array: DiskArray):
    array.attach("d", "a")
    assert array.create("d", MIB // 2).nodes == ("a",)


@pytest.mark.parametrize("other", [{"size": 2 * MIB}, {"size": MIB, "exclusive": False}])
def test_another_disk_of_the_same_name_is_refused(array: DiskArray, other: dict[str, Any]):
    with pytest.raises(InvalidSpec, match="another disk d already"):
        array.create("d", **other)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../../etc", "a\0b"])
def test_a_name_that_is_no_file_name_is_refused(array: DiskArray, name: str):
    with pytest.raises(InvalidSpec, match="no name for a disk"):
        array.create(name, MIB)
    with pytest.raises(InvalidSpec, match="no name for a node"):
        array.attach("d", name)
    assert array.attachments() == {"d": ()}


def test_a_missing_disk_is_named_and_nothing_is_made_for_it(array: DiskArray, tmp_path: Path):
    for operation in (lambda: array.attach("x", "a"), lambda: array.expand("x", 1), lambda: array.get("x")):
        with pytest.raises(VolumeNotFound, match="no volume x"):
            operation()
    assert os.listdir(tmp_path / "disks") == ["d"]


def test_a_deleted_disk_leaves_nothing_behind_and_is_deleted_again_without_harm(
    array: DiskArray, tmp_path: Path
):
    array.delete("d")
    array.delete("d")
    assert os.listdir(tmp_path / "disks") == []


def test_an_attached_disk_is_not_deleted(array: DiskArray):
    array.attach("d", "a")
    with pytest.raises(DeletedVolumeInUse, match="attached to node a"):
        array.delete("d")
    assert array.attachments() == {"d": ("a",)}


def test_a_disk_grows_with_its_devices_and_never_shrinks(array: DiskArray, devices: SimulatedDevices):
    array.attach("d", "a")
    assert array.expand("d", 3 * MIB).size == 3 * MIB
    assert array.expand("d", MIB).size == 3 * MIB
    assert list(devices.sizes) == [array.device("d", "a")]


# --- attachments


def test_an_attached_disk_has_a_device_on_its_node_only(array: DiskArray):
    path = array.attach("d", "a")
    assert os.path.realpath(path) == array.device("d", "a")
    assert array.devices("b") == {}


def test_attaching_again_changes_nothing(array: DiskArray, devices: SimulatedDevices):
    assert array.attach("d", "a") == array.attach("d", "a")
    assert len(list(devices.kernel.iterdir())) == 1


def test_an_exclusive_disk_is_refused_to_a_second_node_naming_the_first(array: DiskArray):
    array.attach("d", "a")
    with pytest.raises(VolumeInUse, match="attached to node a") as caught:
        array.attach("d", "b")
    assert caught.value.nodes == ("a",)
    assert array.attachments() == {"d": ("a",)}


def test_a_disk_without_lock_is_on_several_nodes_each_with_its_own_device(array: DiskArray):
    array.create("shared", MIB, exclusive=False)
    array.attach("shared", "a")
    array.attach("shared", "b")
    assert array.device("shared", "a") != array.device("shared", "b")
    array.detach("shared", "a")
    assert (array.device("shared", "a"), array.attachments()["shared"]) == (None, ("b",))
    assert array.device("shared", "b")


def test_a_detached_disk_has_no_device_and_can_go_to_another_node(
    array: DiskArray, devices: SimulatedDevices
):
    array.attach("d", "a")
    array.detach("d", "a")
    assert list(devices.kernel.iterdir()) == []
    array.attach("d", "b")
    assert array.attachments() == {"d": ("b",)}


@pytest.mark.parametrize(("disk", "node"), [("d", "b"), ("d", "never seen"), ("x", "a")])
def test_detaching_what_is_not_attached_is_success(array: DiskArray, disk: str, node: str):
    array.attach("d", "a")
    array.detach(disk, node)
    assert array.attachments() == {"d": ("a",)}


def test_a_detach_is_refused_while_the_node_uses_the_device_and_changes_nothing(
    array: DiskArray, devices: SimulatedDevices
):
    device = os.path.realpath(array.attach("d", "a"))
    devices.busy.add(device)
    with pytest.raises(DeviceStillInUse, match=r"from node a.*held open by process 7 \(postgres\)"):
        array.detach("d", "a")
    assert array.device("d", "a") == device
    assert array.attachments() == {"d": ("a",)}


def test_a_link_that_leads_to_another_disks_device_is_no_device(array: DiskArray, tmp_path: Path):
    array.create("e", MIB)
    link = Path(array.attach("d", "a"))
    target = os.path.realpath(array.attach("e", "a"))
    link.unlink()
    link.symlink_to(target)
    assert array.device("d", "a") is None
    assert not array.shows(str(link), "d")


# --- power


def test_a_node_without_power_has_no_devices_but_keeps_what_is_attached(
    array: DiskArray, devices: SimulatedDevices
):
    array.attach("d", "a")
    array.power_off("a")
    assert (array.devices("a"), list(devices.kernel.iterdir())) == ({}, [])
    assert array.attachments() == {"d": ("a",)}
    with pytest.raises(VolumeInUse):
        array.attach("d", "b")


def test_what_is_attached_to_a_node_without_power_gets_its_device_when_power_returns(array: DiskArray):
    array.power_off("a")
    array.attach("d", "a")
    assert array.devices("a") == {}
    array.power_on("a")
    assert list(array.devices("a")) == ["d"]


def test_a_disk_of_a_node_without_power_can_be_detached(array: DiskArray):
    array.attach("d", "a")
    array.power_off("a")
    array.detach("d", "a")
    array.attach("d", "b")
    array.power_on("a")
    assert (list(array.devices("a")), list(array.devices("b"))) == ([], ["d"])


def test_power_off_removes_all_it_can_and_then_names_what_is_in_use(
    array: DiskArray, devices: SimulatedDevices
):
    array.create("e", MIB)
    devices.busy.add(os.path.realpath(array.attach("d", "a")))
    array.attach("e", "a")
    with pytest.raises(DeviceStillInUse, match="volume d "):
        array.power_off("a")
    assert list(array.devices("a")) == ["d"]
    devices.busy.clear()
    array.power_off("a")
    assert array.devices("a") == {}


def test_after_a_restart_of_the_machine_all_devices_come_back(array: DiskArray, devices: SimulatedDevices):
    array.create("e", MIB)
    array.attach("d", "a")
    array.attach("e", "b")
    array.power_off("b")
    for device in devices.kernel.iterdir():
        device.unlink()
    array.recover()
    assert (list(array.devices("a")), list(array.devices("b"))) == (["d"], [])


# --- crashes


OPERATIONS: dict[str, Callable[[DiskArray], object]] = {
    "attach": lambda array: array.attach("d", "a"),
    "attach elsewhere": lambda array: array.attach("d", "b"),
    "detach": lambda array: array.detach("d", "a"),
    "power off": lambda array: array.power_off("a"),
    "power on": lambda array: array.power_on("a"),
    "delete": lambda array: array.delete("d"),
    "create": lambda array: array.create("d", MIB),
    "create without lock": lambda array: array.create("d", MIB, exclusive=False),
}
STEPS = ("write_durably", "link_durably", "unlink_durably")


@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 12)), max_size=10))
def test_after_a_crash_at_any_step_of_any_operations_the_array_is_whole(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]]
):
    """Each operation is killed at some step (or ends before it); afterwards `_assert_safe` and
    `_assert_complete` check every guarantee."""
    root = tmp_path_factory.mktemp("array")
    with pytest.MonkeyPatch.context() as patch:
        for name, crash_at in story:
            step = _crashing_at(crash_at)
            for function in STEPS:
                patch.setattr(disk_array, function, _stepped(getattr(disk_files, function), step))
            with suppress(Crash, StorageRefused, InvalidSpec):
                OPERATIONS[name](DiskArray(root, SimulatedDevices(root / "kernel", step)))
            _assert_safe(DiskArray(root, SimulatedDevices(root / "kernel")))
    array = DiskArray(root, SimulatedDevices(root / "kernel"))
    array.recover()
    _assert_complete(array, root / "kernel")


def _crashing_at(crash_at: int) -> Callable[[], None]:
    steps = iter(range(1, 1000))

    def step() -> None:
        if next(steps) == crash_at:
            raise Crash

    return step


def _stepped(function: Callable[..., None], step: Callable[[], None]) -> Callable[..., None]:
    def stepped(*args: Any) -> None:
        step()
        function(*args)
        step()

    return stepped


def _assert_safe(array: DiskArray) -> None:
    """No node has the device of a disk that is not attached to it; an exclusive disk is on
    one node at most."""
    for name, disk in array.list().items():
        with_device = {node for node in ("a", "b") if array.device(name, node)}
        assert with_device <= set(disk.nodes)
        assert not disk.exclusive or len(disk.nodes) <= 1


def _assert_complete(array: DiskArray, kernel: Path) -> None:
    """Each attachment to a node with power has its device, and there are no others."""
    expected = [
        (name, node) for name, disk in array.list().items() for node in disk.nodes if array.powered(node)
    ]
    devices = [array.device(name, node) for name, node in expected]
    assert None not in devices
    assert sorted(map(str, devices)) == sorted(map(str, kernel.iterdir()))
