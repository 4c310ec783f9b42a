"""Attributes of volumes, alone and in clusters: users name a VolumeAttributesClass, and another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.simulation.cluster.attribute_steps import HOWS
from mooring.simulation.cluster.plan import MODIFYING
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.cluster.swarm import drawn
from mooring.simulation.parts.disk_attributes import REFUSED
from mooring.simulation.parts.storage import Array
from mooring.simulation.parts.storage_errors import Infeasible, Unanswered
from mooring.simulation.run import Outcome, play
from mooring.volumes.errors import VolumeError, VolumeNotFound

# --- the storage


def of_array(story: Callable[[Array, list[str]], Coroutine[Any, Any, None]]) -> None:
    """`made`: what the storage has made of its disk, in order."""
    array, made = Array(), list[str]()

    def journal(actor: str, kind: str, /, **fields: Any) -> None:
        if kind == "truth.modified":
            made.append(fields["attributes"])

    array.disks.add("d")
    array.journal = journal
    asyncio.run(story(array, made))


def test_a_change_is_made_once_however_often_it_is_asked_for():
    async def story(array: Array, made: list[str]) -> None:
        for wanted in ("1", "1", "2", "1"):
            await array.attributes.change("d", {"b": wanted, "a": "0"})
        assert made == ["a=0,b=1", "a=0,b=2", "a=0,b=1"]

    of_array(story)


def test_a_change_whose_answer_is_lost_is_made():
    async def story(array: Array, made: list[str]) -> None:
        array.unanswered = lambda: True
        with pytest.raises(Unanswered):
            await array.attributes.change("d", {"a": "1"})
        assert made == ["a=1"]

    of_array(story)


def test_what_the_storage_does_not_know_or_cannot_do_changes_nothing():
    async def story(array: Array, made: list[str]) -> None:
        with pytest.raises(Infeasible):
            await array.attributes.change("d", {REFUSED: "1"})
        with pytest.raises(VolumeNotFound):
            await array.attributes.change("another", {"a": "1"})
        array.failure = VolumeError("out of order")
        with pytest.raises(VolumeError, match="out of order"):
            await array.attributes.change("d", {"a": "1"})
        assert made == []

    of_array(story)


def test_a_change_that_is_put_off_is_made_before_the_next_one():
    async def story(array: Array, made: list[str]) -> None:
        array.puts_off = lambda: 0.01
        with pytest.raises(VolumeError, match="internal error"):
            await array.attributes.change("d", {"a": "1"})
        array.puts_off = lambda: 0.0
        await asyncio.sleep(0)
        await array.attributes.change("d", {"a": "2"})
        assert made == ["a=1", "a=2"]

    of_array(story)


def test_a_disk_is_made_like_something_once_and_not_like_something_else():
    async def story(array: Array, made: list[str]) -> None:
        asked = array.attributes
        assert asked.may_begin("new", {"a": "1"})
        for _ in range(2):
            array.disks.add("new")
            asked.begin("new", {"a": "1"})
        await asked.change("new", {"a": "2"})
        assert asked.may_begin("new", {"a": "1"})
        assert not asked.may_begin("new", {"a": "2"})
        assert not asked.may_begin("d", {"a": "1"})
        assert made == ["a=1", "a=2"]

    of_array(story)


# --- in clusters

TUNED = Scenario(
    nodes=2, driver="csi", sets={"k": 2}, workloads={"k": "tuned"}, minutes=15, faults=0, actions=0
)
OF_EBS = replace(TUNED, driver="ebs")
FIRST = replace(TUNED, workloads={"k": "tuned-first"})


def played(*steps: PlanStep, scenario: Scenario = TUNED, seed: int = 1) -> Outcome:
    return play(seed, scenario, plan=steps, lines=True)


@pytest.mark.parametrize("scenario", [FIRST, replace(FIRST, driver="ebs")], ids=["csi", "ebs"])
def test_volumes_are_made_as_the_class_says_that_their_claims_name(scenario: Scenario):
    outcome = played(scenario=scenario)
    assert outcome.violations == []
    assert outcome.counts["truth.modified"] == 2


@pytest.mark.parametrize("scenario", [TUNED, OF_EBS], ids=["csi", "ebs"])
def test_users_name_classes_and_make_them_anew(scenario: Scenario):
    names = [PlanStep(60.0 + 40 * how, "name-attributes", "k", 5.0, how) for how in range(HOWS)]
    anew = [PlanStep(400.0 + 40 * how, "replace-attributes", "k", 5.0, how) for how in range(2)]
    outcome = played(*names, *anew, scenario=scenario)
    assert outcome.violations == []
    assert outcome.counts["truth.modified"] >= 4


@pytest.mark.parametrize(
    "fault",
    [
        PlanStep(89.9, "array-fails", "array", 20.0),
        PlanStep(89.9, "array-puts-off", "array", 20.0),
        PlanStep(89.9, "array-unanswered", "array", 20.0),
        PlanStep(89.9, "slow-array", "array", 20.0),
        PlanStep(90.2, "kill", "placing", 5.0),
        PlanStep(90.1, "two-leaders", "placing", 5.0),
    ],
    ids=lambda step: step.what,
)
def test_faults_strike_what_is_being_changed(fault: PlanStep):
    first = PlanStep(60.0, "name-attributes", "k", 1.0)
    steps = [PlanStep(90.0, "name-attributes", "k", value, how) for how in range(3) for value in (0.2, 2.0)]
    assert played(first, *steps, fault).violations == []


def test_some_seeds_have_such_workloads_and_users_who_change_them():
    found = [drawn(seed, DEFAULT) for seed in range(60)]
    having = [each for each in found if not {"tuned", "tuned-first"}.isdisjoint(each.workloads.values())]
    assert len(having) >= 3
    assert {"tuned", "tuned-first"} <= {kind for each in having for kind in each.workloads.values()}
    assert {each.driver for each in having} <= {"csi", "ebs"}
    assert all(any(step.what in MODIFYING for step in each.steps) for each in having)
