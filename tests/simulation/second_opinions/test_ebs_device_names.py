"""Second opinions about the device names that volumes are given."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections

from mooring.ebs.controller_service.device_names import NAMES, OWN_NAMES, DeviceNames, canonical
from mooring.simulation.checks.second_opinions import ebs_device_names
from mooring.simulation.checks.second_opinions.ebs_device_names import (
    ALL,
    OWN,
    of_a_name,
    of_a_refusal,
    of_an_end,
    of_success,
    plain,
)

steps = st.lists(
    st.tuples(st.sampled_from(["give", "refused", "worked", "end"]), st.integers(0, 9), st.integers(0, 40))
)


def test_the_names_are_those_that_can_be_given() -> None:
    assert [f"/dev/xvd{name}" for name in ALL] == [*NAMES]
    assert [f"/dev/xvd{name}" for name in OWN] == [*OWN_NAMES]


@pytest.mark.parametrize("device", ["/dev/sdb", "xvdba", "/dev/xvdb", "hdc", "/dev/nvme1n1"])
def test_a_name_is_read_in_all_its_spellings(device: str) -> None:
    assert plain(device) == canonical(device)


@given(steps, st.integers(0, 20), st.integers(0, 1))
def test_what_is_given_refused_and_let_go_is_not_objected_to(
    steps: list[tuple[str, int, int]], seed: int, few: int
) -> None:
    names, now, given_to = DeviceNames(random.Random(seed).random), 0.0, dict[str, str]()
    in_use = [f"/dev/sd{canonical(name)}" for name in NAMES[: len(NAMES) - 4]] * few
    with objections(ebs_device_names.QUESTIONS) as found:
        for kind, number, pause in steps:
            now, volume = now + pause, f"vol-{number}"
            if kind == "give" and (name := names.give("i-1", volume, in_use, now)):
                given_to[volume] = name
            elif kind == "end":
                names.end("i-1", volume, now)
            elif volume in given_to and kind == "worked":
                names.worked("i-1", given_to[volume], now)
            elif volume in given_to:
                names.refused("i-1", given_to[volume], now)
    assert found == []


def told(names: Any, answer: str | None, *in_use: str, now: float = 0.0) -> bool:
    """Whether it is objected to that vol-9 gets that name."""
    return bool([*of_a_name(answer, names, "i-1", "vol-9", in_use, now)])


def after(*steps: tuple[Any, ...]) -> Any:
    """Names of which the opinion has heard these steps."""
    names = DeviceNames(lambda: 0.0)
    with objections(ebs_device_names.QUESTIONS):
        for name, *asked in steps:
            getattr(names, name)("i-1", *asked)
    return names


@pytest.mark.parametrize(
    ("answer", "in_use"),
    [
        ("/dev/xvdaa", ("/dev/sdaa",)),
        ("/dev/sdab", ()),
        ("/dev/xvdb", ()),
        ("/dev/xvda", ()),
        (None, ()),
        ("/dev/xvdaa", (*NAMES,)),
    ],
)
def test_a_name_that_is_taken_is_none_or_comes_later_is_objected_to(
    answer: str | None, in_use: tuple[str, ...]
) -> None:
    assert told(after(), answer, *in_use)


def test_a_name_on_its_way_to_another_volume_is_objected_to() -> None:
    assert told(after(("give", "vol-1", (), 0.0)), "/dev/xvdaa")


def test_a_name_out_of_turn_is_objected_to() -> None:
    assert not told(after(("give", "vol-1", (), 0.0)), "/dev/xvdab")
    assert told(after(("give", "vol-1", (), 0.0)), "/dev/xvdac")


def test_a_refused_name_is_objected_to_for_an_hour_unless_it_has_worked() -> None:
    refused = ("refused", "/dev/sdaa", 0.0)
    assert told(after(refused), "/dev/xvdaa", now=3599.0)
    assert not told(after(refused), "/dev/xvdaa", now=3600.0)
    assert not told(after(refused, ("worked", "/dev/xvdaa", 1.0)), "/dev/xvdaa", now=2.0)


def test_a_name_that_is_kept_after_its_end_is_objected_to() -> None:
    names = after(("give", "vol-1", (), 0.0))
    said = [*of_an_end(None, names, "i-1", "vol-1", 0.0)]
    assert said == [
        "aa of i-1 was let go, and may be given at once",
        "a name of i-1 is kept for vol-1, which has ended",
    ]


def test_a_name_that_was_let_go_is_objected_to_for_half_a_minute() -> None:
    let_go = ("give", "vol-1", (), 0.0), ("end", "vol-1", 0.0), ("refused", "/dev/xvdz", 0.0)
    assert told(after(*let_go), "/dev/xvdaa", now=29.0)
    assert not told(after(*let_go), "/dev/xvdaa", now=30.0)


def test_a_name_that_works_and_counts_as_refused_is_objected_to() -> None:
    names = after(("refused", "/dev/xvdba", 0.0))
    assert len([*of_success(None, names, "i-1", "/dev/xvdba", 5.0)]) == 1


def test_a_name_that_is_refused_and_does_not_count_so_is_objected_to() -> None:
    names = after(("worked", "/dev/xvdba", 0.0))
    assert len([*of_a_refusal(None, names, "i-1", "/dev/xvdba", 5.0)]) == 1
