"""What upstream's tests demand of a StatefulSet's pods and claims after each round."""

from __future__ import annotations

from collections.abc import Callable

from tests.upstream.stateful_set_stage import Stage, expect

from mooring.controllers.statefulset.decide import POD_NAME, is_ready, ordinal_of, ordinals
from mooring.controllers.statefulset.identity_objects import claim_name
from mooring.kube.objects import Pod
from mooring.kube.revisions import REVISION

Invariants = Callable[[Stage], None]


def ordered(stage: Stage) -> None:
    """With OrderedReady: no gap, and no pod is ready before its predecessor."""
    pods, first = stage.pods, ordinals(stage.set).start
    for number, pod in enumerate(pods):
        expect(ordinal_of(stage.set, pod) == first + number, f"{pod.name} is in the wrong place")
        late = number > 0 and is_ready(pod) and not is_ready(pods[number - 1])
        expect(not late, f"{pod.name} is ready before its predecessor")
    _identities(stage)


def parallel(stage: Stage) -> None:
    """With Parallel: each pod has its identity."""
    _identities(stage)


def rolling(stage: Stage) -> None:
    """In an update: the lowest pods are of the current revision, the highest of the new one, as many as the
    status says."""
    _identities(stage)
    pods, status = stage.pods, stage.set.status
    if stage.set.spec.update_strategy.type == "OnDelete":
        return
    for pod in pods[: status.current_replicas]:
        expect(_revision(pod) == status.current_revision, f"{pod.name} is not of the current revision")
    for pod in pods[max(len(pods) - status.updated_replicas, 0) :]:
        expect(_revision(pod) == status.update_revision, f"{pod.name} is not of the new revision")


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION, "")


def _identities(stage: Stage) -> None:
    for pod in stage.pods:
        expect(pod.metadata.labels.get(POD_NAME) == pod.name, f"{pod.name} has not the label of its name")
        for template in stage.set.spec.volume_claim_templates:
            name = claim_name(stage.set, template, ordinal_of(stage.set, pod) or 0)
            used = {
                each.persistent_volume_claim.claim_name
                for each in pod.spec.volumes
                if each.persistent_volume_claim
            }
            expect(name in used, f"{pod.name} does not use the claim {name}")
            expect(name in stage.claims, f"the claim {name} is missing")
            _owners(stage, pod, name)


def _owners(stage: Stage, pod: Pod, name: str) -> None:
    if not is_ready(pod):
        return  # its claims get their owners at the latest when it is
    policy = stage.set.spec.persistent_volume_claim_retention_policy
    condemned = ordinal_of(stage.set, pod) not in ordinals(stage.set)
    by_pod = policy.when_scaled == "Delete" and condemned
    by_set = policy.when_deleted == "Delete" and not by_pod
    uids = {each.uid for each in stage.claims[name].metadata.owner_references}
    expect((pod.uid in uids) == by_pod, f"the claim {name} is {'not ' * by_pod}owned by its pod")
    expect((stage.set.uid in uids) == by_set, f"the claim {name} is {'not ' * by_set}owned by the set")
