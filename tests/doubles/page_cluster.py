"""Objects of a made-up cluster for the page: nodes, volumes of a CSI driver, their claims and pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.kube.objects import (
    AttachedVolume,
    AWSElasticBlockStoreVolumeSource,
    Condition,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    CSIPersistentVolumeSource,
    EmptyDirVolumeSource,
    Event,
    ManagedMeta,
    NFSVolumeSource,
    Node,
    NodeStatus,
    Object,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.page.model import Model
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.matching import BIND_COMPLETED
from mooring.volumes.names import attachable_volume_name, csi_volume_name, volume_attachment_name
from mooring.volumes.plugin_manager import PluginManager, load_plugins

DRIVER = "disk.example.com"
LONG_AGO = "2030-01-01T00:00:00Z"
NOW_MS = int(datetime(2030, 1, 1, 1, tzinfo=UTC).timestamp() * 1000)


def plugins() -> PluginManager:
    return load_plugins(ControllerVolumeHost(lambda: datetime(2030, 1, 1, tzinfo=UTC)))


def model(**options: Any) -> Model:
    """An empty one, whose time stands still unless `now` is given."""
    return Model(plugins(), options.pop("now", lambda: NOW_MS), **options)


def unique(volume: str) -> str:
    return attachable_volume_name("kubernetes.io/csi", csi_volume_name(DRIVER, f"h-{volume}"))


def node(
    name: str, *, ready: str = "True", in_use: tuple[str, ...] = (), version: int = 1, **spec: Any
) -> Node:
    """`in_use`: names of volumes, which are also attached."""
    names = tuple(unique(each) for each in in_use)
    base = Node(
        metadata=ManagedMeta(
            name=name, uid=f"uid-{name}", resource_version=str(version), creation_timestamp=LONG_AGO
        ),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready, last_transition_time=LONG_AGO),),
            volumes_attached=tuple(AttachedVolume(name=each) for each in names),
            volumes_in_use=names,
        ),
    )
    return msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, **spec)) if spec else base


def volume(name: str, *, claim: str = "", phase: str = "Bound") -> PersistentVolume:
    """Bound to default/`claim`, which has the volume's name if none is given."""
    reference = ObjectReference(namespace="default", name=claim or name, uid=f"uid-{claim or name}")
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=f"uid-pv-{name}", creation_timestamp=LONG_AGO),
        spec=PersistentVolumeSpec(
            capacity={"storage": "1Gi"},
            access_modes=("ReadWriteOnce",),
            claim_ref=reference if phase != "Available" else None,
            storage_class_name="disk",
            csi=CSIPersistentVolumeSource(driver=DRIVER, volume_handle=f"h-{name}"),
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def claim(name: str, *, volume: str | None = None, phase: str = "Bound") -> PersistentVolumeClaim:
    bound = phase == "Bound"
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            creation_timestamp=LONG_AGO,
            annotations={BIND_COMPLETED: "yes"} if bound else {},
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name="disk",
            volume_name=(volume or name) if bound else "",
        ),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def pod(
    name: str, *, on: str = "", claims: tuple[str, ...] = (), runs: bool = True, own: tuple[Volume, ...] = ()
) -> Pod:
    """`own`: volumes that it defines itself."""
    running = ContainerStatus(
        name="c", ready=True, state=ContainerState(running=ContainerStateRunning(started_at=LONG_AGO))
    )
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=f"uid-pod-{name}", creation_timestamp=LONG_AGO
        ),
        spec=PodSpec(
            node_name=on,
            volumes=tuple(
                Volume(name=each, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=each))
                for each in claims
            )
            + own,
        ),
        status=PodStatus(
            phase="Running" if runs else "Pending",
            conditions=(Condition(type="Ready", status="True", last_transition_time=LONG_AGO),)
            if runs
            else (),
            container_statuses=(running,) if runs else (),
        ),
    )


NFS = Volume(name="share", nfs=NFSVolumeSource(server="nas", path="/x"))
LOCAL = Volume(name="scratch", empty_dir=EmptyDirVolumeSource())
EBS = Volume(name="disk", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="vol-1"))


def own_record(on: str, *, attached: bool = True) -> VolumeAttachment:
    """The attachment of the volume that a pod defines as EBS."""
    name = volume_attachment_name("kubernetes.io/csi", csi_volume_name("ebs.csi.aws.com", "vol-1"), on)
    source = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}
    return VolumeAttachment(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=LONG_AGO),
        spec=VolumeAttachmentSpec(
            attacher="ebs.csi.aws.com",
            node_name=on,
            source=VolumeAttachmentSource(inline_volume_spec=source),
        ),
        status=VolumeAttachmentStatus(attached=attached),
    )


def attachment(volume: str, on: str, *, attached: bool = True, deleting: bool = False) -> VolumeAttachment:
    name = volume_attachment_name("kubernetes.io/csi", csi_volume_name(DRIVER, f"h-{volume}"), on)
    return VolumeAttachment(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            creation_timestamp=LONG_AGO,
            deletion_timestamp=LONG_AGO if deleting else None,
        ),
        spec=VolumeAttachmentSpec(
            attacher=DRIVER, node_name=on, source=VolumeAttachmentSource(persistent_volume_name=volume)
        ),
        status=VolumeAttachmentStatus(attached=attached),
    )


def event(
    about: Object, reason: str, message: str = "", *, warning: bool = True, at: str = LONG_AGO
) -> Event:
    return Event(
        metadata=ObjectMeta(
            name=f"{about.name}.{reason}", namespace="default", uid=f"uid-{about.name}-{reason}"
        ),
        involved_object=ObjectReference(
            kind=about.RESOURCE.kind, namespace=about.namespace, name=about.name, uid=about.uid
        ),
        reason=reason,
        message=message,
        type="Warning" if warning else "Normal",
        last_timestamp=at,
    )


def cluster(nodes: int, volumes_each: int) -> Iterator[Object]:
    """All is well: each volume is in use on its node, by a pod of its own."""
    for number in range(nodes):
        name = f"node-{number}"
        held = tuple(f"v-{number}-{each}" for each in range(volumes_each))
        yield node(name, in_use=held)
        for each in held:
            yield volume(each)
            yield claim(each)
            yield pod(f"p-{each}", on=name, claims=(each,))
            yield attachment(each, name)


def settle(page: Model, *objects: Object) -> Model:
    """Applies objects, makes the rows and gives all explanations."""
    for each in objects:
        page.apply(None, each)
    page.flush()
    page.explain(lambda: False)
    return page


def replace(page: Model, old: Object, new: Object | None) -> Model:
    """Applies one change, and all that follows."""
    page.apply(old, new)
    page.flush()
    page.explain(lambda: False)
    return page
