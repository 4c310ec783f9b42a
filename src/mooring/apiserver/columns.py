"""The columns of `kubectl get` for each kind, as a table: a name, and how its cell is read from an object. Pure.

Names and contents are upstream's (Kubernetes 1.36), because scripts and habits depend on them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from mooring.apiserver import pod_state
from mooring.apiserver.custom.jsonpath import find
from mooring.apiserver.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.errors import Obj
from mooring.apiserver.kinds import Kind, PrinterColumn
from mooring.apiserver.store import encode
from mooring.apiserver.times import parse, since
from mooring.kube.selectors import label_selector_from_object

Cell: TypeAlias = Callable[[Obj, datetime], Any]

_NONE, _UNSET = "<none>", "<unset>"
_MODE_LETTERS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE = "node-role.kubernetes.io/"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `wide` ones are shown with `-o wide` only."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"
    description: str = ""


def _at(path: str, missing: str = "") -> Cell:
    def cell(obj: Obj, now: datetime) -> Any:
        value = value_at(obj, path)
        return missing if value in (None, "") else value

    return cell


def _truth(path: str) -> Cell:
    return lambda obj, now: bool(value_at(obj, path))


def _number(path: str) -> Cell:
    return lambda obj, now: int(value_at(obj, path) or 0)


def _ago(*paths: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        return since(next((text for path in paths if (text := text_at(obj, path))), ""), now)

    return cell


def _access_modes(path: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        modes = list_at(obj, path)
        return ",".join(letters for mode, letters in _MODE_LETTERS.items() if mode in modes)

    return cell


def _ratio(part: str, whole: str) -> Cell:
    return lambda obj, now: f"{int(value_at(obj, part) or 0)}/{int(value_at(obj, whole) or 0)}"


def _each(path: str, field: str) -> Cell:
    return lambda obj, now: ",".join(text_at(entry, field) for entry in objects_at(obj, path))


def _selector(path: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        return str(label_selector_from_object(object_at(obj, path))) or _NONE

    return cell


def _count(path: str) -> Cell:
    return lambda obj, now: len(value_at(obj, path) or ())


def _joined(path: str) -> Cell:
    return lambda obj, now: ",".join(str(value) for value in list_at(obj, path)) or _NONE


def _configuration_size(obj: Obj, now: datetime) -> int:
    return len(object_at(obj, "data")) + len(object_at(obj, "binaryData"))


def _class_name(obj: Obj, now: datetime) -> str:
    default = strings_at(obj, "metadata.annotations").get(_DEFAULT_CLASS) == "true"
    return text_at(obj, "metadata.name") + (" (default)" if default else "")


def _phase(obj: Obj, now: datetime) -> str:
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else text_at(obj, "status.phase")


def _claim_capacity(obj: Obj, now: datetime) -> str:
    return text_at(obj, "status.capacity.storage") if text_at(obj, "spec.volumeName") else ""


def _claim_modes(obj: Obj, now: datetime) -> str:
    return _access_modes("status.accessModes")(obj, now) if text_at(obj, "spec.volumeName") else ""


def _claim_of(obj: Obj, now: datetime) -> str:
    name = text_at(obj, "spec.claimRef.name")
    return f"{text_at(obj, 'spec.claimRef.namespace')}/{name}" if name else ""


def _class_of(obj: Obj, now: datetime) -> str:
    beta = strings_at(obj, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class", "")
    return text_at(obj, "spec.storageClassName") or beta


def _node_status(obj: Obj, now: datetime) -> str:
    condition = next((each for each in objects_at(obj, "status.conditions") if each.get("type") == "Ready"), None)
    words = ["Unknown"] if condition is None else ["Ready" if condition.get("status") == "True" else "NotReady"]
    if value_at(obj, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Obj, now: datetime) -> str:
    labels = strings_at(obj, "metadata.labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or _NONE


def _address(kind: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        found = [each for each in objects_at(obj, "status.addresses") if each.get("type") == kind]
        return text_at(found[0], "address") if found else _NONE

    return cell


def _event_object(obj: Obj, now: datetime) -> str:
    return f"{text_at(obj, 'involvedObject.kind').lower()}/{text_at(obj, 'involvedObject.name')}"


def _event_source(obj: Obj, now: datetime) -> str:
    parts = (text_at(obj, "source.component") or text_at(obj, "reportingComponent"), text_at(obj, "source.host"))
    return ", ".join(part for part in parts if part)


def _event_count(obj: Obj, now: datetime) -> int:
    return int(value_at(obj, "series.count") or value_at(obj, "count") or 1)


def _message(obj: Obj, now: datetime) -> str:
    return text_at(obj, "message").strip()


def _ports(obj: Obj, now: datetime) -> str:
    ports = objects_at(obj, "spec.ports")
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or _NONE


def _labels(path: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(strings_at(obj, path).items())) or _NONE

    return cell


def _readiness_gates(obj: Obj, now: datetime) -> str:
    gates = [text_at(gate, "conditionType") for gate in objects_at(obj, "spec.readinessGates")]
    true = {text_at(c, "type") for c in objects_at(obj, "status.conditions") if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else _NONE


def _controller(obj: Obj, now: datetime) -> str:
    owner = next((each for each in objects_at(obj, "metadata.ownerReferences") if each.get("controller")), None)
    if owner is None:
        return _NONE
    group = text_at(owner, "apiVersion").partition("/")[0] if "/" in text_at(owner, "apiVersion") else ""
    kind = text_at(owner, "kind").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


def _role_of(obj: Obj, now: datetime) -> str:
    return f"{text_at(obj, 'roleRef.kind')}/{text_at(obj, 'roleRef.name')}"


_NEVER = ("<unknown>", _NONE)
_JOB_ENDS = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(obj: Obj, now: datetime) -> str:
    """The last word on a job; one that has none is running."""
    true = {text_at(each, "type") for each in objects_at(obj, "status.conditions") if each.get("status") == "True"}
    if (found := next((each for each in _JOB_ENDS if each in true), None)) is not None:
        return found
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else "Running"


def _job_duration(obj: Obj, now: datetime) -> str:
    start, end = text_at(obj, "status.startTime"), text_at(obj, "status.completionTime")
    return since(start, parse(end) if end else now) if start else ""


def _addresses(obj: Obj, now: datetime) -> str:
    shown = [
        f"{text_at(address, 'ip')}:{value_at(port, 'port')}"
        for subset in objects_at(obj, "subsets")
        for port in objects_at(subset, "ports")
        for address in objects_at(subset, "addresses")
    ]
    return _shortened(shown) or _NONE


def _slice_addresses(obj: Obj, now: datetime) -> str:
    shown = [str(each) for entry in objects_at(obj, "endpoints") for each in list_at(entry, "addresses")]
    return _shortened(shown) or _UNSET


def _shortened(shown: list[str]) -> str:
    more = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return ",".join(shown[:3]) + more


def _each_number(path: str, field: str) -> Cell:
    return lambda obj, now: ",".join(str(value_at(entry, field)) for entry in objects_at(obj, path))


def _claim_state(obj: Obj, now: datetime) -> str:
    states = [("allocated", value_at(obj, "status.allocation")), ("reserved", value_at(obj, "status.reservedFor"))]
    return ",".join(name for name, present in states if present) or "pending"


_NAME = Column("Name", _at("metadata.name"))
_AGE = Column("Age", _ago("metadata.creationTimestamp"))
_CREATED = Column("Created At", _at("metadata.creationTimestamp"))
_CONTAINERS = Column("Containers", _each("spec.template.spec.containers", "name"), wide=True)
_IMAGES = Column("Images", _each("spec.template.spec.containers", "image"), wide=True)
_SELECTOR = Column("Selector", _selector("spec.selector"), wide=True)
_ATTRIBUTES = Column("VolumeAttributesClass", _at("spec.volumeAttributesClassName", _UNSET))
_MODE = Column("VolumeMode", _at("spec.volumeMode", _UNSET), wide=True)

_EVENT = (
    Column("Last Seen", _ago("series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp")),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    Column("Subobject", _at("involvedObject.fieldPath"), wide=True),
    Column("Source", _event_source, wide=True),
    Column("Message", _message),
    Column("First Seen", _ago("firstTimestamp", "eventTime", "metadata.creationTimestamp"), wide=True),
    Column("Count", _event_count, wide=True),
    Column("Name", _at("metadata.name"), wide=True),
)

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", pod_state.ready),
        Column("Status", pod_state.status),
        Column("Restarts", pod_state.restarts),
        _AGE,
        Column("IP", _at("status.podIP", _NONE), wide=True),
        Column("Node", _at("spec.nodeName", _NONE), wide=True),
        Column("Nominated Node", _at("status.nominatedNodeName", _NONE), wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", _at("status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "persistentvolumes": (
        _NAME,
        Column("Capacity", _at("spec.capacity.storage")),
        Column("Access Modes", _access_modes("spec.accessModes")),
        Column("Reclaim Policy", _at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _phase),
        Column("Claim", _claim_of),
        Column("StorageClass", _class_of),
        _ATTRIBUTES,
        Column("Reason", _at("status.reason")),
        _AGE,
        _MODE,
    ),
    "persistentvolumeclaims": (
        _NAME,
        Column("Status", _phase),
        Column("Volume", _at("spec.volumeName")),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _claim_modes),
        Column("StorageClass", _class_of),
        _ATTRIBUTES,
        _AGE,
        _MODE,
    ),
    "storageclasses": (
        Column("Name", _class_name),
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy")),
        Column("VolumeBindingMode", _at("volumeBindingMode")),
        Column("AllowVolumeExpansion", _truth("allowVolumeExpansion"), type="boolean"),
        _AGE,
    ),
    "volumeattachments": (
        _NAME,
        Column("Attacher", _at("spec.attacher")),
        Column("PV", _at("spec.source.persistentVolumeName")),
        Column("Node", _at("spec.nodeName")),
        Column("Attached", _truth("status.attached"), type="boolean"),
        _AGE,
    ),
    "volumeattributesclasses": (_NAME, Column("DriverName", _at("driverName")), _AGE),
    "csidrivers": (
        _NAME,
        Column("AttachRequired", _truth("spec.attachRequired"), type="boolean"),
        Column("PodInfoOnMount", _truth("spec.podInfoOnMount"), type="boolean"),
        Column("StorageCapacity", _truth("spec.storageCapacity"), type="boolean"),
        Column("TokenRequests", lambda obj, now: _each("spec.tokenRequests", "audience")(obj, now) or _UNSET),
        Column("RequiresRepublish", _truth("spec.requiresRepublish"), type="boolean"),
        Column("Modes", _joined("spec.volumeLifecycleModes")),
        _AGE,
    ),
    "csinodes": (_NAME, Column("Drivers", _count("spec.drivers"), type="integer"), _AGE),
    "statefulsets": (
        _NAME,
        Column("Ready", _ratio("status.readyReplicas", "spec.replicas")),
        _AGE,
        _CONTAINERS,
        _IMAGES,
    ),
    "replicasets": (
        _NAME,
        Column("Desired", _number("spec.replicas"), type="integer"),
        Column("Current", _number("status.replicas"), type="integer"),
        Column("Ready", _number("status.readyReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "deployments": (
        _NAME,
        Column("Ready", _ratio("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _number("status.updatedReplicas"), type="integer"),
        Column("Available", _number("status.availableReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "daemonsets": (
        _NAME,
        Column("Desired", _number("status.desiredNumberScheduled"), type="integer"),
        Column("Current", _number("status.currentNumberScheduled"), type="integer"),
        Column("Ready", _number("status.numberReady"), type="integer"),
        Column("Up-to-date", _number("status.updatedNumberScheduled"), type="integer"),
        Column("Available", _number("status.numberAvailable"), type="integer"),
        Column("Node Selector", _labels("spec.template.spec.nodeSelector")),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "replicationcontrollers": (
        _NAME,
        Column("Desired", _number("spec.replicas"), type="integer"),
        Column("Current", _number("status.replicas"), type="integer"),
        Column("Ready", _number("status.readyReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", _labels("spec.selector"), wide=True),
    ),
    "jobs": (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _ratio("status.succeeded", "spec.completions")),
        Column("Duration", _job_duration),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "cronjobs": (
        _NAME,
        Column("Schedule", _at("spec.schedule")),
        Column("Timezone", _at("spec.timeZone", _NONE)),
        Column("Suspend", lambda obj, now: str(bool(value_at(obj, "spec.suspend"))), type="boolean"),
        Column("Active", _count("status.active"), type="integer"),
        Column("Last Schedule", lambda obj, now: _ago("status.lastScheduleTime")(obj, now).replace(*_NEVER)),
        _AGE,
    ),
    "endpoints": (_NAME, Column("Endpoints", _addresses), _AGE),
    "endpointslices": (
        _NAME,
        Column("AddressType", _at("addressType")),
        Column("Ports", lambda obj, now: _each_number("ports", "port")(obj, now) or _UNSET),
        Column("Endpoints", _slice_addresses),
        _AGE,
    ),
    "resourceclaims": (_NAME, Column("State", _claim_state), _AGE),
    "resourceslices": (
        _NAME,
        Column("Node", _at("spec.nodeName", _UNSET)),
        Column("Driver", _at("spec.driver")),
        Column("Pool", _at("spec.pool.name")),
        _AGE,
    ),
    "csistoragecapacities": (
        _NAME,
        Column("StorageClassName", _at("storageClassName")),
        Column("Capacity", _at("capacity", _UNSET)),
        _AGE,
    ),
    "controllerrevisions": (
        _NAME,
        Column("Controller", _controller),
        Column("Revision", _number("revision"), type="integer"),
        _AGE,
    ),
    "configmaps": (_NAME, Column("Data", _configuration_size, type="integer"), _AGE),
    "secrets": (_NAME, Column("Type", _at("type")), Column("Data", _count("data"), type="integer"), _AGE),
    "services": (
        _NAME,
        Column("Type", _at("spec.type")),
        Column("Cluster-IP", _at("spec.clusterIP", _NONE)),
        Column("External-IP", _joined("spec.externalIPs")),
        Column("Port(s)", _ports),
        _AGE,
        Column("Selector", _labels("spec.selector"), wide=True),
    ),
    "serviceaccounts": (_NAME, Column("Secrets", _count("secrets"), type="integer"), _AGE),
    "namespaces": (_NAME, Column("Status", _at("status.phase")), _AGE),
    "events": _EVENT,
    "leases": (_NAME, Column("Holder", _at("spec.holderIdentity")), _AGE),
    "poddisruptionbudgets": (
        _NAME,
        Column("Min Available", _at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _number("status.disruptionsAllowed"), type="integer"),
        _AGE,
    ),
    "priorityclasses": (
        _NAME,
        Column("Value", _number("value"), type="integer"),
        Column("Global-Default", _truth("globalDefault"), type="boolean"),
        _AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "roles": (_NAME, _CREATED),
    "clusterroles": (_NAME, _CREATED),
    "customresourcedefinitions": (_NAME, _CREATED),
    "rolebindings": (_NAME, Column("Role", _role_of), _AGE),
    "clusterrolebindings": (_NAME, Column("Role", _role_of), _AGE),
}


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """The columns of a kind; name and age for one that has none of its own."""
    if kind.custom is None:
        return _COLUMNS.get(kind.plural, (_NAME, _AGE))
    own = [Column(each.name, _found(each), each.wide, each.type, each.description) for each in kind.custom.columns]
    return (_NAME, *own) if own else (_NAME, _AGE)


def _found(column: PrinterColumn) -> Cell:
    """A cell of a custom kind: the first value that its path leads to."""

    def cell(obj: Obj, now: datetime) -> Any:
        values = find(column.path, obj)
        return _as_cell(column.type, values[0], now) if values else None

    return cell


def _as_cell(kind: str, value: Any, now: datetime) -> Any:
    if kind == "date":
        return since(str(value), now)
    if kind == "string":
        return value if isinstance(value, str) else encode(value).decode()
    if kind in ("integer", "number"):
        return value if isinstance(value, int | float) else None
    return value
