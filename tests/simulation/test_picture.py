"""A run is drawn in words: of each volume what was reported and what was true, and what was violated."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.simulation_report import draw
from mooring.pictures.looks import Look
from mooring.pictures.model import Picture
from mooring.simulation.cluster.plan import ACTIONS, EC2_FAULTS, FAULTS
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.run import Outcome, play
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.picture import RunPicture
from mooring.simulation.search.stored_run import read
from mooring.simulation.search.story import Story
from mooring.simulation.search.words import STEPS, in_words, step_in_words

STORED = Path(__file__).parent / "regressions"
TINY = Scenario(nodes=2, sets={"db": 1, "web": 1}, minutes=6, faults=0, actions=0)

PLACE = {"volume": "v", "node": "n1"}


def of_run(scenario: Scenario, seed: int = 3) -> tuple[Picture, Outcome]:
    seen: list[RunPicture] = []
    outcome = play(seed, scenario, observe=lambda trace: seen.append(RunPicture(trace)))
    return seen[0].of(outcome, "a title"), outcome


def of_stored(name: str) -> Picture:
    stored, seen = read(STORED / f"{name}.json"), list[RunPicture]()
    with MUTANTS[stored.mutant].applied():
        outcome = stored.play(observe=lambda trace: seen.append(RunPicture(trace)))
    return seen[0].of(outcome, "a title")


def told(kind: str, actor: str = "n0", **fields: object) -> str:
    return in_words(Event(1, 2.0, actor, kind, fields), lambda volume: f"claim of {volume}")


@pytest.mark.parametrize("what", [*FAULTS, *EC2_FAULTS, *ACTIONS])
def test_every_fault_and_action_has_words(what: str):
    assert what in STEPS
    assert "-" not in what or what not in step_in_words(what, "n1")


def test_a_step_names_whom_it_strikes():
    assert step_in_words("slow-unmount", "n1") == "n1 unmounts slowly"


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("truth.begin", {"act": "detach", **PLACE}, "the storage begins to detach claim of v from n1"),
        ("truth.begin", {"act": "create"}, ""),
        ("truth.power", {"on": False}, "n0 loses power"),
        ("truth.written", {**PLACE, "committed": True}, ""),
        ("truth.written", {**PLACE, "committed": False}, "a write of n1 to claim of v is lost"),
        ("asked.write", {"volume": "v"}, ""),
    ],
)  # fmt: skip
def test_an_event_is_told_in_words_or_not_at_all(kind: str, fields: dict[str, object], words: str):
    assert told(kind, **fields) == words


def test_a_pod_runs_while_one_of_its_containers_does():
    now = [0.0]
    trace = Trace(lambda: now[0])
    story = Story(trace)
    for at, what, container in (
        (1, "started", "a"),
        (2, "started", "b"),
        (3, "ended", "a"),
        (5, "ended", "b"),
    ):
        now[0] = at
        trace("n0", f"truth.{what}", pod="db-0", uid="u", node="n0", container=container, disks="v")
    assert story.runs["db-0"] == [(1, 5, "n0")]
    assert story.pods["v"] == {"db-0"}


def test_a_write_that_took_no_effect_is_lost_only_where_the_volume_is_mounted():
    trace = Trace(lambda: 4.0)
    story = Story(trace)
    for mounted in (True, False):
        trace("n0", "truth.written", volume="v", node="n0", mounted=mounted, committed=False)
    assert story.losses["v", "n0"] == [4.0]


def test_a_run_without_violations_shows_every_volume_under_its_claim():
    drawn, outcome = of_run(TINY)
    assert outcome.ok
    assert [group.name for group in drawn.panels[0].groups] == ["data-db-0", "data-web-0"]
    assert len(drawn.panels) == 1
    assert not drawn.listing


def test_a_machine_that_loses_power_makes_its_pod_miss_and_its_volume_wait():
    node = next(
        row.name
        for row in of_run(TINY)[0].panels[0].groups[0].rows
        if any(band.look is Look.MOUNTED for band in row.lanes[1].bands)
    )
    steps = (PlanStep(60.0, "power-off", node, 100.0),)
    drawn, _ = of_run(
        Scenario(nodes=2, sets={"db": 1, "web": 1}, minutes=6, faults=0, actions=0, steps=steps)
    )
    group = next(
        group
        for group in drawn.panels[0].groups
        if any(each.away and each.start == 60.0 for line in group.lines for each in line.stretches)
    )
    assert any(f"waited, because {node} did not answer" in shade.words for shade in group.shades)
    assert f"{node} loses power" in [mark.label for mark in drawn.panels[0].marks]


def test_a_violation_shows_its_volumes_its_moment_its_rule_and_what_came_before():
    drawn = of_stored("H3b-2")
    whole, around = drawn.panels
    assert [group.name for group in whole.groups] == ["data-db-0"]
    (moment,) = [mark for mark in whole.marks if mark.wrong]
    assert moment.label == "S7 is violated"
    assert around.start < moment.at < around.end
    assert drawn.notes[0] == "S7, at 92.011 s: detach of data-db-0 from n1 begins while it is mounted there"
    assert drawn.notes[1].startswith("The rule S7: No detach begins")
    assert drawn.notes[2] == "Not shown: 1 other volume."
    assert drawn.listing[-1].endswith("S7 is violated")
    assert any(line.endswith("Node n1 is deleted") for line in drawn.listing)
    assert not [line for line in drawn.listing if "web-0" in line or "pvc-" in line]


def test_drawing_changes_nothing():
    outcome, _ = draw(lambda observe: play(3, TINY, observe=observe))
    assert outcome.digest == play(3, TINY).digest
