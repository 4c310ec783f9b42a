"""How many volumes an instance may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.ebs.node_service import volume_limits
from mooring.ebs.node_service.volume_limits import TypeLimit, max_volumes, of_type, others


@given(st.integers(0, 130), st.booleans(), st.integers(0, 200))
def test_what_others_take_is_not_to_be_had_and_there_is_always_one_because_none_would_mean_any_number(
    count: int, shared: bool, taken: int
):
    assert max_volumes(TypeLimit(count, shared), taken) == (count - taken if count > taken else 1)


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
