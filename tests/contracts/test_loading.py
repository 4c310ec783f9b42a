"""What is not needed is not loaded: a machine that boots waits for what its agent loads, a user for what the
command line does."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("botocore", "cryptography", "grpc", "pysnmp")
"""Of what the commands can need."""
ROOMS = ("mooring.apiserver", "mooring.cloud", "mooring.controllers", "mooring.ebs", "mooring.simulation")
AGENT = "from mooring.cli import main, parts; from mooring.kube import config; from mooring.node import run"


def loaded(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("program", ["import mooring.cli.main", "import mooring.cli.nodes"])
def test_the_command_line_loads_no_room_and_nothing_heavy_before_it_knows_the_command(program: str):
    assert not loaded(program) & {*HEAVY, *ROOMS, "mooring.node", "aiohttp"}


def test_a_node_agent_loads_nothing_heavy_that_it_may_never_need():
    assert not loaded(AGENT) & {*HEAVY, *ROOMS}
