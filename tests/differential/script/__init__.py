"""The script: every request that both servers must answer alike, by subject. Order matters: each builds on
the last."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.script import (
    bad_input,
    basics,
    patches,
    pods,
    runtime_classes,
    volumes,
    watches,
    workloads,
)
from tests.differential.steps import Step

_SUBJECTS: dict[str, Sequence[Step]] = {
    "basics": basics.STEPS,
    "patches": patches.STEPS,
    "pods": pods.STEPS,
    "volumes": volumes.STEPS,
    "workloads": workloads.STEPS,
    "watches": watches.STEPS,
    "bad-input": bad_input.STEPS,
    "runtime-classes": runtime_classes.STEPS,
}

SCRIPT: list[tuple[str, Step]] = [
    (f"{subject}-{number:03}", step)
    for subject, steps in _SUBJECTS.items()
    for number, step in enumerate(steps, 1)
]
"""Every step with its name."""
