"""What is undone at once is done again ever more slowly."""

from __future__ import annotations

from mooring.kube.rests import FIRST_S, LONGEST_S, Rests


def test_the_rest_grows_to_its_longest_and_ends_when_something_has_come_of_it():
    held = Rests[str]()
    found: list[float] = []
    for _ in range(7):
        held.note("c", 0.0)
        found.append(held.left(["c", "other"], 0.0))
    assert found == [0.0, FIRST_S, 2.0, 4.0, 8.0, LONGEST_S, LONGEST_S]
    assert held.left(["c"], 4.0) == LONGEST_S - 4.0
    held.end("c")
    assert held.left(["c"], 0.0) == 0.0


def test_what_was_left_alone_for_a_while_begins_anew():
    held = Rests[str]()
    for _ in range(3):
        held.note("c", 0.0)
    held.note("c", 2.0 + LONGEST_S)
    assert held.left(["c"], 2.0 + LONGEST_S) == 4.0
    held.note("c", 6.0 + 2 * LONGEST_S + 0.1)
    assert held.left(["c"], 6.0 + 2 * LONGEST_S + 0.1) == 0.0


def test_of_what_is_not_tried_any_more_nothing_is_remembered():
    rests: Rests[str] = Rests()
    for key in ("a", "b"):
        rests.note(key, 0.0)
        rests.note(key, 0.0)
    rests.end_others({"a", "c"})
    assert (len(rests), rests.left(["a"], 0.0), rests.left(["b"], 0.0)) == (1, 1.0, 0.0)
    rests.end_others(())
    assert not rests
