"""Claims of ephemeral volumes: created for one pod, and never taken from another."""

from __future__ import annotations

from typing import Any

from mooring.controllers.ephemeral.decide import Action, decide
from mooring.kube.objects import (
    EphemeralVolumeSource,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
)

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SCRATCH = Volume(name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template=TEMPLATE))


def pod(*, phase: str = "Pending", deleting: bool = False) -> Pod:
    metadata = ObjectMeta(name="p", namespace="ns", uid="u", deletion_timestamp="t" if deleting else None)
    return Pod(
        metadata=metadata,
        spec=PodSpec(volumes=(SCRATCH, Volume(name="plain"))),
        status=PodStatus(phase=phase),
    )


def claim(owner_uid: str) -> PersistentVolumeClaim:
    owner = OwnerReference(kind="Pod", name="p", uid=owner_uid, controller=True)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="p-scratch", namespace="ns", owner_references=(owner,))
    )


def nothing(_: str) -> None:
    return None


def test_a_claim_is_made_as_the_template_says_and_goes_with_the_pod():
    (decision,) = decide(pod(), nothing)
    body = decision.body
    assert body["metadata"]["name"] == "p-scratch"
    assert body["metadata"]["labels"] == {"a": "b"}
    assert body["spec"] == TEMPLATE["spec"]
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("u", True)


def test_what_is_there_is_not_made_again():
    held: dict[str, Any] = {"ns/p-scratch": claim("u")}
    assert [each.action for each in decide(pod(), held.get)] == [Action.SETTLED]


def test_a_claim_of_somebody_else_is_never_used():
    held: dict[str, Any] = {"ns/p-scratch": claim("former")}
    (decision,) = decide(pod(), held.get)
    assert decision.action is Action.REFUSE
    assert "ns/p-scratch was not created for pod ns/p" in decision.reason.message


def test_a_pod_that_is_ending_or_has_ended_needs_none():
    for each in (pod(deleting=True), pod(phase="Succeeded"), pod(phase="Failed")):
        assert decide(each, nothing) == []
