"""From changes to bands."""

from __future__ import annotations

from mooring.pictures.bands import bands, shared, silences
from mooring.pictures.looks import Look
from mooring.pictures.model import Band

ATTACHED = frozenset({Look.ATTACHED, Look.MOUNTED})


def test_a_state_lasts_until_the_next_change_or_the_end():
    held = bands([(1, "attached"), (2, "mounted"), (5, "")], 9)
    assert held == [Band(1, 2, Look.ATTACHED), Band(2, 5, Look.MOUNTED)]
    assert bands([(1, "mounted")], 9) == [Band(1, 9, Look.MOUNTED)]


def test_a_lane_in_which_nothing_happened_has_no_bands():
    assert bands([], 9) == []


def test_a_silent_node_keeps_the_state_that_it_had():
    changes = [(1, "attached, in use; node silent"), (3, "node silent")]
    assert bands(changes, 4) == [Band(1, 3, Look.IN_USE, silent=True), Band(3, 4, None, silent=True)]


def test_two_nodes_share_what_both_have_at_a_time():
    first, second = bands([(1, "attached"), (4, "")], 9), bands([(2, "attached"), (3, "mounted")], 9)
    assert [*shared([("a", first), ("b", second)], ATTACHED)] == [(2, 4, "a", "b")]


def test_one_after_the_other_share_nothing():
    first, second = bands([(1, "attached"), (2, "")], 9), bands([(2, "attached")], 9)
    assert [*shared([("a", first), ("b", second)], ATTACHED)] == []


def test_a_node_is_silent_with_a_volume_only_while_it_has_it():
    changes = [(1, "attached, in use; node silent"), (3, "detaching; node silent"), (4, "node silent")]
    assert silences(bands(changes, 9)) == [(1, 4)]
