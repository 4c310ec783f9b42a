"""A played machine finds a disk where it is, and nowhere else: a path that was a disk's may be nothing's, and
then another disk's."""

from __future__ import annotations

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
