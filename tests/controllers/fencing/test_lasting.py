"""For how long a condition has been as it is: as long as it was seen to be so, whatever its time says."""

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


@pytest.mark.parametrize("ago", [-3600.0, 0.0, 3600.0])
def test_it_has_lasted_for_as_long_as_it_was_seen_whatever_its_time_says(fencing: Fencing, ago: float):
    """6210043 of `fencing.yaml`: the clock of who writes conditions was an hour ahead. By one that is an hour
    behind each condition would have lasted for that hour at once, and the node be fenced."""

    async def story(stage: Any) -> None:
        lasting, seen = Lasting(), unknown(stage, ago)
        assert lasting.of(node(), "Ready", seen) == 0
        await asyncio.sleep(30)
        assert lasting.of(node(), "Ready", seen) == pytest.approx(30)

    fencing(story)


@pytest.mark.parametrize("what", ["status", "time", "uid", "forgotten"])
def test_it_begins_anew_with_another_state_and_another_registration(fencing: Fencing, what: str):
    async def story(stage: Any) -> None:
        lasting, seen = Lasting(), unknown(stage, -3600)
        lasting.of(node(), "Ready", seen)
        await asyncio.sleep(30)
        if what == "status":
            lasting.of(node(), "Ready", Condition(type="Ready", status="True"))
        elif what == "forgotten":
            lasting.forget("a")
        elif what == "time":  # it was otherwise meanwhile, and this process has not seen it
            seen = unknown(stage, -3601)
        assert lasting.of(node("u2" if what == "uid" else "u1"), "Ready", seen) == 0

    fencing(story)
