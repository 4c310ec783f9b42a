"""What the binder finds on an API server: the claim c, the volume pv, the class disk."""

from __future__ import annotations

from typing import Any

from controller_stage import ControllerStage
from requests_sent import marked

from mooring.controllers.binding.controller import BindingController
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass

MODES, SIZE = ["ReadWriteOnce"], {"storage": "1Gi"}
HELD = ("example.com/hold", "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
CHOSEN = {"pv.kubernetes.io/bound-by-controller": "yes"}
GROWN = {"volume.alpha.kubernetes.io/pre-resize-capacity": "500Mi"}
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
BOUND = {"phase": "Bound", "capacity": SIZE, "accessModes": MODES}
RESIZER = {"volume.kubernetes.io/storage-resizer": "ebs.csi.aws.com"}
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


async def add_volume(
    stage: ControllerStage,
    phase: str = "Available",
    annotations: dict[str, str] | None = None,
    source: dict[str, Any] | None = None,
    held: tuple[str, ...] = HELD[2:],
    **spec: Any,
) -> None:
    """The volume pv."""
    given = {"capacity": SIZE, "accessModes": MODES, **(source or {"hostPath": {"path": "/d"}})}
    metadata = {"name": "pv", "annotations": annotations or {}}
    await stage.api.create(PersistentVolume, {"metadata": metadata, "spec": {**given, **spec}})
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": held}})
    if phase:
        await stage.api.patch(PersistentVolume, "pv", {"status": {"phase": phase}}, subresource="status")


async def add_claim(
    stage: ControllerStage,
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    held: tuple[str, ...] = HELD[1:2],
    size: str = "1Gi",
    **spec: Any,
) -> dict[str, Any]:
    """The claim c. Returns the reference of a volume to it."""
    given = {"accessModes": MODES, "storageClassName": "", "resources": {"requests": {"storage": size}}}
    body = {"metadata": {"name": "c", "annotations": annotations or {}}, "spec": {**given, **spec}}
    claim = await stage.api.create(PersistentVolumeClaim, body, "default")
    await stage.api.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": held}}, "default")
    if status:
        body = {"status": status}
        await stage.api.patch(PersistentVolumeClaim, "c", body, "default", subresource="status")
    return {"namespace": "default", "name": "c", "uid": claim.uid}


async def add_class(stage: ControllerStage, provisioner: str, annotations: dict[str, str]) -> None:
    """The class disk."""
    body = {"metadata": {"name": "disk", "annotations": annotations}, "provisioner": provisioner}
    await stage.api.create(StorageClass, body)


async def add_pod(stage: ControllerStage, claim: str = "c", node: str = "n") -> None:
    """The pod p."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    body = {"metadata": {"name": "p"}, "spec": {**spec, **({"nodeName": node} if node else {})}}
    await stage.api.create(Pod, body, "default")


async def on(stage: ControllerStage) -> BindingController:
    """A controller that knows all of it, and has nothing to do yet."""
    controller = stage.make(BindingController)
    await stage.fill(controller, PersistentVolume, PersistentVolumeClaim, StorageClass)
    await marked(controller)
    return controller
