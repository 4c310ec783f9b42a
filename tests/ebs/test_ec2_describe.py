"""The questions that the driver asks EC2."""

from __future__ import annotations

import pytest

from mooring.ebs.ec2.describe import could_be, poll_pause_s


@pytest.mark.parametrize("batching", [True, False])
def test_pauses_between_questions_grow_to_a_quarter_of_a_minute_and_stay_there(batching: bool) -> None:
    pauses = [poll_pause_s(batching, asked) for asked in range(5000)]
    assert pauses == sorted(pauses)
    assert set(pauses[100:]) == {15.0}


def test_in_a_batch_what_is_soon_over_is_asked_about_at_each_occasion_and_alone_never_at_once() -> None:
    assert poll_pause_s(True, 0) == 0
    assert poll_pause_s(False, 0) == 1


def test_an_id_is_one_that_ec2_can_have_given() -> None:
    assert could_be("vol", "vol-0123abcd")
    assert could_be("vol", "vol-0123456789abcdef0")
    for id in ("vol-0123", "vol-0123456789abcdef", "i-0123abcd", "vol-0123abcd\n", "vol-0123ABCD"):
        assert not could_be("vol", id)
