"""The cells of tables, each a function of an object and the time. Pure.

Contents are upstream's (Kubernetes 1.36), because scripts and habits depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.custom.jsonpath import find
from mooring.apiserver.objects.kinds import PrinterColumn
from mooring.apiserver.store.object_store import encode
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.values.timestamps import parse, since
from mooring.kube.selectors import label_selector_from_object

Cell: TypeAlias = Callable[[Obj, datetime], Any]
"""What a cell shows of an object at a time."""

NONE, UNSET = "<none>", "<unset>"
_MODE_LETTERS = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE = "node-role.kubernetes.io/"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def at(path: str, missing: str = "") -> Cell:
    """The value at a path, or `missing`."""

    def cell(obj: Obj, now: datetime) -> Any:
        value = value_at(obj, path)
        return missing if value in (None, "") else value

    return cell


def truth(path: str) -> Cell:
    """Whether the value at a path is true."""
    return lambda obj, now: bool(value_at(obj, path))


def number(path: str) -> Cell:
    """The number at a path; a missing one is 0."""
    return lambda obj, now: int(value_at(obj, path) or 0)


def ago(*paths: str) -> Cell:
    """How long ago the first of these stamps was."""

    def cell(obj: Obj, now: datetime) -> str:
        return since(next((text for path in paths if (text := text_at(obj, path))), ""), now)

    return cell


def access_modes(path: str) -> Cell:
    """Access modes as their letters: `RWO,ROX`."""

    def cell(obj: Obj, now: datetime) -> str:
        modes = list_at(obj, path)
        return ",".join(letters for mode, letters in _MODE_LETTERS.items() if mode in modes)

    return cell


def ratio(part: str, whole: str) -> Cell:
    """One number of another: `1/3`."""
    return lambda obj, now: f"{int(value_at(obj, part) or 0)}/{int(value_at(obj, whole) or 0)}"


def each(path: str, field: str) -> Cell:
    """A field of every entry of a list."""
    return lambda obj, now: ",".join(text_at(entry, field) for entry in objects_at(obj, path))


def selector(path: str) -> Cell:
    """A label selector as text."""

    def cell(obj: Obj, now: datetime) -> str:
        return str(label_selector_from_object(object_at(obj, path))) or NONE

    return cell


def count(path: str) -> Cell:
    """How many entries a list or map has."""
    return lambda obj, now: len(value_at(obj, path) or ())


def joined(path: str) -> Cell:
    """The values of a list."""
    return lambda obj, now: ",".join(str(value) for value in list_at(obj, path)) or NONE


def configuration_size(obj: Obj, now: datetime) -> int:
    """How many keys a ConfigMap has."""
    return len(object_at(obj, "data")) + len(object_at(obj, "binaryData"))


def class_name(obj: Obj, now: datetime) -> str:
    """The name of a StorageClass, the default one marked."""
    default = strings_at(obj, "metadata.annotations").get(_DEFAULT_CLASS) == "true"
    return text_at(obj, "metadata.name") + (" (default)" if default else "")


def phase(obj: Obj, now: datetime) -> str:
    """The phase, or that the object is being deleted."""
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else text_at(obj, "status.phase")


def claim_capacity(obj: Obj, now: datetime) -> str:
    """What a bound claim has got."""
    return text_at(obj, "status.capacity.storage") if text_at(obj, "spec.volumeName") else ""


def claim_modes(obj: Obj, now: datetime) -> str:
    """The access modes that a bound claim has got."""
    return access_modes("status.accessModes")(obj, now) if text_at(obj, "spec.volumeName") else ""


def claim_of(obj: Obj, now: datetime) -> str:
    """The claim that a volume is bound to."""
    name = text_at(obj, "spec.claimRef.name")
    return f"{text_at(obj, 'spec.claimRef.namespace')}/{name}" if name else ""


def class_of(obj: Obj, now: datetime) -> str:
    """The class of a volume or claim, also by its old annotation."""
    beta = strings_at(obj, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class", "")
    return text_at(obj, "spec.storageClassName") or beta


def node_status(obj: Obj, now: datetime) -> str:
    """Whether a node is ready, and may be scheduled to."""
    condition = next(
        (each for each in objects_at(obj, "status.conditions") if each.get("type") == "Ready"), None
    )
    words = (
        ["Unknown"] if condition is None else ["Ready" if condition.get("status") == "True" else "NotReady"]
    )
    if value_at(obj, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(obj: Obj, now: datetime) -> str:
    """The roles that the labels of a node name."""
    labels = strings_at(obj, "metadata.labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or NONE


def address(kind: str) -> Cell:
    """The first address of a kind that a node has."""

    def cell(obj: Obj, now: datetime) -> str:
        found = [each for each in objects_at(obj, "status.addresses") if each.get("type") == kind]
        return text_at(found[0], "address") if found else NONE

    return cell


def event_object(obj: Obj, now: datetime) -> str:
    """What an event is about."""
    return f"{text_at(obj, 'involvedObject.kind').lower()}/{text_at(obj, 'involvedObject.name')}"


def event_source(obj: Obj, now: datetime) -> str:
    """Who reported an event."""
    parts = (
        text_at(obj, "source.component") or text_at(obj, "reportingComponent"),
        text_at(obj, "source.host"),
    )
    return ", ".join(part for part in parts if part)


def event_count(obj: Obj, now: datetime) -> int:
    """How often an event happened."""
    return int(value_at(obj, "series.count") or value_at(obj, "count") or 1)


def message(obj: Obj, now: datetime) -> str:
    """The message of an event."""
    return text_at(obj, "message").strip()


def ports(obj: Obj, now: datetime) -> str:
    """The ports of a Service."""
    ports = objects_at(obj, "spec.ports")
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or NONE


def labels(path: str) -> Cell:
    """A map of strings as text."""

    def cell(obj: Obj, now: datetime) -> str:
        return ",".join(f"{key}={value}" for key, value in sorted(strings_at(obj, path).items())) or NONE

    return cell


def readiness_gates(obj: Obj, now: datetime) -> str:
    """How many of the readiness gates of a pod are true."""
    gates = [text_at(gate, "conditionType") for gate in objects_at(obj, "spec.readinessGates")]
    true = {text_at(c, "type") for c in objects_at(obj, "status.conditions") if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else NONE


def controller(obj: Obj, now: datetime) -> str:
    """The owner that controls an object."""
    owner = next(
        (each for each in objects_at(obj, "metadata.ownerReferences") if each.get("controller")), None
    )
    if owner is None:
        return NONE
    group = text_at(owner, "apiVersion").partition("/")[0] if "/" in text_at(owner, "apiVersion") else ""
    kind = text_at(owner, "kind").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


def kind_and_name(path: str) -> Cell:
    """What a reference names: `ClusterRole/admin`."""
    return lambda obj, now: f"{text_at(obj, f'{path}.kind')}/{text_at(obj, f'{path}.name')}"


NEVER = ("<unknown>", NONE)
_JOB_ENDS = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def job_status(obj: Obj, now: datetime) -> str:
    """A job's final condition; "Running" if it has none."""
    true = {
        text_at(each, "type") for each in objects_at(obj, "status.conditions") if each.get("status") == "True"
    }
    if (condition := next((each for each in _JOB_ENDS if each in true), None)) is not None:
        return condition
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else "Running"


