"""Each target with what its corpus holds, and with some hundred inputs made of it; long rounds with
MOORING_SOAK."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.fuzz.mutation import mutated
from tests.fuzz.run import MOST_GROWN_MIB, Measured, corpus_of, resident_mib

HERE = Path(__file__).parent
TARGETS = sorted(path.stem for path in (HERE / "targets").glob("[a-z]*.py"))
SOAK = bool(os.environ.get("MOORING_SOAK"))
COUNTS = {"http_server": 40, "requests": 400, "kubeconfig": 60}
"""How many inputs are made, where it is not a thousand: these take longer for each."""
SEED = int(os.environ.get("MOORING_SEED", Random().getrandbits(32)))
PATIENT_CPU_S = 1.0
"""Far above what any input takes, and far below what one takes whose cost grows with the square of its
size."""


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_breaks_a_property_takes_long_or_leaves_much_behind(target: str) -> None:
    print(f"seed {SEED}")
    module: Any = import_module(f"tests.fuzz.targets.{target}")
    inputs = corpus_of(HERE / "corpus" / target, module.SEEDS)
    measured, random = Measured(module.check), Random(SEED)
    measured.warm(inputs)
    resting = resident_mib()
    for _ in range(COUNTS.get(target, 1000) * (100 if SOAK else 1)):
        data = mutated(random, inputs)
        try:
            measured(data)
        except Exception as error:
            raise AssertionError(f"seed {SEED}: {data!r}") from error
    assert measured.longest < PATIENT_CPU_S
    assert resident_mib() - resting < MOST_GROWN_MIB
