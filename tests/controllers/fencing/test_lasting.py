"""For how long a condition has been as it is: by its own time and by what was seen, whichever says longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mooring.controllers.fencing.lasting import Lasting
from mooring.kube.objects import Condition, ManagedMeta, Node
from mooring.kube.times import format_time

Fencing = Callable[[Callable[[Any], Any]], Any]


def node(uid: str = "u1") -> Node:
    return Node(metadata=ManagedMeta(name="a", uid=uid))


def unknown(stage: Any, ago: float) -> Condition:
    at = format_time(stage.now() - timedelta(seconds=ago))
    return Condition(type="Ready", status="Unknown", last_transition_time=at)


@pytest.mark.parametrize(("ago", "lasts"), [(-3600.0, 30.0), (0.0, 30.0), (300.0, 330.0)])
def test_a_time_that_is_ahead_is_made_up_for_by_what_was_seen_and_one_that_is_not_counts(
    fencing: Fencing, ago: float, lasts: float
):
    """6210043 of `fencing.yaml`: the clock of who writes conditions was an hour ahead."""

    async def story(stage: Any) -> None:
        lasting, seen = Lasting(stage.now), unknown(stage, ago)
        lasting.of(node(), "Ready", seen)
        await asyncio.sleep(30)
        assert lasting.of(node(), "Ready", seen) == pytest.approx(lasts, abs=1)

    fencing(story)


@pytest.mark.parametrize("what", ["status", "uid", "forgotten"])
def test_it_begins_anew_with_another_state_and_another_registration(fencing: Fencing, what: str):
    async def story(stage: Any) -> None:
        lasting, seen = Lasting(stage.now), unknown(stage, -3600)
        lasting.of(node(), "Ready", seen)
        await asyncio.sleep(30)
        if what == "status":
            lasting.of(node(), "Ready", Condition(type="Ready", status="True"))
        elif what == "forgotten":
            lasting.forget("a")
        assert lasting.of(node("u2" if what == "uid" else "u1"), "Ready", seen) == 0

    fencing(story)
