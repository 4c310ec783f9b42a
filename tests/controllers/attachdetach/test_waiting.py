"""For whom it is news that a volume is still on its way, and for how long that is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from decided_controller import VOLUME, controller

from mooring.controllers.attachdetach.controller import _keep_only
from mooring.kube.objects import ObjectMeta, Pod

Run = Callable[[Any], Any]
P, Q = (Pod(metadata=ObjectMeta(name=name, uid=name)) for name in "pq")


def test_it_is_news_when_the_same_pods_have_waited_for_ten_seconds(run: Run, now: Any):
    async def story() -> None:
        made = controller(now)
        await asyncio.sleep(128)
        assert not made._have_waited(VOLUME, "n1", [P])
        assert made.queue.is_delayed(VOLUME), "it is looked at again in time"
        await asyncio.sleep(9)
        assert not made._have_waited(VOLUME, "n1", [P])
        await asyncio.sleep(1)
        assert VOLUME in made.queue and not made.queue.is_delayed(VOLUME)
        assert made._have_waited(VOLUME, "n1", [P])
        assert not made._have_waited(VOLUME, "n1", [P, Q]), "others, who have just begun"
        assert not made._have_waited(VOLUME, "n2", [P]), "elsewhere"
        await asyncio.sleep(10)
        assert made._have_waited(VOLUME, "n1", [P, Q])

    run(story())


def test_what_was_told_of_nodes_that_are_not_concerned_any_more_is_forgotten():
    told = {"v": {"n0": (("a",), 1.0), "n1": (("b",), 2.0)}, "w": {"n0": (("c",), 3.0)}}
    _keep_only(told, "v", {"n1", "n2"})
    assert told == {"v": {"n1": (("b",), 2.0)}, "w": {"n0": (("c",), 3.0)}}
    _keep_only(told, "v", set())
    assert told == {"w": {"n0": (("c",), 3.0)}}
    _keep_only(told, "never told", {"n0"})
    assert told == {"w": {"n0": (("c",), 3.0)}}
