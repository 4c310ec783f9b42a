"""Mutants of the node agent: which pods it believes to be its own, and what it does about those that are
not."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.kube.client import Client
from mooring.kube.objects import Pod
from mooring.node.pods.worker import PodWorker
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch


def _any_version_will_do(original: Any) -> Any:
    def watch(self: Any, kind: Any, *args: Any, **given: Any) -> Any:
        of_a_node = given.get("field_selector", "").startswith("spec.nodeName=")
        if kind is Pod and of_a_node and given.get("initial_events"):
            given["resource_version"] = "0"
        return original(self, kind, *args, **given)

    return watch


def _clear_away_orphans(original: Any) -> Any:
    def mark_all(self: Any) -> None:
        known = {pod.uid for pod in self._pods.items()}
        for uid in sorted(self._directories() - known):
            for path in (self._options.root_dir / "pods" / uid).rglob("*"):
                if path.is_file():
                    path.unlink()  # a directory on which something is mounted cannot be removed
        original(self)

    return mark_all


MUTANTS: dict[str, Mutant] = {
    "B32": Mutant(
        "an agent that starts removes what is in the directories of pods that are gone, through what is mounted there",
        "kubernetes/kubernetes#12155",
        ("S16",),
        scenarios.RESTARTS,
        (Patch(PodWorker, "mark_all", _clear_away_orphans),),
    ),
    "B34": Mutant(
        "an agent that starts is content with a list of its pods that may be old",
        "kubernetes/kubernetes#59848",
        ("S1",),
        scenarios.OLD_LISTS,
        (Patch(Client, "watch", _any_version_will_do),),
    ),
}
