"""The ways of searching: single faults, bounded exhaustion, and campaigns that go on where they were
stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.simulation.cluster.fault_points import KINDS
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.run import play
from mooring.simulation.search import exhaustive, searches, systematic
from mooring.simulation.search.campaign import campaign, in_batches, play_batch
from mooring.simulation.search.progress import SavedProgress, SavedProgressError
from mooring.simulation.search.summary import Summary

SMALL, STORY = systematic.SMALL, systematic.story(systematic.SMALL)
FENCED = systematic.FENCED
SOAK = bool(os.environ.get("MOORING_SOAK"))
TINY = Scenario(nodes=1, sets={"db": 1}, minutes=6, faults=2, actions=2)


def test_the_points_of_a_run_are_the_same_each_time():
    assert systematic.points(SMALL, STORY) == systematic.points(SMALL, STORY)


def test_a_fault_at_a_point_strikes_there_and_leaves_what_was_before_as_it_was():
    plain = play(0, SMALL, plan=STORY, choices={}, noted=True)
    point = next(p for p in plain.points if p.part == "attaching" and p.what.startswith("POST /apis/storage"))
    for kind in KINDS["request"]:
        fault = play(
            0,
            SMALL,
            plan=(PlanStep(0, kind, point.part, how=point.number), *STORY),
            choices={},
            noted=True,
            lines=True,
        )
        before = plain.points.index(point) + 1
        assert fault.points[:before] == plain.points[:before]
        assert fault.counts["plan.point"] == 1
        assert fault.digest != plain.digest
        assert fault.violations == []


def test_a_list_of_a_lagging_replica_is_as_of_before_and_what_it_lacked_follows():
    plan = (PlanStep(25, "kill", "attaching", 20.0), *STORY)  # its second life lists what there is at 45 s
    plain = play(0, SMALL, plan=plan, choices={}, noted=True)
    lists = [p for p in plain.points if p.part == "attaching" and p.group == "list" and p.at > 45]
    pods = next(p for p in lists if p.what.endswith("/pods"))
    fault = play(0, SMALL, plan=(PlanStep(0, "list-stale", "attaching", how=pods.number), *plan), choices={})
    assert fault.digest != plain.digest
    assert fault.violations == plain.violations == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_single_faults_of_the_attaching_side_violate_nothing():
    passed = [
        point for point in systematic.points(SMALL, STORY) if point.part == "attaching" and point.at > 29
    ]
    jobs = systematic.jobs(passed, STORY)
    some = jobs if SOAK else jobs[::20]
    summary = campaign(in_batches(some), SMALL, work=play_batch, workers=1)
    assert summary.runs == len(some) > 10
    assert summary.failed == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_single_faults_of_the_fencing_controller_violate_nothing_while_a_node_is_fenced():
    plan = systematic.story(FENCED)
    passed = systematic.points(FENCED, plan)
    ordered = [point for point in passed if 30 < point.at < 60 and point.group == "request"]
    jobs = systematic.jobs(passed if SOAK else ordered, plan)
    some = jobs if SOAK else jobs[::20]
    summary = campaign(in_batches(some), FENCED, work=play_batch, workers=1)
    assert summary.runs == len(some) > 5
    assert summary.failed == []


def test_the_node_of_the_fencing_story_is_fenced_its_pod_moves_and_it_comes_back():
    outcome = play(0, FENCED, plan=systematic.story(FENCED), choices={}, lines=True)
    assert outcome.violations == []
    told = [line.split()[2:] for line in outcome.lines]
    ordered = next(number for number, each in enumerate(told) if each[1] == "truth.ordered")
    node = told[ordered][2].removeprefix("node=")
    started = [(number, each[0]) for number, each in enumerate(told) if each[1] == "truth.started"]
    assert [where for number, where in started if number < ordered] == [node]
    assert next(where for number, where in started if number > ordered) != node
    assert [node, "truth.power", "on=True"] in told[ordered:]


def test_branches_that_come_out_the_same_are_not_followed_and_all_others_are_told_of():
    nodes = exhaustive.roots(2)
    assert all(node.depth == 2 for node in nodes)
    summary = exhaustive.search(nodes[-1:], SMALL)
    assert summary.runs >= 1
    assert summary.failed == []


def test_what_is_done_is_not_done_again(tmp_path: Path):
    done: list[int] = []

    def work(batch: list[int], scenario: Scenario) -> Summary:
        done.extend(batch)
        return Summary(runs=len(batch), counts={"x": 1})

    for most in (4, 10):
        saved = SavedProgress(tmp_path, "numbers")
        summary = campaign(in_batches(range(most), 2), TINY, work=work, workers=1, saved=saved)
    assert done == [*range(10)]
    assert summary.runs == 10
    assert summary.counts == {"x": 5}


def test_the_progress_of_another_search_is_refused(tmp_path: Path):
    SavedProgress(tmp_path, "one").write()
    with pytest.raises(SavedProgressError, match="another campaign"):
        SavedProgress(tmp_path, "two")


def test_several_workers_play_what_one_plays():
    one, two = (searches.random(range(4), TINY).run(workers=workers) for workers in (1, 2))
    assert (one.runs, one.steps, one.counts) == (two.runs, two.steps, two.counts)
