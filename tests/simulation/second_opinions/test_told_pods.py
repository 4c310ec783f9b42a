"""The second opinion about what pods are told of their volumes: one about each wrong word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.simulation.second_opinions.test_node_operations import NAME, asked, volume

from mooring.kube.errors import Unreachable
from mooring.kube.reason import Reason
from mooring.kube.workqueue import WorkQueue
from mooring.node.volumes.decide import Action, Decision
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.orphans import OrphanedVolume
from mooring.node.volumes.pod_reports import PodReports
from mooring.node.volumes.volume import WAITING, PodOperation, WantedVolume
from mooring.simulation.checks.second_opinions import told_pods
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.run import play

ERROR = ValueError("no room")
ATTACH = Decision(Action.WAIT_FOR_ATTACH, Reason("WaitingForAttach", "not attached yet"), frozenset({"a"}))
SET_UP = Decision(Action.SET_UP, WAITING, frozenset({"a"}))


def waiting(message: str) -> WantedVolume:
    made = volume()
    made.wants["a"].problem = Reason("FailedMount", message)
    return made


def step(made: WantedVolume, decision: Decision, answer: bool | Exception) -> list[str]:
    manager = asked(made)
    found = [*told_pods.step_taken(answer, manager, made, decision)]
    error = answer if isinstance(answer, Exception) else None
    return [*found, *told_pods.reconciled(error, manager, NAME)]


def test_a_pod_that_waits_says_for_what():
    assert step(waiting("not attached yet"), ATTACH, False) == []
    assert step(waiting("no room"), ATTACH, False) != []
    assert step(waiting("no room"), SET_UP, ERROR) == []
    assert step(waiting("not attached yet"), SET_UP, ERROR) != []
    assert step(waiting("not attached yet"), SET_UP, OrphanedVolume("told once")) == []
    made = waiting("not attached yet")
    assert [*told_pods.step_taken(ERROR, asked(made), made, SET_UP)] == []
    assert step(made, SET_UP, True) == [], "the next step has succeeded"
    assert [*told_pods.reconciled(None, asked(), NAME)] == [], "it is forgotten"


def test_what_was_not_about_the_volume_is_looked_at_again_soon():
    async def looked_at(seconds: float | None) -> list[str]:
        made, queue = waiting("no answer"), WorkQueue[str]()
        manager = asked(made)
        manager._queue = queue
        if seconds is not None:
            queue.add_after(NAME, seconds)
        assert [*told_pods.step_taken(Unreachable("no answer"), manager, made, SET_UP)] == []
        return [*told_pods.reconciled(None, manager, NAME)]

    assert asyncio.run(looked_at(1.0)) == asyncio.run(looked_at(0.0)) == []
    assert asyncio.run(looked_at(123.0)) != []
    assert asyncio.run(looked_at(None)) != []


def of_pod(story: Callable[[PodOperation], list[str]]) -> list[str]:
    async def told() -> list[str]:
        failed = PodOperation(Action.SET_UP)
        failed.failed(asyncio.get_running_loop().time())
        return story(failed)

    return asyncio.run(told())


def test_what_has_failed_for_a_pod_rests_and_is_said():
    def failed(made: WantedVolume, operation: PodOperation, error: Exception = ERROR) -> list[str]:
        return [*told_pods.failed_for_pod(None, asked(made), made, "a", operation, error)]

    assert of_pod(lambda rests: failed(waiting("no room"), rests)) == []
    assert of_pod(lambda rests: failed(waiting("else"), rests)) != []
    assert of_pod(lambda rests: failed(waiting("else"), rests, OrphanedVolume("x"))) == []
    assert of_pod(lambda rests: failed(waiting("no room"), PodOperation(Action.SET_UP))) != []


def test_what_has_failed_is_tried_at_once_if_something_has_changed_meanwhile():
    def failed(*, roused: bool) -> list[str]:
        made = waiting("no room")
        operation = made.begin("a", Action.SET_UP)
        made.rouse("a")
        assert [*told_pods.changed(None, made, "a")] == []
        operation.roused = roused
        operation.failed(asyncio.get_running_loop().time())
        found = [*told_pods.failed_for_pod(None, asked(made), made, "a", operation, ERROR)]
        assert [*told_pods.operated(None, asked(made), (NAME, "a"))] == []
        return found

    assert of_pod(lambda _: failed(roused=True)) == []
    assert of_pod(lambda _: failed(roused=False)) != []


def test_a_pod_that_has_its_volume_waits_for_nothing_and_nothing_is_under_way():
    def over(made: WantedVolume) -> list[str]:
        return [*told_pods.operated(None, asked(made), (NAME, "a"))]

    assert over(volume()) == []
    assert over(waiting("no room")) != []
    failed = waiting("no room")
    failed.begin("a", Action.SET_UP).rests(10.0)
    assert over(failed) == [], "a remount has failed"
    failed.begin("a", Action.SET_UP)
    assert over(failed) != []
    assert [*told_pods.operated(None, asked(), (NAME, "a"))] == []


def test_an_event_says_to_which_size_a_file_system_has_grown():
    def growth(size: str | None, told: str | None) -> list[str]:
        any_of: Any = None
        made = volume()
        assert [*told_pods.grown(size, any_of, any_of, made)] == []
        found = [] if told is None else [*told_pods.growth_told(None, any_of, made, ["a"], told)]
        return [*found, *told_pods.growth_over(None, any_of, made, SET_UP)]

    assert growth(None, None) == growth("2Gi", "2Gi") == []
    assert growth("2Gi", None) != []
    assert growth("2Gi", "1Gi") != []
    assert growth(None, "None") != []


FAILS = Scenario(
    nodes=1,
    zones=1,
    sets={"db": 1},
    workloads={"db": "growing"},
    minutes=12,
    faults=0,
    actions=0,
    steps=(
        PlanStep(60.0, "mount-fails", "n0", 5.0, how=1),
        PlanStep(60.1, "delete-pod", "db"),
        PlanStep(120.0, "mount-fails", "n0", 5.0),
        PlanStep(120.1, "delete-pod", "db"),
        PlanStep(200.0, "grow-claim", "db"),
    ),
)


@pytest.mark.parametrize("word", ["waiting", "failed", "over"])
def test_an_agent_that_does_not_say_one_of_these_is_found(monkeypatch: pytest.MonkeyPatch, word: str):
    assert play(1, FAILS).violations == []
    monkeypatch.setattr(PodReports, word, lambda *said: None)
    assert play(1, FAILS).invariants == ["D7"]


def test_an_agent_that_tells_of_growth_where_nothing_has_grown_is_found(monkeypatch: pytest.MonkeyPatch):
    grow: Callable[..., Awaitable[None]] = VolumeManager._grow  # pyright: ignore[reportPrivateUsage]

    async def tells(manager: VolumeManager, made: WantedVolume, decision: Decision) -> None:
        await grow(manager, made, decision)
        vars(manager)["_reports"].grown(made, decision.pods, None)

    monkeypatch.setattr(VolumeManager, "_grow", tells)
    assert "D7" in play(1, replace(FAILS, steps=())).invariants


def test_an_agent_that_tells_of_no_growth_is_found(monkeypatch: pytest.MonkeyPatch):
    async def silent(manager: VolumeManager, made: WantedVolume, decision: Decision) -> None:
        made.to_grow = False
        held = vars(manager)
        await held["_operations"].grow(held["_client"], made)

    monkeypatch.setattr(VolumeManager, "_grow", silent)
    assert "D7" in play(1, FAILS).invariants
