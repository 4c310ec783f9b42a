"""Mapped images as the kernel's files show them, as a kernel 6.1 does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doubles.played_rbd import KEY

from mooring.volumes.plugins.ceph.cluster import Cluster, Monitor
from mooring.volumes.plugins.rbd.devices import Devices, Mapping, order_of, without_key
from mooring.volumes.plugins.rbd.source import Image

IMAGE = Image(Cluster((Monitor("10.88.0.250"),), "pods"), "rbd", "one")
ORDER = order_of(IMAGE, ["10.88.0.250:6789"], KEY, exclusive=True)
SHOWN = {
    "client_addr": "10.88.1.1:0/2266982585",
    "client_id": "client4126",
    "cluster_fsid": "e1279faf-3cab-4483-bdd4-a3118314b1d5",
    "config_info": f"{ORDER}\n",
    "current_snap": "-",
    "features": "0x000000000000003d",
    "image_id": "10177b22ad1",
    "major": "254",
    "minor": "0",
    "name": "one",
    "pool": "rbd",
    "pool_id": "1",
    "pool_ns": "",
    "size": "67108864",
    "snap_id": "18446744073709551614",
}


@pytest.fixture
def sys_(tmp_path: Path) -> Path:
    (tmp_path / "bus/rbd/devices").mkdir(parents=True)
    for name in ("add", "add_single_major", "remove", "remove_single_major"):
        (tmp_path / "bus/rbd" / name).touch()
    return tmp_path


def show(sys_: Path, number: str = "0", **changes: str) -> None:
    directory = sys_ / "bus/rbd/devices" / number
    directory.mkdir()
    for name, text in {**SHOWN, **changes}.items():
        (directory / name).write_text(text)


def test_a_mapped_image_is_known_by_its_order_and_by_the_clusters_name_for_it(sys_: Path) -> None:
    show(sys_)
    (found,) = Devices(sys_).mappings()
    fsid = "e1279faf-3cab-4483-bdd4-a3118314b1d5"
    assert found == Mapping(
        "0", without_key(ORDER), f"{fsid}/1//10177b22ad1/18446744073709551614", 0x3D, 64 << 20
    )
    assert found.refuses
    assert KEY not in repr(found)


def test_an_image_without_exclusive_lock_refuses_no_one_else(sys_: Path) -> None:
    show(sys_, features="0x0000000000000001")
    (found,) = Devices(sys_).mappings()
    assert not found.refuses


@pytest.mark.parametrize("wrong", [{"features": ""}, {"size": "x"}, {"features": "0xzz"}])
def test_a_mapping_that_goes_while_it_is_looked_at_is_left_out(sys_: Path, wrong: dict[str, str]) -> None:
    show(sys_, **wrong)
    show(sys_, "7")
    (sys_ / "bus/rbd/devices/uevent").touch()
    assert [each.number for each in Devices(sys_).mappings()] == ["7"]


def test_orders_are_written_to_the_kernels_files(sys_: Path) -> None:
    show(sys_, "7")
    devices = Devices(sys_)
    devices.map(ORDER)
    devices.unmap(devices.mappings()[0])
    assert (sys_ / "bus/rbd/add_single_major").read_text() == ORDER
    assert (sys_ / "bus/rbd/remove_single_major").read_text() == "7"


def test_a_kernel_with_one_major_for_each_image_has_other_files(sys_: Path) -> None:
    (sys_ / "bus/rbd/add_single_major").unlink()
    Devices(sys_).map(ORDER)
    assert (sys_ / "bus/rbd/add").read_text() == ORDER


def test_without_its_driver_there_is_nothing(tmp_path: Path) -> None:
    devices = Devices(tmp_path, tmp_path)
    assert not devices.known()
    assert devices.mappings() == []
    assert not devices.in_use(Mapping("0", "", "", 0, 0))


def test_a_key_is_taken_out_of_an_order_wherever_it_is() -> None:
    assert KEY not in without_key(ORDER)
    assert without_key(without_key(ORDER)) == without_key(ORDER)
    assert without_key(order_of(IMAGE, ["a"], "", exclusive=True)) == without_key(
        order_of(IMAGE, ["a"], KEY, exclusive=True)
    )
