"""Volumes: PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, CSIDriver, CSINode, VolumeAttributesClass."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.strategy import Admission, Strategy, value_at
from mooring.kube.quantity import InvalidQuantity, parse_quantity

ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"

_CLAIM_FORBIDDEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _modes(spec: Obj, path: str) -> list[FieldError]:
    modes: Sequence[str] = spec.get("accessModes") or ()
    if not modes:
        return [required(f"{path}.accessModes", "at least 1 access mode is required")]
    found = [unsupported(f"{path}.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        found.append(forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    if spec.get("volumeMode") not in ("Filesystem", "Block"):
        found.append(unsupported(f"{path}.volumeMode", spec.get("volumeMode"), ("Filesystem", "Block")))
    return found


def _amount(value: Any, path: str) -> tuple[Decimal | None, list[FieldError]]:
    try:
        amount = parse_quantity(value)
    except InvalidQuantity as error:
        return None, [invalid_value(path, value, str(error))]
    if amount <= 0:
        return None, [invalid_value(path, value, "must be greater than zero")]
    return amount, []


def add_finalizer(obj: Obj, finalizer: str) -> None:
    """Admission plugin StorageObjectInUseProtection."""
    finalizers: list[str] = obj["metadata"].setdefault("finalizers", []) or []
    obj["metadata"]["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


class Claims(Strategy):
    """PersistentVolumeClaims: pending at first, immutable but for growth."""

    returns_deleted = True
    defaults = {"spec.volumeMode": "Filesystem", "status.phase": "Pending"}

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending"}
        add_finalizer(obj, "kubernetes.io/pvc-protection")
        beta: Obj = obj["metadata"].get("annotations") or {}
        if obj["spec"].get("storageClassName") is None and "volume.beta.kubernetes.io/storage-class" not in beta:
            name = default_class(admission.objects(STORAGE_CLASSES))
            if name:
                obj["spec"]["storageClassName"] = name

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = obj["spec"]
        found = _modes(spec, "spec")
        storage = value_at(spec, "resources.requests.storage")
        if storage is None:
            return [*found, required("spec.resources[storage]")]
        return found + _amount(storage, "spec.resources[storage]")[1]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        bound = value_at(old, "status.phase") == "Bound"
        if _fixed_claim(obj["spec"], old["spec"], bound) != _fixed_claim(old["spec"], old["spec"], bound):
            return [forbidden_field("spec", _CLAIM_FORBIDDEN)]
        path = "resources.requests.storage"
        new_size, found = _amount(value_at(obj["spec"], path), f"spec.{path}")
        old_size, _ = _amount(value_at(old["spec"], path), f"spec.{path}")
        if new_size is not None and old_size is not None and new_size < old_size and not _may_shrink(new_size, old):
            found.append(
                forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")
            )
        return found

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {}


def _may_shrink(size: Decimal, old: Obj) -> bool:
    """A failed expansion may be taken back as long as the request stays above what the volume has."""
    have = value_at(old, "status.capacity")
    capacity: Any = have.get("storage") if isinstance(have, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return capacity is not None and size > parse_quantity(capacity)


def _fixed_claim(spec: Obj, old: Obj, bound: bool) -> Obj:
    """The part of a claim's spec that may not change."""
    fixed = deepcopy(spec)
    if not old.get("volumeName"):
        fixed.pop("volumeName", None)
    if bound:
        fixed.pop("volumeAttributesClassName", None)
        ((fixed.get("resources") or {}).get("requests") or {}).pop("storage", None)
    if old.get("storageClassName") is None:
        fixed.pop("storageClassName", None)
    return {key: value for key, value in fixed.items() if value not in (None, [], {})}


