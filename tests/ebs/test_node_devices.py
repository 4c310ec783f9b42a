"""Which device is which volume, on machines whose kernel says it in other ways: played below a directory for
/sys."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path

import pytest
from ebs_machine import OTHER, VOLUME

from mooring.csi.errors import Code, CsiError
from mooring.ebs.node_service.devices import DeviceFinder

pytestmark = pytest.mark.root

LINK = "disk/by-id/nvme-Amazon_Elastic_Block_Store_"


class Described:
    """Nodes of block devices that do not exist, and what the kernel would say of them."""

    def __init__(self, root: Path) -> None:
        self.dev, self.sys = root / "dev", root / "sys"
        (self.dev / "disk/by-id").mkdir(parents=True)
        (self.sys / "block").mkdir(parents=True)
        (self.sys / "dev/block").mkdir(parents=True)
        self.finder = DeviceFinder(self.dev, self.sys)
        self.minor = 0

    def disk(self, name: str, serial: str = "", partitions: int = 0) -> str:
        self._node(name, self.sys / "block" / name)
        (self.sys / "block" / name / "device").mkdir()
        if serial:
            (self.sys / "block" / name / "device/serial").write_text(serial + "     \n")
        for number in range(1, partitions + 1):
            part = f"{name}{'p' if name[-1].isdigit() else ''}{number}"
            self._node(part, self.sys / "block" / name / part)
            (self.sys / "block" / name / part / "partition").write_text(f"{number}\n")
        return str(self.dev / name)

    def _node(self, name: str, described: Path) -> None:
        self.minor += 1
        described.mkdir()
        os.mknod(self.dev / name, stat.S_IFBLK | 0o600, os.makedev(259, self.minor))
        (self.sys / "dev/block" / f"259:{self.minor}").symlink_to(described)

    def link(self, volume: str, name: str) -> None:
        (self.dev / (LINK + volume.replace("-", ""))).symlink_to(self.dev / name)

    def number(self, name: str) -> tuple[int, int]:
        status = os.stat(self.dev / name)
        return os.major(status.st_rdev), os.minor(status.st_rdev)


@pytest.fixture
def machine(tmp_path: Path) -> Generator[Described]:
    yield Described(tmp_path)


def serial(volume: str) -> str:
    return volume.replace("-", "")


def refused(machine: Described, volume: str, name: str = "/dev/xvdba") -> CsiError:
    with pytest.raises(CsiError) as caught:
        machine.finder.find(volume, name)
    return caught.value


def test_an_nvme_disk_is_found_by_its_link(machine: Described):
    device = machine.disk("nvme1n1", serial(VOLUME))
    machine.link(VOLUME, "nvme1n1")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device


def test_an_nvme_disk_is_found_by_its_serial_number_where_nobody_makes_links(machine: Described):
    machine.disk("nvme0n1", serial(OTHER))
    device = machine.disk("nvme1n1", serial(VOLUME))
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device
    assert machine.finder.find(VOLUME) == device


def test_a_link_to_a_disk_with_another_serial_number_is_not_followed(machine: Described):
    machine.disk("nvme1n1", serial(OTHER))
    machine.link(VOLUME, "nvme1n1")
    error = refused(machine, VOLUME)
    assert error.code is Code.FAILED_PRECONDITION
    assert f"which is {OTHER}" in error.message


def test_the_serial_number_goes_before_a_stale_link(machine: Described):
    machine.disk("nvme1n1", serial(OTHER))
    device = machine.disk("nvme2n1", serial(VOLUME))
    machine.link(VOLUME, "nvme1n1")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device


def test_an_instance_store_disk_is_no_volume(machine: Described):
    machine.disk("nvme1n1", "AWS1234567890ABCDEF0")
    (machine.dev / "xvdba").symlink_to(machine.dev / "nvme1n1")
    assert refused(machine, VOLUME).code is Code.FAILED_PRECONDITION


def test_a_xen_disk_is_known_by_the_name_it_was_attached_under_alone(machine: Described):
    device = machine.disk("xvdba")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device
    assert refused(machine, VOLUME, "/dev/xvdbb").code is Code.NOT_FOUND


def test_a_xen_guest_calls_sdf_xvdf(machine: Described):
    device = machine.disk("xvdf")
    assert machine.finder.find(VOLUME, "/dev/sdf") == device


def test_a_link_out_of_the_device_directory_is_not_followed(machine: Described, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    os.mknod(elsewhere, stat.S_IFBLK | 0o600, os.makedev(259, 99))
    (machine.dev / "xvdba").symlink_to(elsewhere)
    (machine.dev / (LINK + serial(VOLUME))).symlink_to(elsewhere)
    assert refused(machine, VOLUME).code is Code.NOT_FOUND


def test_a_partition_is_named_as_the_kernel_names_it(machine: Described):
    device = machine.disk("nvme1n1", serial(VOLUME), partitions=2)
    assert machine.finder.find(VOLUME, "/dev/xvdba", partition=2) == f"{device}p2"
    xen = machine.disk("xvdba", partitions=1)
    assert machine.finder.find(OTHER, "/dev/xvdba", partition=1) == f"{xen}1"


def test_a_mounted_partition_is_its_disks_volume(machine: Described):
    device = machine.disk("nvme1n1", serial(VOLUME), partitions=1)
    assert machine.finder.volume_at(machine.number("nvme1n1p1"), VOLUME) == f"{device}p1"
    assert machine.finder.volume_at(machine.number("nvme1n1"), VOLUME) == device
    assert machine.finder.volume_at(machine.number("nvme1n1p1"), OTHER) is None


def test_a_device_that_has_gone_is_nobodys(machine: Described):
    assert machine.finder.disk_of((259, 77)) is None
    assert machine.finder.volume_at((259, 77), VOLUME) is None


def test_without_sysfs_no_device_counts_as_gone(tmp_path: Path):
    with pytest.raises(CsiError, match="needs sysfs"):
        DeviceFinder(tmp_path, tmp_path / "none").disk_of((259, 1))


@pytest.mark.parametrize(
    "volume", ["", "vol-", "VOL-0123", "vol-01/../x", "vol-01\n", "snap-0123", "v1", "vol-*"]
)
def test_what_cannot_be_an_id_has_no_device(machine: Described, volume: str):
    machine.disk("xvdba")
    assert refused(machine, volume).code is Code.NOT_FOUND
