"""What a StatefulSet's controller does for one identity: its claims, and the pod that is made when they are
there.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset: "Stable Storage". Claims are for pods
that there are to be; nothing that could not be done is left without something that has the set looked at
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.simulation.checks.second_opinions.statefulsets import first_of


@dataclass
class Asked:
    """The claims that a controller has seen to since it began with a set's."""

    claims: set[str] = field(default_factory=set[str])


ASKED = Memories(Asked)


def identities_of(stateful_set: StatefulSet) -> range:
    """The ordinals of the pods that there are to be."""
    first = first_of(stateful_set)
    return range(first, first + stateful_set.spec.replicas)


def names_of_claims(stateful_set: StatefulSet, ordinal: int) -> list[str]:
    templates = [each["metadata"]["name"] for each in stateful_set.spec.volume_claim_templates]
    return [f"{template}-{stateful_set.name}-{ordinal}" for template in templates]


def waits(pod: Pod) -> bool:
    """It may wait for a claim: it has never run, and is to."""
    return pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None


def pod_before(
    asked: StatefulSetController, stateful_set: StatefulSet, body: Mapping[str, Any], ordinal: int
) -> Pod | None:
    """The pod of the identity."""
    pods: Mapping[int, Pod] = asked._pods_of(stateful_set)  # pyright: ignore[reportPrivateUsage]
    return pods.get(ordinal)


def of_a_claim(
    answer: bool | KubeError,
    pod: Pod | None,
    asked: StatefulSetController,
    stateful_set: StatefulSet,
    body: Mapping[str, Any],
    ordinal: int,
) -> Iterator[str]:
    """A claim is seen to for a pod that is to be made, or waits; of an identity that is wanted."""
    name = body["metadata"]["name"]
    ASKED.of(asked).claims.add(name)
    if ordinal not in identities_of(stateful_set) or stateful_set.deleting:
        yield f"claim {name} is made sure of, and {stateful_set.name} is to have no pod {ordinal}"
    if pod is not None and not waits(pod):
        yield f"claim {name} is made sure of, and pod {pod.name} does not wait for it"


def begins(asked: StatefulSetController, stateful_set: StatefulSet) -> dict[int, Pod]:
    """The pods that wait. From now on it is noted which claims are seen to."""
    pods: Mapping[int, Pod] = asked._pods_of(stateful_set)  # pyright: ignore[reportPrivateUsage]
    ours = {name for ordinal in pods for name in names_of_claims(stateful_set, ordinal)}
    ASKED.of(asked).claims -= ours
    return {ordinal: pod for ordinal, pod in pods.items() if waits(pod)}


def of_missing_claims(
    answer: None, waiting: Mapping[int, Pod], asked: StatefulSetController, stateful_set: StatefulSet
) -> Iterator[str]:
    """All claims of each pod that waits, as it did before, are seen to: one that is missing would be waited
    for for ever."""
    if stateful_set.deleting:
        return
    wanted, seen_to = identities_of(stateful_set), ASKED.of(asked).claims
    for ordinal, pod in waiting.items():
        missed = [name for name in names_of_claims(stateful_set, ordinal) if name not in seen_to]
        now = pod_before(asked, stateful_set, {}, ordinal)
        still = now is not None and now.uid == pod.uid and waits(now)
        if ordinal in wanted and still and missed:
            yield f"pod {pod.name} waits, and nothing was done about its claims {missed}"


def of_a_pod(
    answer: None, asked: StatefulSetController, stateful_set: StatefulSet, ordinal: int, revision: str
) -> Iterator[str]:
    """The pod is there now, or one of its claims goes first, whose end has the set looked at; or else the set
    is looked at again by a timer."""
    if pod_before(asked, stateful_set, {}, ordinal) is not None:
        return
    claims = vars(asked)["_claims"]
    there = [
        claims.get(f"{stateful_set.namespace}/{name}") for name in names_of_claims(stateful_set, ordinal)
    ]
    if any(claim is not None and _goes(claim) for claim in there):
        return
    key, queue = stateful_set.key, asked.queue
    if not is_brought_up(queue, key):
        yield f"pod {ordinal} of {stateful_set.name} was not made, and nothing has it tried again"


def of_a_claim_that_is_gone(
    answer: None,
    asked: StatefulSetController,
    old: PersistentVolumeClaim | None,
    new: PersistentVolumeClaim | None,
) -> Iterator[str]:
    """Its set is looked at: a pod may wait for it, or may be made now."""
    if old is None or new is not None:
        return
    for each in vars(asked)["_sets"].items():
        of_set = {name for ordinal in identities_of(each) for name in names_of_claims(each, ordinal)}
        if each.namespace == old.namespace and old.name in of_set and each.key not in asked.queue:
            yield f"claim {old.key} is gone, and {each.key} is not looked at"


def _goes(claim: PersistentVolumeClaim) -> bool:
    """It is being deleted, or will be with what owns it."""
    return claim.deleting or bool(claim.metadata.owner_references)


QUESTIONS = (
    Question(StatefulSetController, "_ensure_claim", of_a_claim, before=pod_before, refusals=(KubeError,)),
    Question(StatefulSetController, "_create_missing_claims", of_missing_claims, before=begins),
    Question(StatefulSetController, "_create", of_a_pod),
    Question(StatefulSetController, "_claim_gone", of_a_claim_that_is_gone),
)
