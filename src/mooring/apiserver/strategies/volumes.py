"""Volumes: PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment, CSIDriver, CSINode and
VolumeAttributesClass."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import Any, ClassVar

from mooring.apiserver.defaults import Rules
from mooring.apiserver.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.strategy import IMMUTABLE, Admission, Strategy, subdomain_error
from mooring.kube.quantity import InvalidQuantity, parse_quantity

ACCESS_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
RECLAIM_POLICIES = frozenset({"Retain", "Delete", "Recycle"})
VOLUME_MODES = frozenset({"Filesystem", "Block"})
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"

_CLAIM_FORBIDDEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _modes(spec: Obj, none: str = "") -> list[FieldError]:
    """What is wrong with the access modes and the volume mode; `none` is said of a spec without the former."""
    modes = list_at(spec, "accessModes")
    if not modes:
        return [required("spec.accessModes", none)]
    found = [unsupported("spec.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        found.append(forbidden_field("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
    if spec.get("volumeMode") not in VOLUME_MODES:
        found.append(unsupported("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES))
    return found


def _amount(value: Any, path: str) -> tuple[Decimal | None, list[FieldError]]:
    try:
        amount = parse_quantity(value)
    except InvalidQuantity as error:
        return None, [invalid_value(path, value, str(error))]
    if amount <= 0:
        return None, [invalid_value(path, value, "must be greater than zero")]
    return amount, []


def _add_finalizer(obj: Obj, finalizer: str) -> None:
    """Admission plugin StorageObjectInUseProtection."""
    finalizers = list_at(obj, "metadata.finalizers")
    obj["metadata"]["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


class Claims(Strategy):
    """PersistentVolumeClaims: pending at first, immutable but for growth."""

    returns_deleted = True
    defaults: ClassVar[Rules] = {"spec.volumeMode": "Filesystem", "status.phase": "Pending"}

    def default(self, obj: Obj) -> None:
        super().default(obj)
        object_at(obj, "spec").update(_data_sources(object_at(obj, "spec")))

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending"}
        _add_finalizer(obj, "kubernetes.io/pvc-protection")
        named_by_annotation = "volume.beta.kubernetes.io/storage-class" in object_at(obj, "metadata.annotations")
        if value_at(obj, "spec.storageClassName") is None and not named_by_annotation:
            name = default_class(admission.objects(STORAGE_CLASSES))
            if name:
                obj["spec"]["storageClassName"] = name

    def validate(self, obj: Obj) -> list[FieldError]:
        found = _modes(object_at(obj, "spec"), "at least 1 access mode is required")
        name = text_at(obj, "spec.storageClassName")
        if name and (why := subdomain_error(name)) is not None:
            found.append(invalid_value("spec.storageClassName", name, why))
        storage = value_at(obj, "spec.resources.requests.storage")
        if storage is None:
            return [*found, required("spec.resources[storage]")]
        return found + _amount(storage, "spec.resources[storage]")[1]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        bound = text_at(old, "status.phase") == "Bound"
        before, after = object_at(old, "spec"), object_at(obj, "spec")
        if _fixed_claim(after, before, bound) != _fixed_claim(before, before, bound):
            return [forbidden_field("spec", _CLAIM_FORBIDDEN)]
        path = "spec.resources.requests.storage"
        new_size, found = _amount(value_at(obj, path), path)
        old_size, _ = _amount(value_at(old, path), path)
        if new_size is not None and old_size is not None and new_size < old_size and not _may_shrink(new_size, old):
            found.append(forbidden_field(path, "field can not be less than status.capacity"))
        return found


def _data_sources(spec: Obj) -> Obj:
    """The one data source of a claim by both of its names, so that neither way of asking gives an empty volume
    (KEP-1495; upstream: NormalizeDataSources). A source in a namespace has one name only."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        return {"dataSourceRef": dict(old)}
    if new and not old and not new.get("namespace"):
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
    """The default StorageClass: the newest so annotated, by name among equals (admission DefaultStorageClass)."""
    defaults = [each for each in classes if strings_at(each, "metadata.annotations").get(DEFAULT_CLASS) == "true"]
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

    returns_deleted = True
    defaults: ClassVar[Rules] = {
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "spec.hostPath?.type": "",
    }

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": admission.now}
        _add_finalizer(obj, "kubernetes.io/pv-protection")

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        if value_at(obj, "status.phase") != value_at(old, "status.phase"):
            obj["status"]["lastPhaseTransitionTime"] = admission.now

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = object_at(obj, "spec")
        found = _modes(spec)
        storage = value_at(spec, "capacity.storage")
        if storage is None:
            found += [required("spec.capacity"), unsupported("spec.capacity", None, ["storage"])]
        else:
            found += _amount(storage, "spec.capacity[storage]")[1]
        policy = spec["persistentVolumeReclaimPolicy"]
        if policy not in RECLAIM_POLICIES:
            found.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES))
        return found + _source_errors(obj)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        found: list[FieldError] = []
        if _source(obj) != _source(old):
            detail = "spec.persistentvolumesource is immutable after creation"
            found.append(forbidden_field("spec.persistentvolumesource", detail))
        if value_at(obj, "spec.volumeMode") != value_at(old, "spec.volumeMode"):
            found.append(invalid_value("volumeMode", value_at(obj, "spec.volumeMode"), IMMUTABLE))
        return found


