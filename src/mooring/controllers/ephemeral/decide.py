"""Which claims a pod's ephemeral volumes need. Pure; rules of upstream's ephemeral volume controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.owners import owner_reference
from mooring.kube.reason import Reason
from mooring.volumes.claims import claim_name, is_owned_by


class Missing(NamedTuple):
    """Claims to be created, as bodies; and why other volumes can have none."""

    claims: tuple[dict[str, Any], ...]
    refused: tuple[Reason, ...]


def missing(pod: Pod, get_claim: Callable[[str], PersistentVolumeClaim | None]) -> Missing:
    """`get_claim` takes a claim's key. A claim of that name that was not made for this very pod is never used: it could
    hold somebody's data, and it would go with the pod."""
    bodies: list[dict[str, Any]] = []
    refused: list[Reason] = []
    for volume in pod.spec.volumes if not (pod.deleting or pod.finished) else ():
        name = claim_name(pod, volume)
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is None or name is None:
            continue
        held = get_claim(f"{pod.namespace}/{name}")
        if held is None:
            bodies.append(_body(pod, name, template))
        elif not is_owned_by(held, pod):
            message = (
                f"PersistentVolumeClaim {held.key} was not created for pod {pod.key}: delete it, or rename the pod"
            )
            refused.append(Reason("EphemeralVolumeConflict", message))
    return Missing(tuple(bodies), tuple(refused))


def _body(pod: Pod, name: str, template: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": {**kept, "name": name, "ownerReferences": [owner_reference(pod)]}, "spec": template["spec"]}
