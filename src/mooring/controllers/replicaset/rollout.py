"""How a Deployment moves from one template to the next. Pure.

Each template has a ReplicaSet. The new one grows and the old ones shrink, so that there are never more than
`maxSurge` pods too many, and never more than `maxUnavailable` too few. With Recreate, no new pod starts
before the last old one has ended. The result is the number of replicas that each ReplicaSet should have now.
Rules: upstream's deployment controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mooring.kube.objects import Deployment, ReplicaSet
from mooring.kube.percentages import portion

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"


class Bounds(NamedTuple):
    """The number of pods that there may be at most, and that must be available at least."""

    most: int
    available: int


def bounds(deployment: Deployment) -> Bounds:
    """Computed from maxSurge (percentages round up) and maxUnavailable (they round down);
    one of them is at least 1."""
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        return Bounds(replicas, 0)
    rolling = deployment.spec.strategy.rolling_update
    surge = portion(rolling.max_surge, replicas, up=True)
    missing = min(portion(rolling.max_unavailable, replicas, up=False), replicas)
    if not surge and not missing:
        missing = min(1, replicas)
    return Bounds(replicas + surge if replicas else 0, replicas - missing)


def same_template(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Whether the ReplicaSet was made from the Deployment's present template."""
    return _without_hash(deployment.spec.template) == _without_hash(replica_set.spec.template)


def _without_hash(template: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = template.get("metadata") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    kept = {key: value for key, value in metadata.items() if key != "creationTimestamp" and value}
    return {**template, "metadata": {**kept, "labels": {key: labels[key] for key in labels if key != HASH}}}


def first_replicas(deployment: Deployment, old: Sequence[ReplicaSet], old_pods: int) -> int:
    """Returns the number of replicas with which the ReplicaSet of a new template begins."""
    return _grown(deployment, 0, old, old_pods)


def next_replicas(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods: int
) -> dict[str, int]:
    """Returns, by the ReplicaSet's name, the number of replicas that it should have now;
    only those that change.

    `old_pods`: the number of pods of old ReplicaSets that have not ended, also those that are being deleted.
    """
    everything = [*old, *([new] if new is not None else [])]
    if deployment.spec.paused or _resized(deployment, everything):
        return _changed(everything, _proportional(deployment, new, old))
    wanted: dict[str, int] = {}
    if new is not None:
        wanted[new.name] = _grown(deployment, new.spec.replicas, old, old_pods)
    if deployment.spec.strategy.type == "Recreate":
        wanted |= {each.name: 0 for each in old}
    elif wanted == {} or (new is not None and wanted[new.name] == new.spec.replicas):
        wanted |= _shrunk(
            deployment, new, old
        )  # one side at a time: the next step is computed from its result
    return _changed(everything, wanted)


def _changed(sets: Sequence[ReplicaSet], wanted: Mapping[str, int]) -> dict[str, int]:
    return {s.name: wanted[s.name] for s in sets if s.name in wanted and wanted[s.name] != s.spec.replicas}


def _grown(deployment: Deployment, now: int, old: Sequence[ReplicaSet], old_pods: int) -> int:
    """Returns the number of replicas that the new ReplicaSet, which has `now`, should have."""
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        return now if old_pods or any(each.spec.replicas for each in old) else replicas
    room = bounds(deployment).most - now - sum(each.spec.replicas for each in old)
    return replicas if now > replicas else min(now + max(room, 0), replicas)


def _shrunk(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Returns the number of replicas of each old ReplicaSet: unavailable ones are given up first."""
    everything = [*old, *([new] if new is not None else [])]
    total = sum(each.spec.replicas for each in everything)
    still_coming = new.spec.replicas - new.status.available_replicas if new is not None else 0
    spare = total - bounds(deployment).available - still_coming
    wanted = {each.name: each.spec.replicas for each in old}
    for each in _oldest_first(old):
        idle = max(min(wanted[each.name] - each.status.available_replicas, spare), 0)
        wanted[each.name] -= idle
        spare -= idle
    available = sum(each.status.available_replicas for each in everything)
    spare = min(spare, available - bounds(deployment).available)
    for each in _oldest_first(old):
        fewer = max(min(wanted[each.name], spare), 0)
        wanted[each.name] -= fewer
        spare -= fewer
    return wanted


def number_of(replica_set: ReplicaSet, annotation: str) -> int:
    """What the annotation says; 0 if that is no number: users may write it. Upstream leaves such a set out,
    too."""
    text = replica_set.metadata.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _oldest_first(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda each: (each.metadata.creation_timestamp or "", each.name))


def _resized(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were annotated with its size."""
    annotated = [each.metadata.annotations.get(DESIRED) for each in sets if each.spec.replicas]
    return any(text is not None and text != str(deployment.spec.replicas) for text in annotated)


def _proportional(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> dict[str, int]:
    """Shares out a resize in the middle of a rollout by size, so that no single template carries the risk."""
    active = [each for each in old if each.spec.replicas] + (
        [new] if new is not None and new.spec.replicas else []
    )
    if len(active) <= 1:
        only = active[0] if active else new
        return {only.name: deployment.spec.replicas} if only is not None else {}
    if deployment.spec.strategy.type == "Recreate":
        return {}
    most, total = bounds(deployment).most, sum(each.spec.replicas for each in active)
    left = most - total
    wanted: dict[str, int] = {}
    for each in sorted(active, key=lambda each: (each.spec.replicas, each.metadata.creation_timestamp or ""))[
        ::-1
    ]:
        before = number_of(each, MAX) or total
        share = round(each.spec.replicas * most / before) - each.spec.replicas if before else 0
        share = max(min(share, left), 0) if left >= 0 else min(max(share, left), 0)
        wanted[each.name] = max(each.spec.replicas + share, 0)
        left -= share
    largest = max(wanted, key=lambda name: wanted[name])
    wanted[largest] = max(wanted[largest] + left, 0)
    return wanted
