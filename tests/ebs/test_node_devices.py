"""Which device is which volume, on machines whose kernel says it in other ways: played below a directory for
/sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from ebs_machine import OTHER, VOLUME
from played_disks import LINK, PlayedDisks

from mooring.csi.errors import Code, CsiError
from mooring.ebs.node_service.devices import DeviceFinder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedDisks:
    return PlayedDisks(tmp_path, monkeypatch)


def serial(volume: str) -> str:
    return volume.replace("-", "")


def refused(machine: PlayedDisks, volume: str, name: str = "/dev/xvdba") -> CsiError:
    with pytest.raises(CsiError) as caught:
        machine.finder.find(volume, name)
    return caught.value


def test_an_nvme_disk_is_found_by_its_link(machine: PlayedDisks):
    device = machine.disk("nvme1n1", serial(VOLUME))
    machine.link(VOLUME, "nvme1n1")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device


def test_an_nvme_disk_is_found_by_its_serial_number_where_nobody_makes_links(machine: PlayedDisks):
    machine.disk("nvme0n1", serial(OTHER))
    device = machine.disk("nvme1n1", serial(VOLUME))
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device
    assert machine.finder.find(VOLUME) == device


def test_a_link_to_a_disk_with_another_serial_number_is_not_followed(machine: PlayedDisks):
    machine.disk("nvme1n1", serial(OTHER))
    machine.link(VOLUME, "nvme1n1")
    error = refused(machine, VOLUME)
    assert error.code is Code.FAILED_PRECONDITION
    assert f"which is {OTHER}" in error.message


def test_the_serial_number_goes_before_a_stale_link(machine: PlayedDisks):
    machine.disk("nvme1n1", serial(OTHER))
    device = machine.disk("nvme2n1", serial(VOLUME))
    machine.link(VOLUME, "nvme1n1")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device


def test_an_instance_store_disk_is_no_volume(machine: PlayedDisks):
    machine.disk("nvme1n1", "AWS1234567890ABCDEF0")
    (machine.dev / "xvdba").symlink_to(machine.dev / "nvme1n1")
    assert refused(machine, VOLUME).code is Code.FAILED_PRECONDITION


def test_a_xen_disk_is_known_by_the_name_it_was_attached_under_alone(machine: PlayedDisks):
    device = machine.disk("xvdba")
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device
    assert refused(machine, VOLUME, "/dev/xvdbb").code is Code.NOT_FOUND


def test_a_xen_guest_calls_sdf_xvdf(machine: PlayedDisks):
    device = machine.disk("xvdf")
    assert machine.finder.find(VOLUME, "/dev/sdf") == device


def test_a_link_out_of_the_device_directory_is_not_followed(machine: PlayedDisks, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    machine.node(elsewhere, (259, 99))
    (machine.dev / "xvdba").symlink_to(elsewhere)
    (machine.dev / (LINK + serial(VOLUME))).symlink_to(elsewhere)
    assert refused(machine, VOLUME).code is Code.NOT_FOUND


def test_a_partition_is_named_as_the_kernel_names_it(machine: PlayedDisks):
    device = machine.disk("nvme1n1", serial(VOLUME), partitions=2)
    assert machine.finder.find(VOLUME, "/dev/xvdba", partition=2) == f"{device}p2"
    xen = machine.disk("xvdba", partitions=1)
    assert machine.finder.find(OTHER, "/dev/xvdba", partition=1) == f"{xen}1"


def test_a_mounted_partition_is_its_disks_volume(machine: PlayedDisks):
    device = machine.disk("nvme1n1", serial(VOLUME), partitions=1)
    assert machine.finder.volume_at(machine.number("nvme1n1p1"), VOLUME) == f"{device}p1"
    assert machine.finder.volume_at(machine.number("nvme1n1"), VOLUME) == device
    assert machine.finder.volume_at(machine.number("nvme1n1p1"), OTHER) is None


def test_a_device_that_has_gone_is_nobodys(machine: PlayedDisks):
    assert machine.finder.disk_of((259, 77)) is None
    assert machine.finder.volume_at((259, 77), VOLUME) is None


def test_without_sysfs_no_device_counts_as_gone(tmp_path: Path):
    with pytest.raises(CsiError, match="needs sysfs"):
        DeviceFinder(tmp_path, tmp_path / "none").disk_of((259, 1))


@pytest.mark.parametrize(
    "volume", ["", "vol-", "VOL-0123", "vol-01/../x", "vol-01\n", "snap-0123", "v1", "vol-*"]
)
def test_what_cannot_be_an_id_has_no_device(machine: PlayedDisks, volume: str):
    machine.disk("xvdba")
    assert refused(machine, volume).code is Code.NOT_FOUND


# --- what a device is proved by


@pytest.mark.parametrize("end", ["", "-ns-1", "_1"])
def test_links_are_found_as_udev_makes_them_and_prove_a_disk_that_says_nothing(
    machine: PlayedDisks, end: str
):
    device = machine.disk("nvme1n1")
    machine.link(VOLUME, "nvme1n1", end)
    assert machine.finder.find(VOLUME) == device
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device


def test_a_disk_that_says_nothing_and_to_which_links_of_two_volumes_lead_is_neither(machine: PlayedDisks):
    device = machine.disk("nvme1n1")
    for volume in (VOLUME, OTHER):
        machine.link(volume, "nvme1n1")
    error = refused(machine, VOLUME)
    assert error.code is Code.FAILED_PRECONDITION
    assert f"leads to {device}, to which links of {VOLUME}, {OTHER} lead" in error.message
    assert error.message.count(device) == 1


def test_a_device_whose_name_no_disk_has_is_passed_over(machine: PlayedDisks):
    machine.disk("dm-0")
    machine.link(VOLUME, "dm-0")
    assert refused(machine, VOLUME).code is Code.NOT_FOUND


def test_links_to_other_disks_and_of_other_kinds_prove_nothing(machine: PlayedDisks):
    device = machine.disk("nvme1n1")
    machine.disk("nvme2n1")
    machine.link(OTHER, "nvme2n1")
    (machine.dev / "disk/by-id/nvme-eui.0025").symlink_to(device)
    (machine.dev / f"{LINK}other").symlink_to(device)
    machine.link(VOLUME, "nvme1n1")
    assert machine.finder.find(VOLUME) == device


def test_a_disk_of_another_name_is_not_proved_by_that_under_which_it_was_attached(machine: PlayedDisks):
    device = machine.disk("nvme1n1")
    (machine.dev / "xvdba").symlink_to(device)
    error = refused(machine, VOLUME)
    assert error.code is Code.FAILED_PRECONDITION
    assert f"{machine.dev}/xvdba leads to {device}, which does not say what it is" in error.message


def test_links_prove_a_xen_disk_to_be_another_volume_than_its_name_says(machine: PlayedDisks):
    machine.disk("xvdba")
    machine.link(OTHER, "xvdba")
    assert refused(machine, VOLUME).code is Code.FAILED_PRECONDITION


def test_the_name_of_a_xen_disk_proves_it_only_where_it_was_attached_under_that_name(machine: PlayedDisks):
    assert machine.finder.doubt("/dev/xvdba", VOLUME) != ""
    assert machine.finder.doubt("/dev/xvdba", VOLUME, named=True) == ""
    assert machine.finder.doubt("/dev/xvdbaa", VOLUME, named=True) != ""


def test_without_links_of_udevs_the_serial_number_is_enough(machine: PlayedDisks):
    device = machine.disk("nvme1n1", "VOL" + VOLUME.removeprefix("vol-").upper())
    (machine.dev / "disk/by-id").rmdir()
    assert machine.finder.find(VOLUME) == device
    machine.disk("nvme2n1")
    (machine.dev / "xvdbb").symlink_to(machine.dev / "nvme2n1")
    assert refused(machine, OTHER, "/dev/xvdbb").code is Code.FAILED_PRECONDITION


def test_a_loop_device_is_what_the_file_behind_it_is_named_after(machine: PlayedDisks):
    device = machine.disk("loop1", backing=f"/volumes/{OTHER}/{VOLUME}.img")
    (machine.dev / "xvdba").symlink_to(device)
    assert machine.finder.find(VOLUME, "/dev/xvdba") == device
    assert f"which is {VOLUME}" in refused(machine, OTHER).message


def test_of_a_disk_with_a_number_of_letters_partitions_have_a_p(machine: PlayedDisks):
    machine.disk("nvme1n1", serial(VOLUME))
    with pytest.raises(CsiError, match="nvme1n1 has no partition 3") as caught:
        machine.finder.find(VOLUME, partition=3)
    assert caught.value.code is Code.NOT_FOUND


def test_a_device_of_the_machines_own_folder_is_named_there(machine: PlayedDisks, tmp_path: Path):
    """Where an instance has links alone, its devices are in /dev."""
    machine.disk("nvme1n1", serial(VOLUME))
    links = tmp_path / "links"
    links.mkdir()
    (links / "nvme1n1").symlink_to(machine.dev / "nvme1n1")
    finder = DeviceFinder(links, machine.sys)
    assert finder.disk_of(machine.number("nvme1n1")) == "/dev/nvme1n1"
    assert machine.finder.disk_of(machine.number("nvme1n1")) == f"{machine.dev}/nvme1n1"


def test_a_mounted_xen_disk_passes_and_one_that_has_gone_does_not(machine: PlayedDisks):
    device = machine.disk("xvdba")
    number = machine.number("xvdba")
    assert machine.finder.volume_at(number, VOLUME) == device
    machine.gone("xvdba")
    assert machine.finder.volume_at(number, VOLUME) is None
    assert machine.finder.disk_of(number) is None
