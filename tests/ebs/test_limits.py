"""How many volumes an instance may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.ebs.node_service import volume_limits
from mooring.ebs.node_service.volume_limits import TypeLimit, max_volumes, of_type, others


def test_each_network_interface_beyond_the_first_takes_a_slot_of_a_shared_type():
    assert max_volumes(TypeLimit(27, shared=True), network_interfaces=1, reserved=1) == 26
    assert max_volumes(TypeLimit(27, shared=True), network_interfaces=4, reserved=1) == 23


def test_network_interfaces_take_nothing_of_a_dedicated_type():
    assert max_volumes(TypeLimit(32, shared=False), network_interfaces=8, reserved=1) == 31


def test_others_attachments_are_not_to_be_had():
    assert max_volumes(TypeLimit(32, shared=False), network_interfaces=1, reserved=4) == 28


@given(st.integers(0, 130), st.booleans(), st.integers(0, 40), st.integers(0, 200))
def test_there_is_always_one_because_none_would_mean_any_number(
    count: int, shared: bool, interfaces: int, taken: int
):
    assert 1 <= max_volumes(TypeLimit(count, shared), interfaces, taken) <= max(1, count)


def test_volumes_of_this_driver_are_not_counted_after_a_restart():
    assert others(["xvdaa", "/dev/xvdbz", "/dev/sdca"]) == 0


def test_volumes_of_the_launch_template_are_counted():
    assert others(["sdb", "/dev/xvdb", "/dev/sdf", "xvdaa"]) == 3


@pytest.mark.parametrize(
    ("name", "count", "shared"), [("m5.large", 27, True), ("m7i.large", 32, False), ("t3.nano", 27, True)]
)
def test_the_table_has_what_ec2_says(name: str, count: int, shared: bool):
    assert of_type(name) == TypeLimit(count, shared, 1)


def test_a_type_that_is_younger_than_the_table_gets_what_most_have():
    assert of_type("x99.large") == TypeLimit(27, shared=True)


def test_every_row_of_the_table_can_be():
    assert len(volume_limits.table()) > 1000
    assert all(0 < row.attachments <= 256 and row.cards >= 1 for row in volume_limits.table().values())
