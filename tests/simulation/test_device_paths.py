"""A played machine finds a disk where it is, and nowhere else: a path that was a disk's may be nothing's, and
then another disk's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import LocalChannel
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.simulation.parts.csi_driver import DEVICE_PATH, csi_node_service
from mooring.simulation.parts.storage import Array

OLD, NEW = "/dev/d1", "/dev/d0"


def array_with_a_disk_at(path: str) -> Array:
    array = Array()
    array.short_paths = True
    array.create("v")
    array.appear("v", "n1", path)
    return array


def test_a_disk_is_found_where_it_is():
    assert array_with_a_disk_at(OLD).at_path(OLD, "n1", "v") == "v"


def test_a_disk_that_the_storage_took_away_is_not_found():
    array = array_with_a_disk_at(OLD)
    array.take_away("n1")
    assert array.at_path(OLD, "n1", "v") == ""


def test_a_disk_that_has_come_back_at_another_path_is_not_found_at_its_former_one():
    """Found by the simulation: it was, so a mount began with that path, which was another disk's when the
    mount took effect."""
    array = array_with_a_disk_at(OLD)
    array.take_away("n1")
    array.appear("v", "n1")
    assert (array.at_path(OLD, "n1", "v"), array.at_path(NEW, "n1", "v")) == ("", "v")


def test_another_disk_at_the_path_is_found_in_its_place():
    array = array_with_a_disk_at(OLD)
    array.take_away("n1")
    array.create("w")
    array.appear("w", "n1", OLD)
    assert array.at_path(OLD, "n1", "v") == "w"


def test_what_a_node_should_not_have_is_found_so_that_its_mount_is_judged():
    assert Array().at_path(OLD, "n1", "v") == "v"


def stage(array: Array, staging: Path) -> None:
    """The CSI driver's node service gets the volume ready, which was attached at the former path."""
    request = csi.NodeStageVolumeRequest(
        volume_id="v", staging_target_path=str(staging), publish_context={DEVICE_PATH: OLD}
    )
    request.volume_capability.block.SetInParent()
    request.volume_capability.access_mode.mode = csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
    node = Client(LocalChannel(csi_node_service(array, "n1"))).node
    asyncio.run(node.node_stage_volume(request, timeout_s=5))


@pytest.mark.parametrize("follower", ["", "w"])
def test_a_csi_driver_finds_by_its_name_what_has_come_back_at_another_path(tmp_path: Path, follower: str):
    """Found by the simulation: not if another disk was at the former path by then, so a pod waited for good.
    No controller can ask a CSI driver where a volume is now."""
    array = array_with_a_disk_at(OLD)
    array.take_away("n1")
    array.appear("v", "n1")
    if follower:
        array.create(follower)
        array.appear(follower, "n1", OLD)
    stage(array, tmp_path)
    assert array.mounted == {("v", "n1")}


def test_a_csi_driver_takes_no_other_disk_for_one_that_is_not_there(tmp_path: Path):
    array = array_with_a_disk_at(OLD)
    array.take_away("n1")
    array.create("w")
    array.appear("w", "n1", OLD)
    with pytest.raises(CsiError, match="and not v"):
        stage(array, tmp_path)
    assert array.mounted == set()
