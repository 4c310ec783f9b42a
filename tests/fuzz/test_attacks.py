"""Attacks on a running server: each is answered, by no error of the server's own, and others are served
meanwhile."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from tests.fuzz.attacks import ATTACKS, MAPS, prepare
from tests.fuzz.run import MOST_GROWN_MIB, resident_mib
from tests.fuzz.served import Served, served
from tests.fuzz.stalls import watched

PATIENT_CPU_S = 0.5
"""Ten times what is promised, for a machine that does much else; each attack took seconds before there were
limits."""
QUICK = (
    "yaml: brackets", "yaml: aliases", "json: a million lists", "json: many owners", "json patch: doubling copies",
    "json patch: too many operations", "strategic: an order", "apply: wide, and gone", "custom: a pattern",
    "selector: many terms", "query: a long path", "list: a table", "protobuf: a long varint", "gzip: a bomb",
)  # fmt: skip
CHOSEN = sorted(ATTACKS) if os.environ.get("MOORING_SOAK") else QUICK


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with served(tmp_path_factory.mktemp("attacked")) as one:
        prepare(one)
        yield one


@pytest.mark.soak
@pytest.mark.parametrize("name", CHOSEN)
def test_an_attack_is_answered_and_holds_nobody_up(server: Served, name: str) -> None:
    resting = resident_mib()
    with watched() as stalls:
        answer = ATTACKS[name](server)
    assert 0 < answer.status < 500, answer
    assert stalls.longest < PATIENT_CPU_S, stalls
    assert resident_mib() - resting < MOST_GROWN_MIB
    assert server.send("GET", f"{MAPS}/m").status == 200
