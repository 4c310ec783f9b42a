"""What each seed draws for itself, and what a swarm of them meets."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.simulation.cluster.plan import ACTIONS, FENCE_ACTIONS, KEEPING, WITH_FENCES, make_plan
from mooring.simulation.cluster.scenario import DEFAULT, Scenario
from mooring.simulation.cluster.scenario_file import read_scenario
from mooring.simulation.cluster.swarm import BLOCK, WAYS, drawn, possible_pairs
from mooring.simulation.cluster.workloads import KINDS, OF_DRIVER, OF_PLUGIN
from mooring.simulation.run import play
from mooring.simulation.search import coverage, searches
from mooring.simulation.search.summary import Summary

GROUNDS = Path(__file__).parents[2] / "examples" / "simulation"
SOAK = bool(os.environ.get("MOORING_SOAK"))
SOAKED, COVERING = 2_000_000, 3_000
"""From which seed on, and how many, `make soak` plays: so that every cell of the table is filled."""


@pytest.mark.parametrize("first", [0, 20, 7_440])
def test_twenty_seeds_meet_every_driver_storage_and_kind_of_workload(first: int):
    scenarios = [drawn(seed, DEFAULT) for seed in range(first, first + 20)]
    assert {(each.driver, each.storage) for each in scenarios} == set(WAYS)
    met = {kind for each in scenarios for kind in each.workloads.values()}
    few = OF_PLUGIN | OF_DRIVER
    assert set(KINDS) - met <= few, "made by hand, and snapshots: of a plugin; attributes: of a driver"


@pytest.mark.parametrize("block", [0, 41])
def test_a_hundred_seeds_meet_every_pair_of_faults_that_can_meet(block: int):
    met: set[frozenset[str]] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        kinds = {step.what for step in make_plan(seed, drawn(seed, DEFAULT))}
        met |= {frozenset(pair) for pair in combinations(kinds, 2)}
    assert possible_pairs() - met == set()


def test_what_a_seed_draws_can_be_played_by_itself():
    scenario = drawn(3, DEFAULT)
    assert not scenario.swarm
    assert play(3, DEFAULT).digest == play(3, scenario).digest


def test_some_seeds_update_workloads_quickly_that_keep_few_templates_and_draw_nothing_else_otherwise():
    scenarios = [drawn(seed, DEFAULT) for seed in range(60)]
    found = [each for each in scenarios if each.histories]
    assert 15 <= len(found) <= 27
    for each in found:
        steps = [step for step in each.steps if step.what == "update-set"]
        assert {step.on for step in steps} == {*each.histories}
        assert all(30 <= step.at < each.heal_s for step in steps)
    others = [each for each in scenarios if not each.histories]
    assert not any(step.what == "update-set" for each in others for step in each.steps)


def test_users_of_whom_all_is_left_out_do_nothing():
    """Found by the simulation (seed 30386 of the swarm)."""
    plan = make_plan(0, Scenario(only=("kill",), weights=dict.fromkeys(ACTIONS, 0.0)))
    assert {step.what for step in plan} == {"kill"}


def test_a_scenario_that_says_what_it_is_is_left_as_it_is():
    given = Scenario(nodes=2)
    assert drawn(5, given) is given


@pytest.mark.parametrize("name", ["fencing", "fencing-by-storage"])
def test_the_fencing_grounds_draw_a_policy_and_nothing_else(name: str):
    given = read_scenario(GROUNDS / f"{name}.yaml")
    found = [drawn(seed, given) for seed in range(30)]
    assert all(replace(each, fencing={}) == given for each in found)
    assert len({str(each.fencing) for each in found}) > 20
    struck = {step.what for seed, each in enumerate(found) for step in make_plan(seed, each)}
    wanted = {
        *WITH_FENCES,
        *FENCE_ACTIONS,
        "two-leaders",
        "kill",
        "cut",
        "skew",
        "lose-machine",
        "flaps",
        "stall",
    }
    counted = {each.counts_what_nodes_move for each in found}
    assert counted == ({False, True} if name == "fencing-by-storage" else {False})
    assert struck >= wanted - (set() if True in counted else {"fence-recounts"})


def test_where_upstreams_controller_attaches_its_volumes_are_deleted_while_they_are_used():
    found = [drawn(seed, DEFAULT) for seed in range(40)]
    taken_over = [each for each in found if any(step.what == "upstream-attaches" for step in each.steps)]
    assert len(taken_over) >= 4
    for each in taken_over:
        assert each.driver == "csi"
        steps = [step for step in each.steps if step.what in ("upstream-attaches", "strip-volume")]
        for begins, stripped in zip(steps[::2], steps[1::2], strict=True):
            assert (begins.what, stripped.what) == ("upstream-attaches", "strip-volume")
            assert 40 <= stripped.at - begins.at <= 160
            assert each.workloads[stripped.on] in KEEPING


def test_the_coverage_table_counts_what_was_looked_at_after_a_fault_and_names_what_never_was():
    summary, outcome = Summary(), play(3, DEFAULT)
    for _ in range(2):
        summary.note(outcome)
    way = f"driver {outcome.scenario.driver}/{outcome.scenario.storage}"
    assert set(summary.cells) <= set(coverage.rows())
    assert len(summary.cells) > 1
    for row, cells in outcome.cells.items():
        assert {name: 2 * number for name, number in cells.items()} == summary.cells[row]
        assert all(0 <= number <= outcome.guarded[name] for name, number in cells.items())
    assert outcome.guarded == outcome.cells[way]
    looked_at = {name for name, number in outcome.guarded.items() if number}
    empty = {each.partition(": ")[2] for each in coverage.empty(summary.cells) if each.startswith(way)}
    assert empty == set(coverage.columns(fencing=False)) - looked_at


def test_what_only_a_fence_policy_brings_is_missed_only_where_there_is_one():
    assert not coverage.has_fencing({"kill node": {}})
    missed = {each.partition(": ")[2] for each in coverage.empty({"kill node": {}})}
    assert missed == set(coverage.columns(fencing=False))
    struck = {"fence-lies node": {"S17": 3}}
    assert coverage.has_fencing(struck)
    assert "fence-lies node: S17" not in coverage.empty(struck)
    assert {"fence-lies node: S18", "kill node: S17"} <= set(coverage.empty(struck))


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="some take ten seconds: `make soak` plays them")
def test_the_twenty_seeds_that_meet_each_part_violate_nothing():
    """The first of them are played in test_second_opinions.py, too."""
    summary = searches.random(range(20), DEFAULT).run(workers=1)
    assert [(each.seed, each.violations[:1]) for each in summary.failed] == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not SOAK, reason="takes many minutes: `make soak` plays them")
@pytest.mark.parametrize("fenced", [False, True])
def test_no_invariant_is_blind_after_any_fault(fenced: bool):
    ground = replace(DEFAULT, fenced=fenced)
    summary = searches.random(range(SOAKED, SOAKED + COVERING), ground).run()
    assert coverage.empty(summary.cells) == []
    assert [(each.seed, each.violations[:1]) for each in summary.failed] == []
