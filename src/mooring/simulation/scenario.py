"""The shape of a simulated cluster, and which faults may strike it. Read from a file, or the small one by default.

nodes: 3
sets: {db: 2, web: 2}        # StatefulSets and their replicas; each pod has a volume of its own
minutes: 30                  # simulated; faults strike in the first two thirds, then everything is healed
faults: 8                    # on average
actions: 8                   # of users, on average
only: [power-off, cut]       # kinds of faults; default: all that Mooring is to survive (see docs/safety.md)
weights: {drain: 3, skew: 0} # kinds of faults and actions: how often, where the others are 1
storage: array               # array, cloud (revokes), open (revokes, does not refuse), network (neither)
workloads: {web: shared}     # what a set is, if not a StatefulSet with a disk for each pod (`simulation.workloads`)
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml


class ScenarioError(Exception):
    """The scenario's file does not say what it should."""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module. Times in seconds unless said otherwise."""

    nodes: int = 3
    sets: dict[str, int] = msgspec.field(default_factory=lambda: {"db": 2, "web": 2})
    minutes: float = 30
    faults: int = 8
    actions: int = 8
    only: tuple[str, ...] = ()
    weights: dict[str, float] = {}
    workloads: dict[str, str] = {}
    storage: str = "array"
    grace_period_s: float = 40.0

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(self.nodes)]

    @property
    def end_s(self) -> float:
        return self.minutes * 60

    @property
    def heal_s(self) -> float:
        """From then on there are no faults."""
        return self.end_s * 2 / 3


def read_scenario(path: Path) -> Scenario:
    """Raises `ScenarioError`, naming the file and what is wrong."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()) or {}, Scenario)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{path}: {error}") from None
