"""A three-member etcd, and a PostgreSQL with a standby, under faults: nothing acknowledged is lost. That the
checks can fail is shown by a run in which the software acknowledges before it syncs.

Reduced in `make test-machines`; with MOORING_SOAK half an hour of each. Prints the seed; MOORING_SEED repeats
the same faults.
"""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest
from tests.machines.stateful.plan import FAULTS, Family
from tests.machines.stateful.run import Options, Report, missing, run, table

SOAK = bool(os.environ.get("MOORING_SOAK"))
SECONDS = 1800 if SOAK else 20
LONGEST_S = 20 if SOAK else 6
LAZY = "-c synchronous_commit=off -c wal_writer_delay=10s"
"""Of PostgreSQL: a commit is answered, and on disk within ten seconds. What is on disk stays sound."""
KIND = os.environ.get("MOORING_MACHINES", "")
QUICK = frozenset(
    {
        "stop_api_server",
        "kill_api_server",
        "lock_store",
        "double_controllers",
        "kill_controllers",
        "kill_agent",
    }
    | {"lose_power", "lose_all_power", "force_delete_pod", "cut_from_api", "cut_from_peers"}
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.soak,
    pytest.mark.timeout(3000 if SOAK else 400),
]


def played(options: Options) -> Report:
    if problem := missing(options.software):
        pytest.skip(f"needs {problem}")
    return asyncio.run(run(options, lambda line: print(line, flush=True)))


@pytest.mark.parametrize("software", ["etcd", "postgres"])
def test_nothing_acknowledged_is_lost_under_faults(software: str, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("MOORING_SEED", "0")) or int.from_bytes(os.urandom(4))
    faults = tuple(fault for fault in FAULTS if SOAK or fault.name in QUICK)
    report = played(Options(software, seed, SECONDS, KIND, LONGEST_S, faults))
    with capsys.disabled():
        print(f"\n  {software}, seed {seed}\n{table(report)}")
    assert report.verdict == "kept", (report.violations, report.doubts)
    assert report.acknowledged > 0
    assert report.played
    if SOAK:
        assert {fault.family for fault in FAULTS if fault.name in report.played} == set(Family) - unplayable(
            report
        )


def unplayable(report: Report) -> set[Family]:
    """Families of which these machines can have no fault."""
    return set(Family) - {fault.family for fault in FAULTS if fault.name not in report.left_out}


def test_a_database_that_acknowledges_before_it_syncs_is_found_out_when_power_is_lost() -> None:
    lost = tuple(fault for fault in FAULTS if fault.name == "lose_all_power")
    report = played(Options("postgres", 3, 1, "", 3, lost, flags=LAZY))
    assert any("rows that were acknowledged" in each for each in report.violations), table(report)
    assert not any("does not go on" in each for each in report.violations), table(report)
    shutil.rmtree(report.kept_in)
