"""What is decided about volumes that are made for claims, and about those whose claim is gone.

Sources: upstream's hand-over to external provisioners (the annotation that names who is asked, delayed
binding), KEP-2644 (a finalizer keeps the PersistentVolume until its disk is deleted), reclaim policies
(https://kubernetes.io/docs/concepts/storage/persistent-volumes), and docs/protocol.md, "Reclaim".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.controllers.provisioning import controller, request
from mooring.controllers.provisioning.begun_claims import BegunClaims
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.decide import ClaimAction, VolumeAction
from mooring.kube.decision import Decision
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.simulation.checks.second_opinions import near_reclaims
from mooring.simulation.checks.second_opinions.bindings import (
    BOUND,
    OWNERS_OF_SOURCES,
    PROVISIONED_BY,
    SELECTED_NODE,
    size,
)
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.interfaces import ContentSource, DeletableVolumePlugin
from mooring.volumes.spec import VolumeSpec

ASKED = "volume.kubernetes.io/storage-provisioner"
DELAYED = "WaitForFirstConsumer"
BEGUN = "mooring.dev/provisioning"
ASKED_BY = "mooring.dev/provisioning-asked-by"
HELD_FOR_PLUGIN = "mooring.dev/provisioned"
HELD_FOR_DRIVER = "external-provisioner.volume.kubernetes.io/finalizer"
DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""What in-tree provisioners are today."""


def driver(provisioner: str) -> str:
    return DRIVERS.get(provisioner, provisioner)


def wants(claim: PersistentVolumeClaim, storage_class: StorageClass | None, ours: Container[str]) -> bool:
    """Whether one of ours is asked for a volume by name, and may make it: the claim has none and stays, and
    where the class waits for a pod its node is chosen."""
    if storage_class is None or claim.deleting or claim.spec.volume_name:
        return False
    annotations, maker = claim.metadata.annotations, driver(storage_class.provisioner)
    if annotations.get(ASKED) != maker or maker not in ours or BOUND in annotations:
        return False
    return storage_class.volume_binding_mode != DELAYED or SELECTED_NODE in annotations


def of_claim(
    answer: Decision[ClaimAction],
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    provisioners: Container[str],
    *,
    made: bool,
) -> Iterator[str]:
    """What has begun ends when the volume is there, and goes on until then, whatever becomes of the claim. It
    needs the class that it began with: if that is gone, or by now is of another driver than was asked (one
    of ours), it waits. What another process has begun is left to it."""
    expected = ClaimAction.SETTLED
    if BEGUN not in claim.metadata.finalizers:
        if not made and wants(claim, storage_class, provisioners):
            expected = ClaimAction.PROVISION
    elif made:
        expected = ClaimAction.FINISH
    elif storage_class is None:
        expected = ClaimAction.ASK
    else:
        present = driver(storage_class.provisioner)
        maker = claim.metadata.annotations.get(ASKED) or present
        if maker in provisioners:
            expected = ClaimAction.PROVISION if maker == present else ClaimAction.ASK
    if answer.action is not expected:
        yield f"claim {claim.key}: {answer.action.value}, and not {expected.value}"


def maker_of(pv: PersistentVolume) -> str:
    return driver(pv.metadata.annotations.get(PROVISIONED_BY, ""))


def finalizer(maker: str) -> str:
    """Drivers' volumes are held by upstream's finalizer: plugins' names have a slash."""
    return HELD_FOR_DRIVER if maker and "/" not in maker else HELD_FOR_PLUGIN


def of_volume(
    answer: Decision[VolumeAction],
    pv: PersistentVolume,
    provisioners: Container[str],
    *,
    deletable: bool | None = None,
) -> Iterator[str]:
    """Only a volume without a claim is reclaimed, as its policy says: deleted by who made it, or, if people
    wrote it, by a plugin of its kind, without which it fails, once. One that is deleted and is to stay on
    its storage is let go by who made it."""
    policy, maker = pv.spec.persistent_volume_reclaim_policy, maker_of(pv)
    without = pv.status.phase in ("Released", "Failed")
    expected = VolumeAction.KEEP
    if without and policy == "Recycle":
        expected = VolumeAction.RECYCLE
    elif policy == "Delete":
        if without and (maker in provisioners if maker else deletable):
            expected = VolumeAction.DELETE
        elif not maker and deletable is False and pv.status.phase == "Released":
            expected = VolumeAction.FAIL
    elif pv.deleting and maker in provisioners and finalizer(maker) in pv.metadata.finalizers:
        expected = VolumeAction.RELEASE
    if answer.action is not expected:
        yield f"volume {pv.name}: {answer.action.value}, and not {expected.value}"


