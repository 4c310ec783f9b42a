"""What another party puts on objects stays there, and a part that takes it away is found."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mooring.apiserver.store.log import Batch
from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.attacher.detaching import Detaching
from mooring.controllers.statefulset import controller as statefulset
from mooring.simulation.cluster import swarm
from mooring.simulation.cluster.careless_users import HOLD
from mooring.simulation.cluster.other_parties import GUARD, KEEPS_S, OWNED_S
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.store_log import VolatileLog
from mooring.simulation.run import play
from mooring.volumes.names import ATTACHER_FINALIZER

PASSING = Scenario(nodes=2, sets={"own": 2}, workloads={"own": "passing"}, minutes=12, faults=0, actions=0)
MARKED = {
    0: ["label", "annotation", "condition"],
    1: ["label", "annotation"],
    2: ["label", "annotation"],
    3: ["label", "annotation"],
    4: ["label", "annotation", "taint", "condition"],
    5: ["label", "annotation"],
    7: ["label", "annotation", "owner backup-60-data-own-1"],
    10: ["label", "annotation", "taint", "volume", "condition"],
    9: ["label", "annotation", "finalizer", "finalizer"],  # of both pods
}


@pytest.mark.parametrize("how", MARKED)
def test_each_kind_of_object_is_marked_and_keeps_it(how: int):
    marks: list[str] = []

    def observe(trace: Any) -> None:
        trace.listen("plan.marked", lambda event: marks.append(event.fields["mark"]))

    restart = PlanStep(60 + OWNED_S / 2, "restart-set", "own", 0, 0)
    marked = replace(PASSING, steps=(PlanStep(60, "mark", "own", 0, how), restart))
    outcome = play(0, marked, observe=observe)
    assert (outcome.violations, marks) == ([], MARKED[how])
    assert outcome.guarded["S43"] > 0
    assert outcome.guarded["S43'"] == ("volume" in marks)


def test_a_controller_that_writes_its_owners_in_the_place_of_all_is_found(monkeypatch: pytest.MonkeyPatch):
    whole = statefulset.claim_owners

    def only_ours(*args: Any, **options: Any) -> Any:
        found = whole(*args, **options)
        return found and [each for each in found if each.get("kind") != "ConfigMap"]

    monkeypatch.setattr(statefulset, "claim_owners", only_ours)
    scale = PlanStep(60 + OWNED_S / 2, "scale", "own", 0.0, 0)
    outcome = play(0, replace(PASSING, steps=(PlanStep(60, "mark", "own", 0, 7), scale)))
    assert "S43" in outcome.invariants


def test_an_attacher_that_writes_its_finalizer_in_the_place_of_all_is_found(monkeypatch: pytest.MonkeyPatch):
    whole = AttacherController._store_intent  # pyright: ignore[reportPrivateUsage]

    async def only_ours(controller: Any, record: Any) -> Any:
        bare = replace(record, metadata=replace(record.metadata, finalizers=()))
        return await whole(controller, bare)

    monkeypatch.setattr(AttacherController, "_store_intent", only_ours)
    steps = (PlanStep(60, "mark", "own", 0, 9), PlanStep(80, "restart-set", "own", 0, 0))
    assert any("S43" in play(seed, replace(PASSING, steps=steps)).invariants for seed in range(8))


def test_an_attacher_that_takes_all_finalizers_from_what_it_lets_go_of_is_found(
    monkeypatch: pytest.MonkeyPatch,
):
    whole = Detaching._release  # pyright: ignore[reportPrivateUsage]

    async def with_all(detaching: Any, record: Any) -> None:
        bare = replace(record, metadata=replace(record.metadata, finalizers=(ATTACHER_FINALIZER,)))
        await whole(detaching, bare)

    monkeypatch.setattr(Detaching, "_release", with_all)
    delete = PlanStep(92, "delete-pod", "own", 0, 0)
    steps = (PlanStep(60, "mark", "own", 0, 9), PlanStep(80, "restart-set", "own", 0, 0), delete)
    assert any("S43" in play(seed, replace(PASSING, steps=steps)).invariants for seed in range(4))


def test_it_lets_go_also_of_what_it_was_not_told_for_long_to_be_there(monkeypatch: pytest.MonkeyPatch):
    """The API server's disk fails just when the finalizer is written, for longer than that is to stay."""
    append, fault = VolatileLog.append, {"what": "fail-store", "on": "server"}
    traces: list[Trace] = []
    struck: list[VolatileLog] = []

    def fails(log: VolatileLog, batch: Batch) -> Any:
        if log not in struck and any(GUARD.encode() in record.body for record in batch.records):
            struck.append(log)
            log.broken = True
            traces[-1]("plan", "plan.step", **fault, value=KEEPS_S + 14, how=0)
            asyncio.get_running_loop().call_later(KEEPS_S + 14, works, log)
        return append(log, batch)

    def works(log: VolatileLog) -> None:
        log.broken = False
        traces[-1]("plan", "plan.over", **fault)

    monkeypatch.setattr(VolatileLog, "append", fails)
    again, end = PlanStep(80, "restart-set", "own", 0, 0), PlanStep(300, "scale", "own", 0.0)
    held = replace(PASSING, steps=(PlanStep(60, "mark", "own", 0, 9), again, end))
    assert [play(seed, held, observe=traces.append).violations for seed in range(4)] == [[]] * 4
    assert len(struck) == 4


def test_a_user_who_lets_go_of_a_record_leaves_the_finalizer_of_another_party_there():
    """Two parties hold one VolumeAttachment, and the one that came later lets go first."""
    hold = PlanStep(92, "hold", "own", 2.0, 2)
    steps = (PlanStep(60, "mark", "own", 0, 9), PlanStep(80, "restart-set", "own", 0, 0), hold)
    held: set[frozenset[str]] = set()

    def observe(trace: Trace) -> None:
        trace.listen("store.written", lambda event: held.add(_finalizers(event)))

    both = replace(PASSING, steps=steps)
    assert [play(seed, both, observe=observe).violations for seed in range(4)] == [[]] * 4
    assert any({HOLD, GUARD} <= each for each in held)


def _finalizers(event: Event) -> frozenset[str]:
    return frozenset(msgspec.json.decode(event.fields["_body"])["metadata"].get("finalizers", ()))


def test_every_second_seed_of_the_swarm_in_which_users_act_has_another_party():
    drawn = [swarm.drawn(seed, Scenario(swarm=True)) for seed in range(60)]
    marks = [(bool(each.actions), sum(step.what == "mark" for step in each.steps)) for each in drawn]
    acted = [number for acts, number in marks if acts]
    assert set(acted) == {0, 6}
    assert len(acted) / 3 < acted.count(6) < 2 * len(acted) / 3
    assert {number for acts, number in marks if not acts} == {0}
