"""What is to be done about a VolumeSnapshot. Pure; the flow and names are those of the CSI community's snapshotter.

A VolumeSnapshot asks; a VolumeSnapshotContent is what the storage keeps. The content is written before the storage is
asked, and goes only after the storage has deleted the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from mooring.kube.objects import PersistentVolumeClaim, SecretReference
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.kube.reason import Reason
from mooring.volumes.secrets import PREFIX, secret_reference

SNAPSHOT_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
CONTENT_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
DELETION_SECRET_NAME = "snapshot.storage.kubernetes.io/deletion-secret-name"
DELETION_SECRET_NAMESPACE = "snapshot.storage.kubernetes.io/deletion-secret-namespace"
DEFAULT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"


class Act(Enum):
    """The next step for a VolumeSnapshot."""

    CREATE_CONTENT = "CreateContent"  # protect the snapshot, then write its content object
    TAKE = "Take"  # ask the storage
    TELL = "Tell"  # copy what the content says into the snapshot's status
    DELETE_CONTENT = "DeleteContent"
    RELEASE = "Release"  # nothing is left: the snapshot may go
    WAIT = "Wait"
    SETTLED = "Settled"


class Step(NamedTuple):
    act: Act
    reason: Reason


def content_name(snapshot: VolumeSnapshot) -> str:
    """Of its own content, or of the one that it names."""
    return snapshot.spec.source.volume_snapshot_content_name or f"snapcontent-{snapshot.uid}"


def class_of(
    snapshot: VolumeSnapshot, classes: Iterable[VolumeSnapshotClass], driver: str
) -> VolumeSnapshotClass | Reason:
    """The class that the snapshot names, else the driver's default; or why there is none."""
    wanted = snapshot.spec.volume_snapshot_class_name
    of_driver = [each for each in classes if each.driver == driver]
    if wanted:
        named = next((each for each in classes if each.name == wanted), None)
        if named is None:
            return Reason("SnapshotClassNotFound", f"VolumeSnapshotClass {wanted} does not exist: create it")
        if named.driver != driver:
            message = f"VolumeSnapshotClass {wanted} is of driver {named.driver}, the volume of {driver}"
            return Reason("SnapshotClassMismatch", message)
        return named
    defaults = [each for each in of_driver if each.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    if len(defaults) == 1:
        return defaults[0]
    which = f"{len(defaults)} default classes" if defaults else "no default class"
    return Reason("NoSnapshotClass", f"driver {driver} has {which}: name one in volumeSnapshotClassName")


def decide(
    snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None, claim: PersistentVolumeClaim | None
) -> Step:
    """`content` is the object of `content_name`; `claim` is the snapshot's source, if it names one."""
    if snapshot.deleting:
        return _on_its_way_out(snapshot, content)
    if content is not None and not _belongs(content, snapshot):
        reference = content.spec.volume_snapshot_ref
        message = f"VolumeSnapshotContent {content.name} is of {reference.namespace}/{reference.name}"
        return Step(Act.WAIT, Reason("SnapshotContentMismatch", message))
    if content is None:
        return _without_content(snapshot, claim)
    if not content.status.ready_to_use:
        if content.spec.source.snapshot_handle:
            return Step(Act.TAKE, Reason("Existing", "the storage has the snapshot already"))
        return Step(Act.TAKE, Reason("Creating", "the snapshot is being taken"))
    if not snapshot.status.ready_to_use or snapshot.status.bound_volume_snapshot_content_name != content.name:
        return Step(Act.TELL, Reason("SnapshotReady", "Snapshot is ready to use."))
    return Step(Act.SETTLED, Reason("SnapshotReady", "the snapshot is ready to use"))


def _without_content(snapshot: VolumeSnapshot, claim: PersistentVolumeClaim | None) -> Step:
    source = snapshot.spec.source
    if source.volume_snapshot_content_name:
        message = f"VolumeSnapshotContent {source.volume_snapshot_content_name} does not exist: create it"
        return Step(Act.WAIT, Reason("SnapshotContentMissing", message))
    name = source.persistent_volume_claim_name
    if claim is None:
        return Step(Act.WAIT, Reason("ClaimNotFound", f"claim {snapshot.namespace}/{name} does not exist"))
    if claim.status.phase != "Bound":
        return Step(Act.WAIT, Reason("ClaimNotBound", f"claim {claim.key} is not bound to a volume yet"))
    return Step(Act.CREATE_CONTENT, Reason("CreatingSnapshot", f"Waiting for a snapshot {snapshot.key} to be created."))


def _on_its_way_out(snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None) -> Step:
    if SNAPSHOT_FINALIZER not in snapshot.metadata.finalizers:
        return Step(Act.SETTLED, Reason("Deleted", "the snapshot is being deleted"))
    if content is None or not _belongs(content, snapshot) or content.spec.deletion_policy == "Retain":
        return Step(Act.RELEASE, Reason("NothingLeft", "the storage keeps nothing for the snapshot, or is to keep it"))
    return Step(Act.DELETE_CONTENT, Reason("Deleting", "the storage deletes the snapshot first"))


def storage_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """A class's parameters without those that are for the snapshotter."""
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def secret_of(
    parameters: Mapping[str, str], content: VolumeSnapshotContent, snapshot: VolumeSnapshot
) -> SecretReference | None:
    """The Secret that the class names for taking a snapshot. Raises InvalidSpec."""
    return _secret(parameters, content.name, snapshot)


def _secret(parameters: Mapping[str, str], content: str, snapshot: VolumeSnapshot) -> SecretReference | None:
    values = {
        "volumesnapshotcontent.name": content,
        "volumesnapshot.namespace": snapshot.namespace,
        "volumesnapshot.name": snapshot.name,
    }
    return secret_reference(parameters, "snapshotter", values)


def deletion_secret(content: VolumeSnapshotContent) -> SecretReference | None:
    """The Secret with which the snapshot is to be deleted."""
    annotations = content.metadata.annotations
    name = annotations.get(DELETION_SECRET_NAME)
    return SecretReference(name=name, namespace=annotations.get(DELETION_SECRET_NAMESPACE, "")) if name else None


def _belongs(content: VolumeSnapshotContent, snapshot: VolumeSnapshot) -> bool:
    reference = content.spec.volume_snapshot_ref
    named = (reference.namespace, reference.name) == (snapshot.namespace, snapshot.name)
    return named and reference.uid in ("", snapshot.uid)


def content_body(snapshot: VolumeSnapshot, of_class: VolumeSnapshotClass, volume_handle: str) -> dict[str, Any]:
    """The content object of a snapshot that is to be taken. What its deletion will need is written on it: by then the
    class may be gone."""
    name = content_name(snapshot)
    secret = _secret(of_class.parameters, name, snapshot)
    annotations = {DELETION_SECRET_NAME: secret.name, DELETION_SECRET_NAMESPACE: secret.namespace} if secret else {}
    return {
        "metadata": {"name": name, "finalizers": [CONTENT_FINALIZER], "annotations": annotations},
        "spec": {
            "deletionPolicy": of_class.deletion_policy,
            "driver": of_class.driver,
            "source": {"volumeHandle": volume_handle},
            "volumeSnapshotClassName": of_class.name,
            "volumeSnapshotRef": {
                "apiVersion": snapshot.RESOURCE.api_version,
                "kind": snapshot.RESOURCE.kind,
                "namespace": snapshot.namespace,
                "name": snapshot.name,
                "uid": snapshot.uid,
            },
        },
    }
