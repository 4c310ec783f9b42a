"""Whole clusters under faults: reproducible, and nothing is violated."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from weakref import ReferenceType, ref

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.cluster.scenario_file import ScenarioError, read_scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.array_plugin import Array
from mooring.simulation.run import play
from mooring.simulation.search import stored_run
from mooring.simulation.search.campaign import campaign
from mooring.simulation.search.summary import Summary

SHORT = Scenario(minutes=12, faults=10)
SEEDS = range(300) if os.environ.get("MOORING_SOAK") else range(3)
DIGESTS = """
from mooring.simulation.run import play
from mooring.simulation.cluster.scenario import Scenario
runs = [(0, Scenario(minutes=6)), (2, Scenario(minutes=6)), (101, Scenario(swarm=True)), (104, Scenario(swarm=True))]
print([play(seed, scenario).digest for seed, scenario in runs])
"""


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_under_random_faults_no_invariant_is_violated(seed: int):
    outcome = play(seed, SHORT)
    assert outcome.violations == [], [str(step) for step in outcome.plan]


def test_a_seed_gives_the_same_trace_under_any_hash_seed():
    def digests(hash_seed: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        return subprocess.Popen(
            [sys.executable, "-c", DIGESTS],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    runs = [run.communicate() for run in [digests("0"), digests("4711")]]
    assert runs[0] == runs[1]
    assert runs[0][0].startswith("['")


def test_nothing_of_a_run_is_left_when_it_is_over():
    traces: list[ReferenceType[Trace]] = []
    play(0, SHORT, observe=lambda trace: traces.append(ref(trace)))
    gc.collect()
    assert [trace() for trace in traces] == [None]


def test_in_one_process_garbage_is_collected_between_runs_alone_and_afterwards_as_before():
    gc.enable()
    seen: list[bool] = []

    def work(batch: list[int], scenario: Scenario) -> Summary:
        seen.append(gc.isenabled())
        return Summary()

    campaign([[1], [2]], SHORT, workers=1, work=work)
    assert (seen, gc.isenabled(), gc.get_freeze_count()) == ([False, False], True, 0)


def test_a_stored_run_is_played_again_from_its_choices(tmp_path: Path):
    outcome = play(1, SHORT)
    path = stored_run.write(tmp_path, stored_run.stored(outcome))
    assert stored_run.read(path).play().digest == outcome.digest


def test_what_the_storage_has_taken_away_is_attached_anew_when_that_is_verified():
    one = Scenario(nodes=1, sets={"db": 1}, minutes=12)
    outcome = play(0, one, plan=(PlanStep(60, "array-takes-away", "n0", 5),))
    assert outcome.violations == []
    assert [outcome.counts[f"truth.{what}"] for what in ("attached", "detached", "mounted")] == [2, 1, 2]


def test_what_was_said_of_a_machine_that_is_lost_for_good_is_not_taken_back():
    plan = (PlanStep(60, "power-off", "n2", 115, 1), PlanStep(110, "lose-machine", "n2", 0, 0))
    outcome = play(0, Scenario(minutes=12), plan=plan, lines=True)
    assert outcome.violations == []
    declared = [line for line in outcome.lines if "plan.declared" in line]
    assert declared
    assert not [line for line in declared if "out=False" in line]


def test_a_broken_cluster_is_found(monkeypatch: pytest.MonkeyPatch):
    """An array that lets a second node attach, and detaches what is mounted, must not go unnoticed."""

    def detach(self: Array, disk: str, node: str) -> None:
        """Says that it has, and has not."""

    monkeypatch.setattr(Array, "_do_detach", detach)
    outcome = play(1, SHORT)
    assert "S13" in outcome.invariants


def test_a_violation_is_told_by_the_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(Array, "_do_detach", lambda self, disk, node: None)
    scenario = tmp_path / "s.yaml"
    scenario.write_text("minutes: 6\nnodes: 2\nsets: {db: 1}\nfaults: 2\nactions: 6\n")
    answer = CliRunner().invoke(cli, ["simulate", str(scenario), "--seeds", "2", "--workers", "1"])
    assert answer.exit_code == 1
    assert "S13" in answer.output


def test_a_scenario_that_is_misspelt_names_the_field(tmp_path: Path):
    path = tmp_path / "s.yaml"
    path.write_text("node: 3\n")
    with pytest.raises(ScenarioError, match="node"):
        read_scenario(path)
