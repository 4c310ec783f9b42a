"""Clusters whose storage is a cloud's, by the EBS driver: reproducible, nothing is violated, and what is
broken is found."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import mooring
from mooring.ebs.ec2.settling import SETTLE_S
from mooring.simulation.cluster.cloud_faults import LAGS_S, cloud_settings
from mooring.simulation.cluster.plan import EC2_FAULTS, OF_ARRAY, PlanStep, make_plan
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.scenario_file import ScenarioError, read_scenario
from mooring.simulation.engine.randomness import stream
from mooring.simulation.parts.ec2 import LATEST_S
from mooring.simulation.run import Outcome, play
from mooring.simulation.search import searches, stored_run, systematic
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.mutants.hunt import hunt

EXAMPLE = Path(mooring.__file__).parents[2] / "examples" / "simulation" / "ebs.yaml"
SOAK = bool(os.environ.get("MOORING_SOAK"))
SEEDS = range(5000, 5200) if SOAK else range(5000, 5003)
CALM = Scenario(driver="ebs", zones=1, nodes=2, sets={"db": 1}, minutes=8, faults=0, actions=0)
OF_DRIVER = ("B61", "B63a", "B63b", "E1", "E2", "E3", "E4", "E5")
QUICK = ("B61", "B63b", "E1")


def played(*steps: PlanStep, scenario: Scenario = CALM) -> Outcome:
    """A calm cluster, in which the volume's pod moves once, and these steps."""
    plan = sorted(
        [PlanStep(60.0, "drain", "n0"), PlanStep(120.0, "uncordon", "n0"), *steps], key=lambda step: step.at
    )
    return play(0, scenario, plan=tuple(plan), choices={}, lines=True)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_under_random_faults_no_invariant_is_violated(seed: int):
    outcome = play(seed, read_scenario(EXAMPLE))
    assert outcome.violations == [], [str(step) for step in outcome.plan]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", OF_DRIVER if SOAK else QUICK)
def test_a_mutant_of_the_driver_is_killed(name: str):
    assert hunt(name, first=50_000, most=60 if SOAK else 12).killed


def test_a_seed_gives_the_same_trace_again_also_from_its_choices(tmp_path: Path):
    scenario = msgspec.structs.replace(read_scenario(EXAMPLE), minutes=12)
    outcome = play(5, scenario)
    assert play(5, scenario).digest == outcome.digest
    path = stored_run.write(tmp_path, stored_run.stored(outcome))
    assert stored_run.read(path).play().digest == outcome.digest


def test_volumes_move_and_everything_that_checkers_look_at_comes_to_pass():
    outcome = played()
    assert outcome.violations == []
    assert outcome.guarded.keys() >= {"S7", "S9", "S10", "S13", "S20'"}
    assert all(outcome.guarded[name] for name in ("S7", "S9", "S13", "S20'"))
    assert outcome.counts["truth.attached"] >= 2


@pytest.mark.parametrize("what", EC2_FAULTS)
@pytest.mark.parametrize("how", [0, 1])
def test_what_befalls_ec2_while_a_volume_moves_passes(what: str, how: int):
    assert played(PlanStep(58.0, what, "ec2", 40.0, how)).violations == []


@pytest.mark.parametrize("at", [1.0, 61.5])
@pytest.mark.parametrize("what", ["kill", "crash", "freeze", "two-leaders", "cut", "cut-replies", "storm"])
def test_what_befalls_the_driver_s_process_passes(what: str, at: float):
    assert played(PlanStep(at, what, "ebs", 20.0, 1)).violations == []


def test_a_process_that_is_gone_refuses_calls_and_its_successor_goes_on():
    outcome = played(PlanStep(61.0, "kill", "ebs", 30.0))
    assert outcome.violations == []
    moved = next(line for line in outcome.lines if "truth.mounted" in line and "n1" in line)
    assert float(moved.split()[1]) > 90.0


def test_the_driver_s_calls_of_ec2_are_points_of_a_run():
    scenario = systematic.SMALL_CLOUD
    plan = systematic.story(scenario)
    of_driver = [point for point in systematic.points(scenario, plan) if point.part == "ebs"]
    assert {"POST /ec2/CreateVolume", "POST /ec2/AttachVolume", "POST /ec2/DetachVolume"} <= {
        point.what for point in of_driver
    }
    changes = [point for point in of_driver if "Describe" not in point.what]
    for job in systematic.jobs(changes[:: 1 if SOAK else 3], plan):
        outcome = play(0, scenario, plan=job.plan, choices={})
        assert outcome.violations == [], job.plan


def test_a_systematic_search_on_a_cloud_has_more_points_than_one_on_an_array():
    found = searches.systematic("ebs")
    assert found.scenario == systematic.SMALL_CLOUD
    assert found.size > searches.systematic().size


def test_a_volume_that_a_broken_driver_leaves_behind_is_found():
    lost = {"faults": [{"action": "DeleteVolume"}]}
    scenario = msgspec.structs.replace(CALM, cloud=lost)
    with MUTANTS["E4"].applied():
        outcome = played(PlanStep(150.0, "delete-claim", "db"), scenario=scenario)
    assert outcome.invariants == ["S9"]


def test_a_plan_for_a_cloud_has_faults_of_ec2_in_place_of_those_of_an_array():
    kinds = {step.what for seed in range(60) for step in make_plan(seed, Scenario(driver="ebs"))}
    assert kinds.isdisjoint(OF_ARRAY)
    assert kinds >= set(EC2_FAULTS)
    assert {step.what for seed in range(60) for step in make_plan(seed, Scenario())}.isdisjoint(EC2_FAULTS)


def test_a_cloud_is_never_later_than_the_driver_allows():
    assert max(*LAGS_S, LATEST_S) < SETTLE_S


def test_what_a_scenario_says_of_the_cloud_goes_before_what_is_drawn():
    scenario = Scenario(driver="ebs", cloud={"volumes_lag_s": 3.5, "instance_type": "t3.micro"})
    settings = cloud_settings(scenario, stream(0, "cloud settings"))
    assert (settings.volumes_lag_s, settings.instance_type) == (3.5, "t3.micro")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("driver: ebs\nzones: 4\n", "zones"),
        ("driver: ebs\ncloud: {volume_lag_s: 4}\n", "volume_lag_s"),
        ("driver: ebs\nonly: [array-stalls]\n", "array-stalls"),
        ("only: [ec2-slow]\n", "ec2-slow"),
        ("driver: ebs\nworkloads: {db: static}\n", "static"),
    ],
)
def test_a_scenario_that_cannot_be_played_on_a_cloud_says_why(tmp_path: Path, text: str, named: str):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=named):
        read_scenario(path)
