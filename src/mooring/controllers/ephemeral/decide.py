"""Which claims a pod's ephemeral volumes need. Pure; rules of upstream's ephemeral volume controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.owners import owner_reference
from mooring.kube.reason import Reason
from mooring.volumes.claims import claim_name, is_owned_by


class Action(Enum):
    """What to do about one ephemeral volume of a pod."""

    CREATE = "Create"  # its claim
    REFUSE = "Refuse"  # a claim of that name exists, and is not this pod's
    SETTLED = "Settled"


class ClaimDecision(Decision[Action], frozen=True, gc=False):
    """What to do about the claim of one volume. `body`: the claim that CREATE creates."""

    body: Mapping[str, Any] = {}


def decide(pod: Pod, get_claim: Callable[[str], PersistentVolumeClaim | None]) -> list[ClaimDecision]:
    """Returns one decision for each ephemeral volume of the pod. `get_claim` takes a claim's key.

    A claim of the right name that was not made for this very pod is never used: it may hold other data, and
    it would be deleted with the pod.
    """
    decisions: list[ClaimDecision] = []
    for volume in pod.spec.volumes if not (pod.deleting or pod.finished) else ():
        name = claim_name(pod, volume)
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None and name is not None:
            decisions.append(_about_claim(pod, name, template, get_claim(f"{pod.namespace}/{name}")))
    return decisions


def _about_claim(
    pod: Pod, name: str, template: dict[str, Any], found: PersistentVolumeClaim | None
) -> ClaimDecision:
    if found is None:
        reason = Reason("ClaimMissing", f"PersistentVolumeClaim {name} of pod {pod.key} does not exist")
        return ClaimDecision(Action.CREATE, reason, _body(pod, name, template))
    if not is_owned_by(found, pod):
        message = f"PersistentVolumeClaim {found.key} was not created for pod {pod.key}: delete it, or rename the pod"
        return ClaimDecision(Action.REFUSE, Reason("EphemeralVolumeConflict", message))
    return ClaimDecision(Action.SETTLED, Reason("ClaimExists", f"PersistentVolumeClaim {found.key} exists"))


def _body(pod: Pod, name: str, template: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {
        "metadata": {**kept, "name": name, "ownerReferences": [owner_reference(pod)]},
        "spec": template["spec"],
    }
