"""Snapshots and copies of played disks, alone and in clusters: users take, delete and restore them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.controllers.provisioning.originals import Originals
from mooring.simulation.cluster.plan import COPYING
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.cluster.swarm import drawn
from mooring.simulation.parts.storage import Array
from mooring.simulation.parts.storage_errors import Unanswered
from mooring.simulation.run import Outcome, play
from mooring.volumes.errors import SnapshotNotFound, StorageFull, VolumeError, VolumeNotFound

# --- the storage


class Told(list[tuple[str, dict[str, Any]]]):
    """What the array tells of its disks and snapshots."""

    def __call__(self, actor: str, kind: str, /, **fields: Any) -> None:
        self.append((kind, fields))


def of_array(story: Callable[[Array, Told], Coroutine[Any, Any, None]]) -> None:
    array, told = Array(), Told()
    array.disks.add("d")
    array.content["d"] = ["one", "two"]
    array.journal = told
    asyncio.run(story(array, told))


def test_a_snapshot_is_taken_once_however_often_it_is_asked_for_and_deleted_once():
    async def story(array: Array, told: Told) -> None:
        first, second = await asyncio.gather(*(array.snapshots.take("d", "s") for _ in range(2)))
        assert first is second
        assert first.handle == "kept-s"
        await array.snapshots.delete("kept-s")
        await array.snapshots.delete("kept-s")
        taken = {"snapshot": "kept-s", "name": "s", "volume": "d", "words": 2, "ready": True}
        assert told == [
            ("truth.snapshot-taken", taken),
            ("truth.snapshot-deleted", {"snapshot": "kept-s"}),
        ]

    of_array(story)


def test_a_snapshot_whose_answer_is_lost_is_there():
    async def story(array: Array, told: Told) -> None:
        array.unanswered = lambda: True
        with pytest.raises(Unanswered):
            await array.snapshots.take("d", "s")
        assert array.snapshots.get("kept-s").words == ("one", "two")

    of_array(story)


def test_storage_that_is_full_or_ill_takes_no_snapshot():
    async def story(array: Array, told: Told) -> None:
        with pytest.raises(VolumeNotFound):
            await array.snapshots.take("another", "s")
        array.full = True
        with pytest.raises(StorageFull):
            await array.snapshots.take("d", "s")
        array.failure = VolumeError("out of order")
        with pytest.raises(VolumeError, match="out of order"):
            await array.snapshots.take("d", "s")
        array.failure = None
        with pytest.raises(SnapshotNotFound):
            array.snapshots.get("kept-s")
        assert told == []

    of_array(story)


def test_a_snapshot_gets_ready_later_unless_it_is_deleted_before():
    async def story(array: Array, told: Told) -> None:
        array.snapshots.ready_s = 0.01
        for name in ("s", "t"):
            assert not (await array.snapshots.take("d", name)).ready
        await array.snapshots.delete("kept-t")
        with pytest.raises(SnapshotNotFound):
            array.create("early", of="kept-s")
        await asyncio.sleep(0.02)
        assert [fields for kind, fields in told if kind == "truth.snapshot-ready"] == [{"snapshot": "kept-s"}]

    of_array(story)


def test_a_copy_holds_what_its_original_held_at_that_moment():
    async def story(array: Array, told: Told) -> None:
        await array.snapshots.take("d", "s")
        array.content["d"].append("three")
        array.create("restored", of="kept-s")
        array.create("clone", of="d")
        array.create("restored", of="kept-s")
        array.content["clone"].append("four")
        assert (len(array.content["d"]), len(array.content["restored"])) == (3, 2)
        assert [fields for kind, fields in told if kind == "truth.created"] == [
            {"volume": "restored", "words": 2, "source": "kept-s"},
            {"volume": "clone", "words": 3, "source": "d"},
        ]
        for gone, error in (("kept-t", SnapshotNotFound), ("e", VolumeNotFound)):
            with pytest.raises(error):
                array.create("copy", of=gone)
        assert "copy" not in array.disks

    of_array(story)


# --- in clusters

KEPT = Scenario(nodes=2, sets={"k": 2}, workloads={"k": "kept"}, minutes=12, faults=0, actions=0)
TAKEN = PlanStep(60.0, "take-snapshot", "k", 1.0)
MANY = [PlanStep(90.0, what, "k", 30.0, how) for what in COPYING for how in (0, 2)]


def played(*steps: PlanStep, scenario: Scenario = KEPT, seed: int = 1) -> Outcome:
    return play(seed, scenario, plan=steps, lines=True)


def lines(outcome: Outcome, *words: str) -> list[str]:
    return [line for line in outcome.lines if all(word in line for word in words)]


@pytest.mark.parametrize("how", range(3))
@pytest.mark.parametrize("what", COPYING)
@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
def test_users_take_delete_and_copy(driver: str, what: str, how: int):
    outcome = played(TAKEN, PlanStep(90.0, what, "k", 4.001, how), scenario=replace(KEPT, driver=driver))
    assert outcome.violations == []
    assert lines(outcome, "truth.snapshot-taken", "words=1")
    copied = lines(outcome, "truth.created", " source=")
    assert len(copied) == (what in ("restore-snapshot", "copy-claim") and how != 1) or how == 1
    assert len(lines(outcome, "truth.deleted")) >= len(copied)


@pytest.mark.parametrize(
    "fault",
    [
        PlanStep(89.9, "array-fails", "array", 20.0),
        PlanStep(89.9, "array-full", "array", 20.0),
        PlanStep(89.9, "array-unanswered", "array", 20.0),
        PlanStep(89.9, "slow-array", "array", 20.0),
        PlanStep(90.2, "kill", "placing", 5.0),
        PlanStep(90.1, "two-leaders", "placing", 5.0),
    ],
    ids=lambda step: step.what,
)
@pytest.mark.parametrize("driver", ["plugin", "csi"])
def test_faults_strike_what_is_being_copied(driver: str, fault: PlanStep):
    assert played(TAKEN, *MANY, fault, scenario=replace(KEPT, driver=driver)).violations == []


@pytest.mark.parametrize(
    "fault",
    [
        PlanStep(89.9, "ec2-fails", "ec2", 20.0),
        PlanStep(89.9, "ec2-unanswered", "ec2", 20.0),
        PlanStep(89.9, "ec2-puts-off", "ec2", 20.0),
        PlanStep(89.9, "ec2-lags", "ec2", 20.0),
        PlanStep(90.2, "kill", "placing", 5.0),
        PlanStep(90.2, "kill", "ebs", 5.0),
    ],
    ids=lambda step: f"{step.what}-{step.on}",
)
def test_faults_strike_what_a_cloud_copies(fault: PlanStep):
    assert played(TAKEN, *MANY, fault, scenario=replace(KEPT, driver="ebs")).violations == []


def test_where_nothing_is_kept_of_a_claim_but_its_snapshot_that_holds_what_the_claim_held():
    outcome = played(PlanStep(60.0, "take-snapshot", "k", 1.0, 1))
    assert outcome.violations == []
    (taken,), gone = lines(outcome, "truth.snapshot-taken"), lines(outcome, "truth.deleted")
    assert "words=1" in taken
    assert len(gone) == 1
    assert outcome.lines.index(taken) < outcome.lines.index(gone[0])


@pytest.mark.parametrize("held", [True, False])
def test_an_original_is_there_until_it_is_copied(monkeypatch: pytest.MonkeyPatch, held: bool):
    """The storage is full for a minute, in which a user deletes the original with its pod."""

    async def nothing(self: Originals, original: object, copy: object) -> None:
        """Does not hold it."""

    if not held:
        monkeypatch.setattr(Originals, "hold", nothing)
    full, copy = PlanStep(89.9, "array-full", "array", 60.0), PlanStep(90.0, "copy-claim", "k", 1.0)
    outcome = played(full, copy, PlanStep(91.0, "delete-claim", "k"))
    had = {line.partition("volume=")[2].split()[0] for line in lines(outcome, "truth.created")[:2]}
    (copied,) = lines(outcome, "truth.created", "source=")
    assert (copied.partition("source=")[2].split()[0] in had) == held, "or it is one made anew of its name"


def test_some_seeds_have_such_workloads_and_most_of_them_users_who_copy():
    found = [drawn(seed, DEFAULT) for seed in range(60)]
    having = [each for each in found if "kept" in each.workloads.values()]
    assert len(having) >= 6
    assert {each.driver for each in having} == {"plugin", "csi", "ebs"}
    copying = [each for each in having if any(step.what in COPYING for step in each.steps)]
    assert len(copying) >= len(having) / 3


def test_a_scenario_without_such_a_workload_has_no_snapshots():
    outcome = played(scenario=replace(KEPT, workloads={"k": "disk"}, minutes=2))
    assert not lines(outcome, "volumesnapshot")
