"""Volumes: PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, CSIDriver, CSINode and
VolumeAttributesClass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any, ClassVar, cast

from mooring.apiserver.errors import FieldError, Obj, Resource, forbidden, forbidden_field, invalid_value
from mooring.apiserver.objects.defaults import Rules
from mooring.apiserver.objects.strategy import IMMUTABLE, Admission, Strategy
from mooring.apiserver.objects.validation import storage as valid
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.kube.quantity import parse_quantity

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

_SIZE = "spec.resources.requests.storage"
_MAY_NOT_GROW = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)
_CLAIM_FORBIDDEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def _add_finalizer(obj: Obj, finalizer: str) -> None:
    """Admission plugin StorageObjectInUseProtection."""
    finalizers = list_at(obj, "metadata.finalizers")
    obj["metadata"]["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


class Claims(Strategy):
    """PersistentVolumeClaims: pending at first, immutable but for growth."""

    rules = (valid.claim,)
    returns_deleted = True
    defaults: ClassVar[Rules] = {"spec.volumeMode": "Filesystem", "status.phase": "Pending"}

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending"}
        object_at(obj, "spec").update(_data_sources(object_at(obj, "spec")))
        _add_finalizer(obj, "kubernetes.io/pvc-protection")
        named_by_annotation = CLASS_ANNOTATION in object_at(obj, "metadata.annotations")
        if value_at(obj, "spec.storageClassName") is None and not named_by_annotation:
            name = default_class(admission.objects(STORAGE_CLASSES))
            if name:
                obj["spec"]["storageClassName"] = name

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        object_at(obj, "spec").update(_data_sources(object_at(obj, "spec")))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        bound = text_at(old, "status.phase") == "Bound"
        before, after = object_at(old, "spec"), object_at(obj, "spec")
        if _fixed_claim(after, before, bound) != _fixed_claim(before, before, bound):
            return [forbidden_field("spec", _CLAIM_FORBIDDEN)]
        new_size, old_size = (parse_quantity(value_at(each, _SIZE) or "0") for each in (obj, old))
        if new_size < old_size and not _may_shrink(new_size, old):
            return [forbidden_field(_SIZE, "field can not be less than status.capacity")]
        return []

    def admit_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """Admission plugin PersistentVolumeClaimResize."""
        before, after = (parse_quantity(value_at(each, _SIZE) or "0") for each in (old, obj))
        if after <= before:
            return
        if text_at(old, "status.phase") != "Bound":
            detail = "Only bound persistent volume claims can be expanded"
        elif not _may_grow(_class_name(obj), _class_name(old), admission.objects(STORAGE_CLASSES)):
            detail = _MAY_NOT_GROW
        else:
            return
        raise forbidden(Resource("", "persistentvolumeclaims"), text_at(obj, "metadata.name"), detail)


def _class_name(claim: Obj) -> str:
    annotations = strings_at(claim, "metadata.annotations")
    return annotations.get(CLASS_ANNOTATION) or text_at(claim, "spec.storageClassName")


def _may_grow(name: str, former: str, classes: Sequence[Obj]) -> bool:
    """Whether the claim's class, which is the one that it had, lets volumes grow."""
    if not name or name != former:
        return False
    return any(
        text_at(each, "metadata.name") == name and value_at(each, "allowVolumeExpansion") is True
        for each in classes
    )


def _data_sources(spec: Obj) -> Obj:
    """The one data source of a claim by both of its names, so that neither way of asking gives an empty
    volume (KEP-1495; upstream: NormalizeDataSources). A source in a namespace has one name only.

    Unlike upstream, no source is dropped: a claim with one that cannot be used waits instead of being empty.
    """
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        return {"dataSourceRef": dict(old)}
    if new is not None and old is None and not new.get("namespace"):
        return {"dataSource": {name: value for name, value in new.items() if name != "namespace"}}
    return {}


def _may_shrink(size: Decimal, old: Obj) -> bool:
    """A failed expansion may be taken back as long as the request stays above what the volume has."""
    capacity = value_at(old, "status.capacity.storage")
    return capacity is not None and size > parse_quantity(capacity)


def _fixed_claim(spec: Obj, old: Obj, bound: bool) -> Obj:
    """The part of a claim's spec that may not change."""
    fixed = deepcopy({**spec, **_data_sources(spec)})
    if not old.get("volumeName"):
        fixed.pop("volumeName", None)
    if bound:
        fixed.pop("volumeAttributesClassName", None)
        object_at(fixed, "resources.requests").pop("storage", None)
    if old.get("storageClassName") is None:
        fixed.pop("storageClassName", None)
    return {key: value for key, value in fixed.items() if value not in (None, [], {})}


def default_class(classes: Sequence[Obj]) -> str | None:
    """The default StorageClass: the newest so annotated, by name among equals (admission
    DefaultStorageClass)."""
    defaults = [
        each for each in classes if strings_at(each, "metadata.annotations").get(DEFAULT_CLASS) == "true"
    ]
    defaults.sort(key=lambda each: text_at(each, "metadata.name"))
    defaults.sort(key=lambda each: text_at(each, "metadata.creationTimestamp"), reverse=True)
    return text_at(defaults[0], "metadata.name") if defaults else None


_SOURCES = frozenset({
    "gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "iscsi", "cinder", "cephfs",
    "fc", "flocker", "flexVolume", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk",
    "portworxVolume", "scaleIO", "local", "storageos", "csi",
})  # fmt: skip