def _source_errors(volume: Obj) -> list[FieldError]:
    source = _source(volume)
    if not source:
        return [required("spec", "must specify a volume type")]
    detail = "may not specify more than 1 volume type"
    found = [forbidden_field(f"spec.{name}", detail) for name in list(source)[1:]]
    if "csi" in source:
        names = ("driver", "volumeHandle")
        found += [required(f"spec.csi.{name}") for name in names if not text_at(volume, f"spec.csi.{name}")]
    if "local" in source and value_at(volume, "spec.nodeAffinity.required") is None:
        found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return found


class StorageClasses(Strategy):
    """StorageClasses: what a volume was made by cannot change under it."""

    returns_deleted = True
    defaults: ClassVar[Rules] = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    immutable: ClassVar[Mapping[str, str]] = {
        "parameters": IMMUTABLE,
        "provisioner": IMMUTABLE,
        "reclaimPolicy": IMMUTABLE,
        "volumeBindingMode": IMMUTABLE,
    }
    _ALLOWED: ClassVar[Mapping[str, Sequence[str]]] = {
        "reclaimPolicy": ("Delete", "Retain"),
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    }

    def validate(self, obj: Obj) -> list[FieldError]:
        found = [] if text_at(obj, "provisioner") else [required("provisioner")]
        wrong = {field: allowed for field, allowed in self._ALLOWED.items() if obj[field] not in allowed}
        return found + [unsupported(field, obj[field], allowed) for field, allowed in wrong.items()]


class VolumeAttachments(Strategy):
    """VolumeAttachments: the spec never changes; /status changes the status and nothing else."""

    returns_deleted = True
    unconditional_update = False
    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
    defaults: ClassVar[Rules] = {"status.attached": False}
    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}
    _ONE_SOURCE: ClassVar[str] = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

    def validate(self, obj: Obj) -> list[FieldError]:
        node = text_at(obj, "spec.nodeName")
        found = [] if text_at(obj, "spec.attacher") else [required("spec.attacher")]
        if (why := subdomain_error(node)) is not None:
            found.append(invalid_value("spec.nodeName", node, why))
        source = object_at(obj, "spec.source")
        given = [name for name in ("persistentVolumeName", "inlineVolumeSpec") if source.get(name)]
        if not given:
            found.append(required("spec.source", self._ONE_SOURCE))
        elif len(given) > 1:
            found.append(forbidden_field("spec.source", self._ONE_SOURCE))
        return found


class CSIDrivers(Strategy):
    """CSIDriver objects and their defaults."""

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
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.attachRequired": IMMUTABLE,
        "spec.volumeLifecycleModes": IMMUTABLE,
    }


class CSINodes(Strategy):
    """CSINode objects: a driver's entry cannot change, only come and go."""

    returns_deleted = True
    unconditional_update = False

    def validate(self, obj: Obj) -> list[FieldError]:
        drivers = enumerate(objects_at(obj, "spec.drivers"))
        paths = [
            (f"spec.drivers[{i}].{name}", text_at(each, name)) for i, each in drivers for name in ("name", "nodeID")
        ]
        return [required(path) for path, text in paths if not text]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before = {driver.get("name"): driver for driver in objects_at(old, "spec.drivers")}
        after = objects_at(obj, "spec.drivers")
        changed = [driver for driver in after if before.get(driver.get("name"), driver) != driver]
        return [invalid_value("spec.drivers", driver, IMMUTABLE) for driver in changed]


class VolumeAttributesClasses(Strategy):
    """VolumeAttributesClasses cannot change."""

    immutable: ClassVar[Mapping[str, str]] = {
        "driverName": "updates to driverName are forbidden.",
        "parameters": "updates to parameters are forbidden.",
    }

    def validate(self, obj: Obj) -> list[FieldError]:
        return [] if text_at(obj, "driverName") else [required("driverName")]
