"""Near to the StatefulSets of a run, with their pods and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from msgspec.structs import replace

from mooring.kube.objects import (
    Condition,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    Object,
    Ordinals,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
)
from mooring.kube.times import parse_time
from mooring.simulation.checks.second_opinions.near import (
    ANOTHER,
    BOTH,
    ENDS,
    FAR_OFF,
    LONG_AGO,
    Fact,
    Near,
    changed,
    entry,
)
from mooring.simulation.checks.second_opinions.near import one_of_them as one

Arguments = dict[str, Any]
REVISION = "controller-revision-hash"

# --- pods


def _ready(status: str, since: str | None = LONG_AGO) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, last_transition_time=since),)


def _waits(*reasons: str) -> tuple[ContainerStatus, ...]:
    return tuple(
        ContainerStatus(name="main", state=ContainerState(waiting=ContainerStateWaiting(reason=each)))
        for each in reasons
    )


_POD: tuple[Fact, ...] = (
    ("metadata.deletion_timestamp", ENDS),
    ("metadata.labels", entry(REVISION, ANOTHER)),
    ("status.phase", ("Pending", "Running", "Running", "Succeeded", "Failed")),
    ("status.conditions", ((), _ready("False"), _ready("Unknown"), _ready("True", None))),
    ("status.conditions", (_ready("True"), _ready("True", FAR_OFF))),  # by a clock that runs ahead
    ("status.container_statuses", ((), _waits("", "PodInitializing"), _waits("ContainerCreating"))),
    ("status.container_statuses", (_waits("ErrImagePull"), _waits("", "CrashLoopBackOff"))),
)


def _fewer_or_more(chance: Random, pods: Mapping[int, Pod]) -> Mapping[int, Pod]:
    """A pod is gone, or there is one of another ordinal."""
    if not pods:
        return pods
    ordinal = chance.choice(sorted(pods))
    if chance.random() < 0.5:
        return {each: pod for each, pod in pods.items() if each != ordinal}
    like, number = pods[ordinal], chance.randint(0, max(pods) + 2)
    name = f"{like.name.rpartition('-')[0]}-{number}"
    return {**pods, number: replace(like, metadata=replace(like.metadata, name=name, uid=ANOTHER))}


def _scaled_down(chance: Random, pods: Mapping[int, Pod]) -> Mapping[int, Pod]:
    """There are two more than there were, one of which may end already."""
    if not pods:
        return pods
    first, like = max(pods) + 1, pods[max(pods)]
    heads = [
        replace(like.metadata, name=f"{like.name.rpartition('-')[0]}-{number}", uid=f"{ANOTHER}-{number}")
        for number in (first, first + 1)
    ]
    ends = chance.randint(0, 1)
    heads[ends] = replace(heads[ends], deletion_timestamp=chance.choice(ENDS))
    return {**pods, **{first + at: replace(like, metadata=head) for at, head in enumerate(heads)}}


def _just_available(chance: Random, asked: Arguments) -> Arguments:
    """One of its pods has been ready for just long enough, or for a second less."""
    pods: Mapping[int, Pod] | Sequence[Pod] = asked["by_ordinal" if "by_ordinal" in asked else "pods"]
    times = [
        condition.last_transition_time
        for pod in (pods.values() if isinstance(pods, Mapping) else pods)
        for condition in pod.status.conditions
        if condition.type == "Ready" and condition.last_transition_time is not None
    ]
    if not times:
        return asked
    least = asked["stateful_set"].spec.min_ready_seconds - chance.choice((0, 0, 1))
    return {**asked, "now": parse_time(chance.choice(times)) + timedelta(seconds=max(least, 0))}


# --- what is to be done

_UPDATE = "stateful_set.spec.update_strategy"
_REVISIONS: tuple[Fact, ...] = (
    ("stateful_set.spec.ordinals", (None, Ordinals(start=0), Ordinals(start=1))),
    (f"{_UPDATE}.type", ("RollingUpdate", "OnDelete")),
    (f"{_UPDATE}.rolling_update.partition", (0, 1, 2, 9)),
    ("stateful_set.status.current_revision", ("", ANOTHER)),
)
_SET: tuple[Fact, ...] = (
    ("stateful_set.metadata.deletion_timestamp", (*(None,) * 3, LONG_AGO)),
    ("stateful_set.spec.replicas", (0, 1, 2, 3, 4)),
    ("stateful_set.spec.pod_management_policy", ("OrderedReady", "Parallel")),
    ("stateful_set.spec.min_ready_seconds", (0, 10)),
    (f"{_UPDATE}.rolling_update.max_unavailable", (None, 1, 2, "1%", "50%", "100%")),
    ("revision", (ANOTHER,)),
)
_SCALED: tuple[Fact, ...] = (
    ("stateful_set.spec.replicas", (0, 1, 2)),
    ("stateful_set.spec.pod_management_policy", ("OrderedReady", "Parallel")),
    (f"{_UPDATE}.rolling_update.max_unavailable", (2, 3)),
    ("revision", (ANOTHER,)),
)
"""Once more: what is scaled down, or updated, is decided about only where nothing else is to be done."""
STEPS = Near(
    (
        *_SET,
        *_SCALED,
        *_REVISIONS[:3],
        *(("by_ordinal", one(*_POD)),) * 6,
        *(("by_ordinal", _fewer_or_more),) * 2,
        *(("by_ordinal", _scaled_down),) * 3,
        ("", _just_available),
    ),
    times=0.3,
    most=5,
)
CHOSEN = Near((*_REVISIONS, ("ordinal", (0, 1, 2, 3))), times=1.0)


def _deleted(chance: Random, asked: Arguments) -> Arguments:
    """Some of its pods were deleted just now."""
    return {**asked, "going": {pod.uid for pod in asked["pods"] if chance.random() < 0.5}}


def _one_less(chance: Random, pods: Sequence[Pod]) -> Sequence[Pod]:
    return pods[1:]


STATUS = Near(
    (
        *_SET,
        _REVISIONS[3],
        *(("pods", one(*_POD)),) * 4,
        ("pods", _one_less),
        ("", _deleted),
        ("", _just_available),
    ),
    times=0.15,
)

# --- what is made

_LABELS: tuple[Any, ...] = (
    None,
    {"app": "x", "b": "c"},
    {REVISION: ANOTHER, "apps.kubernetes.io/pod-index": "9"},
)
_SPEC = "stateful_set.spec"


def _another_claim(chance: Random, there: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """One more than there are; where there are two, none. Of two templates of one name, which would be one
    volume of the pod, the documentation says nothing: these are left out."""
    name = f"{ANOTHER}-{len(there)}"
    return (*there, {"metadata": {"name": name}, "spec": {}}) if len(there) < 2 else ()


_TEMPLATES: tuple[Fact, ...] = (
    (f"{_SPEC}.volume_claim_templates", one(("metadata.labels", _LABELS), ("metadata.annotations", _LABELS))),
    (f"{_SPEC}.volume_claim_templates", _another_claim),
    (f"{_SPEC}.selector.match_labels", ({"app": "x"}, {"app": "y", "c": "d"})),
    ("ordinal", (0, 1, 12)),
)


def _own_volumes(chance: Random, stateful_set: StatefulSet) -> StatefulSet:
    """The template has volumes of its own, some of which are named as claims are."""
    names = [each["metadata"]["name"] for each in stateful_set.spec.volume_claim_templates]
    volumes: list[dict[str, Any]] = [
        {"name": each, "emptyDir": {}} for each in (*names, "own") if chance.random() < 0.7
    ]
    return changed(chance, stateful_set, "spec.template.spec.volumes", (None, volumes, volumes))


CLAIMS = Near(_TEMPLATES, times=0.1)
BODIES = Near(
    (
        *_TEMPLATES,
        *_REVISIONS,
        ("stateful_set", _own_volumes),
        (f"{_SPEC}.template.metadata.labels", _LABELS[1:]),
        (f"{_SPEC}.template.metadata.annotations", _LABELS),
        (f"{_SPEC}.template.spec.hostname", ("host",)),
        (f"{_SPEC}.service_name", (ANOTHER,)),
    ),
    times=0.5,
)

# --- who owns claims


def _owned(chance: Random, asked: Arguments) -> Arguments:
    """It has one more owner, or one less: its set, the pod, a former one of that name, or another object."""
    stateful_set: StatefulSet = asked["stateful_set"]
    claim, pod = asked["claim"], asked["pod"] or Pod()
    of_pod = _reference(pod, asked["name"], pod.uid or ANOTHER)
    owners = (
        *(_reference(stateful_set, stateful_set.name, uid) for uid in (stateful_set.uid, ANOTHER)),
        *(of_pod, replace(of_pod, uid=ANOTHER), replace(of_pod, name=ANOTHER, uid=ANOTHER)),
        replace(of_pod, api_version=ANOTHER, kind=ANOTHER, uid=ANOTHER),
    )
    new = replace(chance.choice(owners), controller=chance.random() < 0.5, block_owner_deletion=True)
    others = tuple(each for each in claim.metadata.owner_references if each.uid != new.uid)
    held = others if len(others) < len(claim.metadata.owner_references) else (*others, new)
    return changed(chance, asked, "claim.metadata.owner_references", (held,))


def _reference(owner: Object, name: str, uid: str) -> OwnerReference:
    kind = owner.RESOURCE
    return OwnerReference(api_version=kind.api_version, kind=kind.kind, name=name, uid=uid)


def possible_owners(stateful_set: StatefulSet, claim: PersistentVolumeClaim, *rest: Any, **more: Any) -> bool:
    """The API server refuses an object with two controllers."""
    return sum(each.controller for each in claim.metadata.owner_references) <= 1


_OWNERS: tuple[Fact, ...] = (
    *(("", _owned),) * 3,
    ("pod.metadata.uid", ("of a new pod",)),
    ("pod", (None,)),
)
GOES = Near(_OWNERS, times=0.1)
OWNERS = Near(
    (
        *_OWNERS,
        ("condemned", BOTH),
        (f"{_SPEC}.persistent_volume_claim_retention_policy.when_scaled", ("Retain", "Delete")),
        (f"{_SPEC}.persistent_volume_claim_retention_policy.when_deleted", ("Retain", "Delete")),
    ),
    times=0.12,
    possible=possible_owners,
)
