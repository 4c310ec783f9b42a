"""The mutations that were thought of rather than drawn, read from `hostile.yaml`: specs that mean harm, above
all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tests.differential.mutations.draw import Mutation

_FILE = Path(__file__).parent / "hostile.yaml"


def hostile() -> list[Mutation]:
    """All of them, in the order of the file."""
    found: dict[str, list[dict[str, Any]]] = yaml.safe_load(_FILE.read_text())
    return [
        _mutation(sample, where, value)
        for sample, entries in found.items()
        for each in entries
        for where, value in each.items()
    ]


def _mutation(sample: str, where: str, value: Any) -> Mutation:
    path = tuple(int(step) if step.isdigit() else step for step in where.removeprefix("=").split("."))
    return Mutation(sample, "update" if where.startswith("=") else "create", path, "set", value)