def job_duration(obj: Obj, now: datetime) -> str:
    """How long a job ran, or has been running."""
    start, end = text_at(obj, "status.startTime"), text_at(obj, "status.completionTime")
    return since(start, parse(end) if end else now) if start else ""


def addresses(obj: Obj, now: datetime) -> str:
    """Where the ready endpoints are."""
    shown = [
        f"{text_at(address, 'ip')}:{value_at(port, 'port')}"
        for subset in objects_at(obj, "subsets")
        for port in objects_at(subset, "ports")
        for address in objects_at(subset, "addresses")
    ]
    return _shortened(shown) or NONE


def slice_addresses(obj: Obj, now: datetime) -> str:
    """The addresses of an EndpointSlice."""
    shown = [str(each) for entry in objects_at(obj, "endpoints") for each in list_at(entry, "addresses")]
    return _shortened(shown) or UNSET


def _shortened(shown: list[str]) -> str:
    more = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return ",".join(shown[:3]) + more


def each_number(path: str, field: str) -> Cell:
    """A number of every entry of a list."""
    return lambda obj, now: ",".join(str(value_at(entry, field)) for entry in objects_at(obj, path))


def claim_state(obj: Obj, now: datetime) -> str:
    """What has been done for a ResourceClaim."""
    states = [
        ("allocated", value_at(obj, "status.allocation")),
        ("reserved", value_at(obj, "status.reservedFor")),
    ]
    return ",".join(name for name, present in states if present) or "pending"


def custom_cell(column: PrinterColumn) -> Cell:
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
