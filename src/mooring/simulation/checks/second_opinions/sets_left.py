"""What a StatefulSet's controller would do now, though the set is not in its queue (D2): a change that should
have marked it did not.

Judged where all caches of the controller are as new as the store, as in `work_left`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import Action, decide
from mooring.kube.objects import StatefulSet
from mooring.simulation.checks.second_opinions.statefulset_steps import identities_of, names_of_claims, waits


def missed_of_sets(controller: StatefulSetController) -> Iterator[str]:
    """Sets for which something is to be done."""
    asked: Any = controller
    for each in asked._sets.items():
        if each.key not in controller.queue and (what := left_of_set(asked, each)):
            yield f"{what} of {each.key} was missed"


def left_of_set(asked: Any, stateful_set: StatefulSet) -> str:
    """A claim that a pod waits for is to be made; or else what is decided, once no claim that goes is waited
    for. Not known of a set whose template is new: its revision is not kept yet."""
    status = stateful_set.status
    if stateful_set.deleting or status.observed_generation != stateful_set.metadata.generation:
        return ""
    pods = asked._pods_of(stateful_set)
    for ordinal, pod in pods.items():
        if ordinal in identities_of(stateful_set) and waits(pod):
            missing = [key for key in _claims(stateful_set, ordinal) if asked._claims.get(key) is None]
            if missing:
                return f"claim {missing[0]}"
    for step in decide(stateful_set, pods, status.update_revision, asked.now()):
        if step.action is Action.DELETE or not _waits_for_an_end(asked, stateful_set, step.ordinal):
            return f"{step.action.value} of pod {step.ordinal}"
    return ""


def _claims(stateful_set: StatefulSet, ordinal: int) -> list[str]:
    return [f"{stateful_set.namespace}/{name}" for name in names_of_claims(stateful_set, ordinal)]


def _waits_for_an_end(asked: Any, stateful_set: StatefulSet, ordinal: int) -> bool:
    """Whether a claim of the identity is being deleted, or will be with one of its owners."""
    claims = [asked._claims.get(key) for key in _claims(stateful_set, ordinal)]
    return any(
        claim is not None
        and (claim.deleting or any(o.uid != stateful_set.uid for o in claim.metadata.owner_references))
        for claim in claims
    )