def default_class(classes: Sequence[Obj]) -> str | None:
    """The default StorageClass: the newest one so annotated, the first by name among equals (admission DefaultStorageClass)."""
    defaults = [each for each in classes if (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
    defaults.sort(key=lambda each: each["metadata"]["name"])
    defaults.sort(key=lambda each: each["metadata"]["creationTimestamp"], reverse=True)
    return defaults[0]["metadata"]["name"] if defaults else None


_SOURCES = frozenset({
    "gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "iscsi", "cinder", "cephfs", "fc",
    "flocker", "flexVolume", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "portworxVolume",
    "scaleIO", "local", "storageos", "csi",
})  # fmt: skip


class Volumes(Strategy):
    """PersistentVolumes: pending at first, source immutable, phase stamped with its time."""

    returns_deleted = True
    defaults = {
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "spec.hostPath?.type": "",
        "spec.claimRef?.apiVersion": "v1",
        "spec.claimRef?.kind": "PersistentVolumeClaim",
    }

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": admission.now}
        add_finalizer(obj, "kubernetes.io/pv-protection")

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        status: Obj = obj.setdefault("status", {})
        if status.get("phase") != value_at(old, "status.phase"):
            status["lastPhaseTransitionTime"] = admission.now

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = obj["spec"]
        found = _modes(spec, "spec")
        storage = value_at(spec, "capacity.storage")
        found += [required("spec.capacity")] if storage is None else _amount(storage, "spec.capacity[storage]")[1]
        if spec["persistentVolumeReclaimPolicy"] not in ("Retain", "Delete", "Recycle"):
            allowed = ("Retain", "Delete", "Recycle")
            found.append(
                unsupported("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], allowed)
            )
        sources = sorted(_SOURCES & spec.keys())
        if not sources:
            found.append(required("spec", "must specify a volume type"))
        found += [forbidden_field(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
        if spec.get("csi") is not None:
            found += [required(f"spec.csi.{name}") for name in ("driver", "volumeHandle") if not spec["csi"].get(name)]
        if "local" in spec and value_at(spec, "nodeAffinity.required") is None:
            found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        def source(pv: Obj) -> Obj:
            return {name: pv["spec"][name] for name in sorted(_SOURCES & pv["spec"].keys())}

        found: list[FieldError] = []
        if source(obj) != source(old):
            found.append(
                forbidden_field(
                    "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
                )
            )
        if obj["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
            found.append(invalid_value("spec.volumeMode", obj["spec"].get("volumeMode"), "field is immutable"))
        return found


class StorageClasses(Strategy):
    """StorageClasses: what a volume was made by cannot change under it."""

    returns_deleted = True
    defaults = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    immutable = {
        "parameters": "updates to parameters are forbidden.",
        "provisioner": "updates to provisioner are forbidden.",
        "reclaimPolicy": "updates to reclaimPolicy are forbidden.",
        "volumeBindingMode": "field is immutable",
    }

    def validate(self, obj: Obj) -> list[FieldError]:
        found = [] if obj.get("provisioner") else [required("provisioner")]
        for field, allowed in (
            ("reclaimPolicy", ("Delete", "Retain")),
            ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
        ):
            if obj[field] not in allowed:
                found.append(unsupported(field, obj[field], allowed))
        return found


class VolumeAttachments(Strategy):
    """VolumeAttachments: the spec never changes; /status changes the status and nothing else."""

    returns_deleted = True
    unconditional_update = False
    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
    immutable = {"spec": "field is immutable"}

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"attached": False}

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        status: Obj = obj.get("status") or {}
        obj["status"] = status
        status.setdefault("attached", False)

    def validate(self, obj: Obj) -> list[FieldError]:
        spec: Obj = obj.get("spec") or {}
        found = [required(f"spec.{name}") for name in ("attacher", "nodeName") if not spec.get(name)]
        source: Obj = spec.get("source") or {}
        given = [name for name in ("persistentVolumeName", "inlineVolumeSpec") if source.get(name)]
        if not given:
            found.append(
                required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
            )
        elif len(given) > 1:
            found.append(
                forbidden_field("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
            )
        return found


class CSIDrivers(Strategy):
    """CSIDriver objects and their defaults."""

    returns_deleted = True
    defaults = {
        "spec.attachRequired": True,
        "spec.podInfoOnMount": False,
        "spec.storageCapacity": False,
        "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        "spec.volumeLifecycleModes": ["Persistent"],
        "spec.requiresRepublish": False,
        "spec.seLinuxMount": False,
    }
    counts_generations = True
    immutable = {"spec.attachRequired": "field is immutable", "spec.volumeLifecycleModes": "field is immutable"}


class CSINodes(Strategy):
    """CSINode objects: a driver's entry cannot change, only come and go."""

    returns_deleted = True
    unconditional_update = False

    def validate(self, obj: Obj) -> list[FieldError]:
        found: list[FieldError] = []
        for index, driver in enumerate(value_at(obj, "spec.drivers") or []):
            found += [required(f"spec.drivers[{index}].{name}") for name in ("name", "nodeID") if not driver.get(name)]
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before = {driver["name"]: driver for driver in value_at(old, "spec.drivers") or []}
        after: list[Obj] = value_at(obj, "spec.drivers") or []
        changed = [driver for driver in after if before.get(driver["name"], driver) != driver]
        return [invalid_value("spec.drivers", driver, "field is immutable") for driver in changed]


class VolumeAttributesClasses(Strategy):
    """VolumeAttributesClasses cannot change."""

    immutable = {
        "driverName": "updates to driverName are forbidden.",
        "parameters": "updates to parameters are forbidden.",
    }

    def validate(self, obj: Obj) -> list[FieldError]:
        return [] if obj.get("driverName") else [required("driverName")]