def of_name(answer: str, claim: PersistentVolumeClaim) -> Iterator[str]:
    """There is one name for one claim, so that it never gets two volumes."""
    if answer != f"pvc-{claim.uid}":
        yield f"a volume for claim {claim.uid} is named {answer}"


def of_deletable(answer: bool | None, asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """Plugins delete what no driver can; a process that serves a driver leaves that to others."""
    of_driver = pv.spec.csi is not None or any(
        getattr(pv.spec, name) is not None for name in OWNERS_OF_SOURCES
    )
    expected: bool | None = None
    if asked._static_volumes and not of_driver:
        spec = VolumeSpec.of_persistent_volume(pv)
        able = [each for each in asked._plugins.plugins if each.can_support(spec)]
        expected = len(able) == 1 and isinstance(able[0], DeletableVolumePlugin)
    if answer is not expected:
        yield f"volume {pv.name} can be deleted: {answer}, and not {expected}"


def of_made(
    answer: PersistentVolume,
    asked: Any,
    claim: PersistentVolumeClaim,
    written: StorageClass,
    *prepared: object,
) -> Iterator[str]:
    """A volume that is made has what the claim asks for, and what its class says. A raw device is not
    mounted, so its class's mount options say nothing of it."""
    spec, want = answer.spec, claim.spec
    options = set(written.mount_options) if want.volume_mode != "Block" else set[str]()
    found = {
        "name": (answer.name, f"pvc-{claim.uid}"),
        "maker": (maker_of(answer), driver(written.provisioner)),
        "class": (spec.storage_class_name, want.storage_class_name),
        "reclaim policy": (spec.persistent_volume_reclaim_policy, written.reclaim_policy),
        "mount options": (options.intersection(spec.mount_options), options),
        "mode": (spec.volume_mode, want.volume_mode),
        "attributes": (spec.volume_attributes_class_name or "", want.volume_attributes_class_name or ""),
        "access modes": ({*want.access_modes} - {*spec.access_modes}, set[str]()),
    }
    for what, (given, expected) in found.items():
        if given != expected:
            yield f"the {what} of {answer.name} is {given}, and not {expected}"
    if size(spec.capacity.get("storage", 0)) < size(want.resources.requests.get("storage", 0)):
        yield f"{answer.name} has fewer bytes than claim {claim.key} asks for"


def of_body(answer: dict[str, Any], made: PersistentVolume, claim: PersistentVolumeClaim) -> Iterator[str]:
    """The PersistentVolume is the claim's from the beginning, and held if its disk is to go with it."""
    kept = (*made.metadata.finalizers,)
    if made.spec.persistent_volume_reclaim_policy == "Delete":
        kept += (finalizer(maker_of(made)),)
    found = msgspec.convert(answer, PersistentVolume)
    named = found.spec.claim_ref
    if named is None or (named.namespace, named.name, named.uid) != (claim.namespace, claim.name, claim.uid):
        yield f"{made.name} is made for {claim.key}, and names {named}"
    if found.metadata.finalizers != kept:
        yield f"{made.name} is held by {found.metadata.finalizers}, and not by {kept}"
    metadata = replace(found.metadata, finalizers=made.metadata.finalizers)
    if replace(found, metadata=metadata, spec=replace(found.spec, claim_ref=made.spec.claim_ref)) != made:
        yield f"{made.name} is not as it was made"


SIGNED: Memories[dict[str, str]] = Memories(dict)
"""Of each provisioner: uid of a claim → how it has signed it last."""


def last_signature(asked: Any, claim: PersistentVolumeClaim, *written: object) -> str | None:
    """By which this process is known, before it writes."""
    return SIGNED.of(asked).get(claim.uid)


def of_finalizers(
    answer: PersistentVolumeClaim,
    own: str | None,
    asked: Any,
    claim: PersistentVolumeClaim,
    finalizers: Sequence[str],
    annotations: Mapping[str, str | None],
) -> Iterator[str]:
    """That provisioning has begun is written once, and taken back once; in between it is signed, and a
    signature is taken back. Other finalizers are left alone, and what has begun keeps its node. Each
    signature is the version that it is written upon, and takes the place of the last one of its process; with
    the mark all of them go."""
    before, after = set(claim.metadata.finalizers), set(finalizers)
    if before ^ after != {BEGUN} and not BEGUN in before == after:
        yield f"the finalizers of claim {claim.key} were {sorted(before)}, and are {finalizers}"
    if BEGUN in after:
        former = signed_by(claim) if BEGUN in before else []
        given = (annotations.get(ASKED_BY) or "").split()
        others = [each for each in former if each != own]
        signing = [[*each, claim.metadata.resource_version][-8:] for each in (former, others)]
        right = (given in signing or given == others != former) and len(annotations) == 1
    else:
        right = annotations in ({ASKED_BY: None}, {ASKED_BY: None, SELECTED_NODE: None})
    if not right:
        yield f"with the finalizers {finalizers}, claim {claim.key} gets {annotations}"


def signed_by(claim: PersistentVolumeClaim) -> list[str]:
    """The signatures of those who ask for its volume."""
    return claim.metadata.annotations.get(ASKED_BY, "").split()


def original_of(
    client: Any, claim: PersistentVolumeClaim, claims: Any, *others: Any
) -> PersistentVolumeClaim | None:
    """The claim that it is to be a copy of, as it is known before its volume is read."""
    source = claim.spec.data_source_ref or claim.spec.data_source
    return claims.get(f"{claim.namespace}/{source['name']}") if source else None


def of_content(
    answer: ContentSource | None,
    original: PersistentVolumeClaim | None,
    client: Any,
    claim: PersistentVolumeClaim,
    claims: Any,
    volumes: Any,
    plugin: Any,
    originals: Any,
) -> Iterator[str]:
    """A claim with a data source never gets an empty volume, and one without gets no other content. It is a
    copy of what is in its own namespace: of a claim's volume of the same storage, or of a snapshot."""
    source = claim.spec.data_source_ref or claim.spec.data_source
    if source is None or answer is None:
        if bool(source) != (answer is not None):
            yield f"claim {claim.key} with source {source} gets {answer}"
        return
    if (source.get("namespace") or claim.namespace) != claim.namespace:
        yield f"claim {claim.key} gets what is in namespace {source['namespace']}"
    if source.get("kind") != "PersistentVolumeClaim":
        if answer.volume or not answer.snapshot or source.get("kind") != "VolumeSnapshot":
            yield f"claim {claim.key} with source {source} gets {answer}"
        return
    pv = volumes.get(original.spec.volume_name) if original is not None else None
    reference = pv.spec.claim_ref if pv is not None else None
    if original is not None and (reference is None or reference.uid != original.uid):
        yield f"claim {claim.key} is to be a copy of {source['name']}, and becomes one of another's volume"
    spec = VolumeSpec.of_persistent_volume(pv) if pv is not None else None
    if spec is None or not plugin.can_support(spec) or plugin.get_volume_name(spec) != answer.volume:
        yield f"claim {claim.key} is to be a copy of {source['name']}, and becomes one of {answer}"


def of_claims_of_class(answer: Iterable[object], asked: Any, storage_class: StorageClass) -> Iterator[str]:
    """A class that is new is what its claims were waiting for."""
    expected = {
        ClaimKey(each.key)
        for each in asked._claims.items()
        if each.spec.storage_class_name == storage_class.name
    }
    if {*answer} != expected:
        yield f"class {storage_class.name} marks {answer}, and not {expected}"


def of_attachment(answer: Iterable[object], record: VolumeAttachment) -> Iterator[str]:
    """A volume that is detached may be deleted now."""
    name = record.spec.source.persistent_volume_name
    if [*answer] != ([VolumeKey(name)] if name else []):
        yield f"a change of {record.name} marks {answer}"


QUESTIONS = (
    Question(controller, "decide_claim", of_claim, near=near_reclaims.OF_REQUEST),
    Question(controller, "decide_volume", of_volume, near=near_reclaims.OF_RECLAIM),
    Question(controller, "volume_name", of_name),
    Question(controller, "body_of", of_body),
    Question(request, "content_of", of_content, before=original_of),
    Question(controller, "_volumes_of", of_attachment),
    Question(ProvisioningController, "_deletable", of_deletable),
    Question(ProvisioningController, "_make", of_made),
    Question(BegunClaims, "_set_finalizers", of_finalizers, before=last_signature),
    Question(ProvisioningController, "_claims_of_class", of_claims_of_class),
)
