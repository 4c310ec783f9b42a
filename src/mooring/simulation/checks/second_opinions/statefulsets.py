"""What is decided about StatefulSets, by upstream's documentation of them.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.controllers.statefulset import controller
from mooring.kube.objects import StatefulSet
from mooring.simulation.checks.second_opinions.question import Question


def of_revision(answer: str, stateful_set: StatefulSet, ordinal: int, revision: str) -> Iterator[str]:
    """Pods whose ordinal is below the partition stay at the former template, all others get the new one."""
    former = stateful_set.status.current_revision or revision
    update, first = stateful_set.spec.update_strategy, 0
    if stateful_set.spec.ordinals is not None:
        first = stateful_set.spec.ordinals.start
    expected = revision
    if update.type == "RollingUpdate" and ordinal - first < update.rolling_update.partition:
        expected = former
    if answer != expected:
        yield f"pod {ordinal} of {stateful_set.name} is made of {answer}, and not of {expected}"


QUESTIONS = (Question(controller, "revision_for", of_revision),)
