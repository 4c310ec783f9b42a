"""What the status of a StatefulSet says of its pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from datetime import datetime

from mooring.controllers.statefulset.decide import is_available, is_ready
from mooring.kube.objects import Pod, StatefulSet, StatefulSetStatus
from mooring.kube.revisions import REVISION


def status_of(
    stateful_set: StatefulSet, pods: Sequence[Pod], revision: str, going: Container[str], now: datetime
) -> StatefulSetStatus:
    """Returns the status. `going`: uids of pods that were deleted just now. The update becomes the current
    revision when it is complete: all pods are there, of that revision, and ready."""
    staying = Counter(
        pod.metadata.labels.get(REVISION) for pod in pods if not (pod.deleting or pod.uid in going)
    )
    updated, ready = staying[revision], sum(is_ready(pod) for pod in pods)
    least = stateful_set.spec.min_ready_seconds
    done = updated == ready == len(pods) == stateful_set.spec.replicas
    former = stateful_set.status.current_revision
    current = revision if done or not former else former
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=ready,
        available_replicas=sum(is_available(pod, least, now) for pod in pods),
        current_replicas=staying[current],
        updated_replicas=updated,
        current_revision=current,
        update_revision=revision,
        collision_count=0,
    )