def _source(volume: Obj) -> Obj:
    spec = object_at(volume, "spec")
    return {name: spec[name] for name in sorted(_SOURCES & spec.keys()) if spec[name] is not None}


class Volumes(Strategy):
    """PersistentVolumes: pending at first, source immutable, phase stamped with its time."""

    rules = (valid.volume,)
    returns_deleted = True
    defaults: ClassVar[Rules] = {
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "spec.hostPath?.type": "",
        "spec.azureDisk?.cachingMode": "ReadWrite",
        "spec.azureDisk?.fsType": "ext4",
        "spec.azureDisk?.readOnly": False,
        "spec.azureDisk?.kind": "Shared",
        "spec.iscsi?.iscsiInterface": "default",
        "spec.rbd?.pool": "rbd",
        "spec.rbd?.user": "admin",
        "spec.rbd?.keyring": "/etc/ceph/keyring",
        "spec.scaleIO?.storageMode": "ThinProvisioned",
        "spec.scaleIO?.fsType": "xfs",
    }

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": admission.now}
        _add_finalizer(obj, "kubernetes.io/pv-protection")

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        if value_at(obj, "status.phase") != value_at(old, "status.phase"):
            obj["status"]["lastPhaseTransitionTime"] = admission.now

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        errors: list[FieldError] = []
        if _source(obj) != _source(old):
            detail = "spec.persistentvolumesource is immutable after creation"
            errors.append(forbidden_field("spec.persistentvolumesource", detail))
        if value_at(obj, "spec.volumeMode") != value_at(old, "spec.volumeMode"):
            errors.append(invalid_value("volumeMode", value_at(obj, "spec.volumeMode"), IMMUTABLE))
        before, after = (value_at(each, "spec.nodeAffinity") for each in (old, obj))
        if before is not None and not _is_same_affinity(after, before):
            detail = f"{IMMUTABLE}, except for updating from beta label to GA"
            errors.append(invalid_value("nodeAffinity", after, detail))
        return errors


_GENERAL_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
"""The labels of nodes that had a beta name, and the name that took its place."""


def _is_same_affinity(new: Any, old: Any) -> bool:
    """Whether they select the same nodes by the same labels; the new one may call a label by its later
    name."""
    if isinstance(new, dict) and isinstance(old, dict):
        known, former = cast(Obj, new), cast(Obj, old)
        return known.keys() == former.keys() and all(
            _is_same_affinity(known[key], former[key])
            or (key == "key" and _GENERAL_LABELS.get(former[key]) == known[key])
            for key in known
        )
    if isinstance(new, list) and isinstance(old, list):
        pairs = zip(cast(list[Any], new), cast(list[Any], old), strict=False)
        return len(cast(list[Any], new)) == len(cast(list[Any], old)) and all(
            _is_same_affinity(*each) for each in pairs
        )
    return bool(new == old)


class StorageClasses(Strategy):
    """StorageClasses: what a volume was made by cannot change under it."""

    rules = (valid.storage_class,)
    returns_deleted = True
    defaults: ClassVar[Rules] = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    immutable: ClassVar[Mapping[str, str]] = {
        "parameters": IMMUTABLE,
        "provisioner": IMMUTABLE,
        "reclaimPolicy": IMMUTABLE,
        "volumeBindingMode": IMMUTABLE,
    }


class VolumeAttachments(Strategy):
    """VolumeAttachments: the spec never changes; /status changes the status and nothing else."""

    rules = (valid.attachment,)
    returns_deleted = True
    unconditional_update = False
    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
    defaults: ClassVar[Rules] = {"status.attached": False}
    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}


class CSIDrivers(Strategy):
    """CSIDriver objects and their defaults."""

    judges_base = False
    rules = (valid.driver,)
    returns_deleted = True
    counts_generations = True
    first_generation = 0
    defaults: ClassVar[Rules] = {
        "spec.attachRequired": True,
        "spec.podInfoOnMount": False,
        "spec.storageCapacity": False,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        "spec.volumeLifecycleModes": ["Persistent"],
        "spec.requiresRepublish": False,
        "spec.seLinuxMount": False,
    }
    immutable: ClassVar[Mapping[str, str]] = {"spec.volumeLifecycleModes": IMMUTABLE}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = (value_at(each, "spec.attachRequired") for each in (old, obj))
        errors = [invalid_value("spec.attachedRequired", after, IMMUTABLE)] if before != after else []  # sic
        return [*errors, *super().validate_update(obj, old)]


def _fixed_driver(driver: Obj) -> Obj:
    """A driver's entry but for how many volumes it can attach (KEP-4876)."""
    return {key: value for key, value in driver.items() if key != "allocatable"}


class CSINodes(Strategy):
    """CSINode objects: a driver's entry cannot change, only come and go."""

    rules = (valid.csi_node,)
    returns_deleted = True
    unconditional_update = False

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before = {driver.get("name"): _fixed_driver(driver) for driver in objects_at(old, "spec.drivers")}
        after = [(driver, _fixed_driver(driver)) for driver in objects_at(obj, "spec.drivers")]
        changed = [driver for driver, fixed in after if before.get(driver.get("name"), fixed) != fixed]
        return [invalid_value("spec.drivers", driver, IMMUTABLE) for driver in changed]


class VolumeAttributesClasses(Strategy):
    """VolumeAttributesClasses cannot change."""

    rules = (valid.attributes_class,)
    immutable: ClassVar[Mapping[str, str]] = {
        "driverName": "updates to driverName are forbidden.",
        "parameters": "updates to parameters are forbidden.",
    }
