"""Pods that go as soon as they are made are not made anew for ever as fast as the API answers."""

from __future__ import annotations

import pytest

from mooring.controllers.replicaset.short_lived import ShortLived
from mooring.kube.objects import Condition, Pod, PodStatus
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.rests import LONGEST_S

KEY = "default/web-1"


def pod(uid: str, *, ready: bool = False, going: bool = False) -> Pod:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    metadata = ObjectMeta(name=uid, uid=uid, deletion_timestamp="2030-01-01T00:00:00Z" if going else None)
    return Pod(metadata=metadata, status=PodStatus(conditions=conditions))


def went(known: ShortLived, times: int, now: float = 0.0, *, ready: bool = False) -> float:
    """So many went, one after the other, each as soon as it was made; the rest then."""
    for number in range(times):
        now += known.left(KEY, now)
        known.made(KEY, f"u{number}", now)
        known.look(KEY, [pod(f"u{number}", ready=ready, going=True)], now)
    return known.left(KEY, now)


@pytest.mark.parametrize("ready", [False, True])
def test_the_first_successor_comes_at_once_and_each_after_it_waits_longer(ready: bool):
    assert [went(ShortLived(), times, ready=ready) for times in range(7)] == [0, 0, 1, 2, 4, 8, 10]


@pytest.mark.parametrize("there", [[], [pod("u", going=True)]])
def test_one_that_is_gone_counts_as_one_that_goes(there: list[Pod]):
    known = ShortLived()
    went(known, 1)
    known.made(KEY, "u", 0.0)
    known.look(KEY, there, 0.0)
    assert known.left(KEY, 0.0) == 1


def test_a_pod_that_lasted_may_go_as_it_likes():
    known = ShortLived()
    went(known, 1)
    known.made(KEY, "good", 1.0)
    known.look(KEY, [pod("good", ready=True)], 2.0)
    known.look(KEY, [], 1.0 + LONGEST_S)
    assert known.left(KEY, 1.0 + LONGEST_S) == 0


def test_what_its_set_deletes_does_not_count():
    known = ShortLived()
    went(known, 1)
    known.made(KEY, "u", 0.0)
    known.deleted(KEY, "u")
    known.look(KEY, [], 0.0)
    assert known.left(KEY, 0.0) == 0


def test_pods_that_go_together_count_as_one():
    known = ShortLived()
    for number in range(50):
        known.made(KEY, f"u{number}", 0.0)
    for number in range(50):
        known.look(KEY, [pod(f"u{other}") for other in range(number + 1, 50)], 0.0)
    assert known.left(KEY, 0.0) <= 1


def test_what_is_long_past_makes_nothing_slower():
    known = ShortLived()
    went(known, 6)
    assert went(known, 1, 100.0 + LONGEST_S) == 0


def test_of_a_set_that_is_gone_nothing_is_kept():
    known = ShortLived()
    went(known, 6)
    known.forget(KEY)
    assert known.left(KEY, 0.0) == 0
