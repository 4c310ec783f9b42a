"""Mutants of the controllers of DaemonSets, Jobs and PodDisruptionBudgets."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.controllers.daemonset import controller as daemonset
from mooring.controllers.daemonset.pod_decision import Action
from mooring.controllers.disruption import decide as disruption
from mooring.controllers.job.view import View
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch


def _notes_forgotten(original: Any) -> Any:
    def init(self: Any, job: Any, pods: Any) -> None:
        original(self, job, pods)
        self.noted = frozenset()

    return init


def _ending_counts_as_ended(original: Any) -> Any:
    def init(self: Any, job: Any, pods: Any) -> None:
        original(self, job, pods)
        self.only_failed_are_replaced = False

    return init


def _nothing_spent(original: Any) -> Any:
    def disrupted(*args: Any) -> Any:
        _, overdue, again = original(*args)
        return {}, overdue, again

    return disrupted


def _one_pod_each_and_no_other(original: Any) -> Any:
    made: set[tuple[str, str]] = set()

    def decide(daemon_set: Any, *args: Any) -> Any:
        found = []
        for each in original(daemon_set, *args):
            place = (daemon_set.uid, each.node)
            if each.action is Action.CREATE and place in made:
                continue
            if each.action is Action.CREATE:
                made.add(place)
            found.append(each)
        return found

    return decide


MUTANTS: dict[str, Mutant] = {
    "J1": Mutant(
        "a pod of a Job that is noted and still has its finalizer is noted again",
        "kubernetes/enhancements#2307: counting with finalizers",
        ("S21",),
        scenarios.JOBS,
        (Patch(View, "__init__", _notes_forgotten),),
    ),
    "J2": Mutant(
        "with podReplacementPolicy Failed, a pod that is being deleted is replaced while it may still run",
        "kubernetes/enhancements#3939",
        ("S21",),
        scenarios.JOBS,
        (Patch(View, "__init__", _ending_counts_as_ended),),
    ),
    "J3": Mutant(
        "the status of a budget is counted without the evictions that were granted",
        "upstream's disruption controller: status.disruptedPods",
        ("S22",),
        scenarios.GUARDED,
        (Patch(disruption, "_disrupted", _nothing_spent),),
    ),
    "J4": Mutant(
        "a DaemonSet makes one pod for a node, and none when that is gone",
        "upstream's daemonset controller: failed and lost pods are replaced",
        ("L9",),
        scenarios.DAEMONS,
        (Patch(daemonset, "decide", _one_pod_each_and_no_other),),
        omits="a node without its pod is no harm at any moment; it is one that lasts",
    ),
}
