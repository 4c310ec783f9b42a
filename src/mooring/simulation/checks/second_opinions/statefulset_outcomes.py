"""What is so when a step of a StatefulSet's controller has ended: what was asked of the API server in it, and
what is remembered of that.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset ("Stable Storage", "Stable Network ID",
"PersistentVolumeClaim retention", "Minimum ready seconds"), and `kube/rests.py` (what is made in vain again
and again is made ever more slowly).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import PodDecision
from mooring.controllers.statefulset.identity_objects import claim_owners
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.times import parse_time
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.simulation.checks.second_opinions.server_requests import (
    Mark,
    begins,
    of_own_writes,
    requests_since,
)
from mooring.simulation.checks.second_opinions.statefulset_steps import identities_of, names_of_claims
from mooring.simulation.checks.second_opinions.statefulsets import counted, is_available

IDENTITY = "statefulset.kubernetes.io/pod-name"


@dataclass
class Step:
    """What a controller's present step of one set has done. `claims`: what it has found of those that it has
    asked about; `deleted`: uids of pods; `began_with`: the pods that were known at its beginning."""

    claims: dict[str, bool] = field(default_factory=dict[str, bool])
    deleted: set[str] = field(default_factory=set[str])
    began_with: Mapping[int, Pod] = field(default_factory=dict[int, Pod])


def _steps() -> defaultdict[str, Step]:
    return defaultdict(Step)


STEPS: Memories[defaultdict[str, Step]] = Memories(_steps)
"""By the key of the set."""


def step_begins(asked: Any, stateful_set: StatefulSet, *rest: object) -> dict[str, str]:
    pods: Mapping[int, Pod] = asked._pods_of(stateful_set)
    STEPS.of(asked)[stateful_set.key] = Step(began_with=pods)
    return misowned(asked, stateful_set, pods)


def of_a_step(
    answer: None, before: Mapping[str, str], asked: Any, stateful_set: StatefulSet, *rest: object
) -> Iterator[str]:
    """With each step the owners of claims are set: before anything is deleted. So those that the step has
    deleted count as being there, and all others as they are now: they may have changed while it wrote."""
    step = STEPS.of(asked)[stateful_set.key]
    went = {ordinal: pod for ordinal, pod in step.began_with.items() if pod.uid in step.deleted}
    pods = {**asked._pods_of(stateful_set), **went}
    yield from of_owners(None, before, asked, stateful_set, pods)


# --- pods


class Beginning(NamedTuple):
    """Before a pod is made or deleted. `noted`: how often one of its ordinal was made, and until when
    none is; `rest`: seconds until then."""

    mark: Mark
    noted: tuple[int, float] | None
    rest: float


def _noted(asked: Any, stateful_set: StatefulSet, ordinal: int) -> tuple[int, float] | None:
    """What was noted for what the set wants now: of what it wanted before, none rests."""
    generation, rests = asked._rests.get(stateful_set.key, (None, None))
    return rests._done.get(ordinal) if generation == stateful_set.metadata.generation else None


def before_a_pod(asked: Any, stateful_set: StatefulSet, ordinal: int, revision: str) -> Beginning:
    for name in names_of_claims(stateful_set, ordinal):
        STEPS.of(asked)[stateful_set.key].claims.pop(name, None)
    noted = _noted(asked, stateful_set, ordinal)
    return Beginning(begins(), noted, noted[1] - now() if noted is not None else 0.0)


def of_a_pod_made(
    answer: None, before: Beginning, asked: Any, stateful_set: StatefulSet, ordinal: int, revision: str
) -> Iterator[str]:
    """A pod is made when each of its claims is there and stays, and none of its ordinal rests. That it was
    made is noted, and nothing else is."""
    name = f"{stateful_set.name}-{ordinal}"
    made = [each for each in requests_since(before.mark, "create", Pod) if each.succeeded]
    if (_noted(asked, stateful_set, ordinal) != before.noted) != bool(made):
        yield f"that pod {name} was made is {'not ' if made else ''}noted"
    if not made:
        return
    if before.rest > 0:
        yield f"pod {name} is made, and one of its ordinal is to rest for {before.rest:.1f} s"
    found = STEPS.of(asked)[stateful_set.key].claims
    if missed := [each for each in names_of_claims(stateful_set, ordinal) if not found.get(each)]:
        yield f"pod {name} is made, and its claims {missed} are not there, or go"


def before_a_deletion(asked: Any, stateful_set: StatefulSet, decision: PodDecision, pod: Pod) -> Beginning:
    return Beginning(begins(), _noted(asked, stateful_set, decision.ordinal), 0.0)


def of_a_deletion(
    answer: None, before: Beginning, asked: Any, stateful_set: StatefulSet, decision: PodDecision, pod: Pod
) -> Iterator[str]:
    """The very pod is deleted that was decided upon. What was noted of its ordinal stays."""
    STEPS.of(asked)[stateful_set.key].deleted.add(pod.uid)
    deletions = requests_since(before.mark, "delete", Pod)
    if [(each.key, each.how.get("uid")) for each in deletions] != [(pod.key, pod.uid)]:
        yield f"pod {pod.key} of uid {pod.uid} is to be deleted, and deleted is {deletions}"
    noted = _noted(asked, stateful_set, decision.ordinal)
    if noted != before.noted:
        yield f"the successor of pod {pod.key} is to rest by {noted}, and was by {before.noted}"


def of_names(
    answer: None, mark: Mark, asked: Any, stateful_set: StatefulSet, pods: Mapping[int, Pod]
) -> Iterator[str]:
    """A pod that stays, and does not say whose identity it has, is told; no other is."""
    unnamed = {
        pod.key for pod in pods.values() if not pod.deleting and pod.metadata.labels.get(IDENTITY) != pod.name
    }
    told = {each.key for each in requests_since(mark, "patch", Pod)}
    if told != unnamed:
        yield f"pods {sorted(told)} are given the labels of their identity, and {sorted(unnamed)} lack them"


# --- claims


def misowned(asked: Any, stateful_set: StatefulSet, pods: Mapping[int, Pod], *rest: object) -> dict[str, str]:
    """Uids of the claims of the set's identities, and of its pods', that are known to have other owners than
    they are to have: by the rule itself, which has its own opinion."""
    wanted, found = identities_of(stateful_set), dict[str, str]()
    for ordinal in {*wanted, *pods}:
        name = f"{stateful_set.name}-{ordinal}"
        for claim_name in names_of_claims(stateful_set, ordinal):
            claim = asked._claims.get(f"{stateful_set.namespace}/{claim_name}")
            if claim is None or claim.deleting:
                continue
            pod, condemned = pods.get(ordinal), ordinal not in wanted
            if claim_owners(stateful_set, claim, name, pod, condemned=condemned) is not None:
                found[claim.key] = claim.uid
    return found


def of_owners(
    answer: None,
    before: Mapping[str, str],
    asked: Any,
    stateful_set: StatefulSet,
    pods: Mapping[int, Pod],
    *rest: object,
) -> Iterator[str]:
    """No claim has other owners than it is to have, before anything is deleted. What has become so since
    (`before`: what was so) is for the next step: writes take their time, and meanwhile users make a claim
    that the set would make, or take its owners away."""
    for key, uid in misowned(asked, stateful_set, pods).items():
        if before.get(key) == uid:
            yield f"claim {key} has other owners than it is to have"


def of_a_claim_found(
    answer: bool, mark: Mark, asked: Any, stateful_set: StatefulSet, body: Mapping[str, Any], ordinal: int
) -> Iterator[str]:
    """A claim that is there and stays can be used. One that is missing is made, or is there by now."""
    name = body["metadata"]["name"]
    STEPS.of(asked)[stateful_set.key].claims[name] = answer
    tried = [each.key for each in requests_since(mark, "create", PersistentVolumeClaim)]
    found = asked._claims.get(f"{stateful_set.namespace}/{name}")
    if answer and not tried and (found is None or found.deleting):
        yield f"claim {name} counts as one that stays, and is {'gone' if found is None else 'being deleted'}"


# --- the status


def before_a_status(asked: Any, stateful_set: StatefulSet, *rest: object) -> tuple[list[Pod], datetime]:
    return [*asked._pods_of(stateful_set).values()], asked.now()


def of_told_status(
    answer: None,
    before: tuple[list[Pod], datetime],
    asked: Any,
    stateful_set: StatefulSet,
    revision: str,
    going: Collection[str],
) -> Iterator[str]:
    """The status counts what this step has deleted as going, though the cache shows it still. When a pod will
    have been ready for long enough the set is looked at again."""
    deleted, (pods, moment) = STEPS.of(asked)[stateful_set.key].deleted, before
    if deleted != set(going):
        yield f"pods {sorted(deleted)} were deleted, and {sorted(going)} count as going"
    known = asked._sets.get(stateful_set.key)
    expected = counted(stateful_set, pods, revision, going, moment)
    if known is stateful_set and known.status != expected:
        yield f"{stateful_set.name} is {expected}, and says {known.status}"
    least = timedelta(seconds=stateful_set.spec.min_ready_seconds)
    later = [pod.name for pod in pods if _will_be_available(pod, least, moment)]
    key, queue = stateful_set.key, asked.queue
    if later and not is_brought_up(queue, key):
        yield f"pods {later} are to be ready for {least.total_seconds():.0f} s, and nothing looks at them then"


def _will_be_available(pod: Pod, least: timedelta, moment: datetime) -> bool:
    since = [
        each.last_transition_time
        for each in pod.status.conditions
        if each.type == "Ready" and each.status == "True" and each.last_transition_time
    ]
    return (
        bool(least)
        and is_available(pod, 0, moment)
        and any(parse_time(each) + least > moment for each in since)
    )


QUESTIONS = (
    Question(StatefulSetController, "_take_a_step", of_a_step, before=step_begins),
    Question(StatefulSetController, "_carry_out", of_own_writes, before=begins),
    Question(StatefulSetController, "_create", of_a_pod_made, before=before_a_pod),
    Question(StatefulSetController, "_delete", of_a_deletion, before=before_a_deletion),
    Question(StatefulSetController, "_restore_names", of_names, before=begins),
    Question(StatefulSetController, "_set_owners_of_claims", of_owners, before=misowned),
    Question(StatefulSetController, "_ensure_claim", of_a_claim_found, before=begins),
    Question(StatefulSetController, "_update_status", of_told_status, before=before_a_status),
)
