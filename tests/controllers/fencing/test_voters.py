"""Which peers are asked about a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mooring.controllers.fencing.voters import voters_of
from mooring.volumes.peers import MOST_PEERS

Rule = Callable[[str, Mapping[str, str]], tuple[str, ...]]
NAMES = st.integers(0, 40).map("node-{}".format)
WORLDS = st.dictionaries(NAMES, st.sampled_from(["", "z-1", "z-2", "z-3"]), max_size=25)


def holds(rule: Rule, target: str, zones: dict[str, str], more: str, its: str) -> None:
    """What a choice of voters has to keep."""
    found = rule(target, zones)
    others = {name: zone for name, zone in zones.items() if name != target}
    assert len(found) == len(set(found)) == min(MOST_PEERS, len(others))
    assert set(found) <= set(others)
    zones_asked = {zones[each] for each in found}
    assert len(zones_asked) == min(MOST_PEERS, len(set(others.values()))), "across zones"
    assert rule(target, dict(reversed(zones.items()))) == found, "the order of the list says nothing"
    if more not in (target, *zones):
        after = rule(target, {**zones, more: its})
        assert set(after) - set(found) <= {more}, "a node more moves no others"
        assert len(set(found) - set(after)) <= 1


CASES = given(NAMES, WORLDS, NAMES, st.sampled_from(["", "z-1", "z-4"]))


@settings(max_examples=300)
@CASES
def test_five_peers_of_as_many_zones_as_there_are_and_one_node_moves_one(
    target: str, zones: dict[str, str], more: str, its: str
):
    holds(voters_of, target, zones, more, its)


def _first_names(target: str, zones: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(set(zones) - {target})[:MOST_PEERS])


def _with_itself(target: str, zones: Mapping[str, str]) -> tuple[str, ...]:
    return (target, *voters_of(target, zones))[:MOST_PEERS]


def _by_number(target: str, zones: Mapping[str, str]) -> tuple[str, ...]:
    names = sorted(set(zones) - {target})
    start = hash(target) % max(len(names), 1)
    return tuple((names[start:] + names[:start])[:MOST_PEERS])


def _all(target: str, zones: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(set(zones) - {target}))


@pytest.mark.parametrize("wrong", [_first_names, _with_itself, _by_number, _all])
def test_a_wrong_choice_is_found_out(wrong: Rule):
    @settings(
        max_examples=300,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    @CASES
    def tried(target: str, zones: dict[str, str], more: str, its: str) -> None:
        holds(wrong, target, zones, more, its)

    with pytest.raises(AssertionError):
        tried()


def test_no_node_is_asked_about_all_others():
    names = {f"node-{number}": "" for number in range(100)}
    asked = [each for target in names for each in voters_of(target, names)]
    assert max(asked.count(each) for each in names) < 20
