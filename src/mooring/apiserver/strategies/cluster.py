"""Nodes, namespaces, leases, events, services, configuration and access control."""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from mooring.apiserver.defaults import Rules
from mooring.apiserver.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.strategy import (
    IMMUTABLE,
    Admission,
    Strategy,
    label_error,
    path_segment_error,
)

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Nodes(Strategy):
    """Nodes: a registration carries its status, so that a node that comes back can tell at once what it uses."""

    clears_status = False

    def default(self, obj: Obj) -> None:
        status = obj["status"]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        self.default(obj)

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if value_at(obj, "spec.unschedulable") else "false"}

    def validate(self, obj: Obj) -> list[FieldError]:
        effects = [taint.get("effect") for taint in objects_at(obj, "spec.taints")]
        return [
            unsupported(f"metadata.taints[{index}].effect", effect, TAINT_EFFECTS)
            for index, effect in enumerate(effects)
            if effect not in TAINT_EFFECTS
        ]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = text_at(old, "spec.providerID"), text_at(obj, "spec.providerID")
        if before in ("", after):
            return []
        detail = 'node updates may not change providerID except from "" to valid'
        return [forbidden_field("spec.providerID", detail)]


def with_finalizers(namespace: Obj, finalizers: list[Any]) -> Obj:
    """The spec of a namespace with other finalizers."""
    spec = {key: value for key, value in object_at(namespace, "spec").items() if key != "finalizers"}
    return spec | ({"finalizers": finalizers} if finalizers else {})


class Namespaces(Strategy):
    """Namespaces: deleted in two steps, the `kubernetes` finalizer of the spec being the second's condition."""

    name_error = staticmethod(label_error)

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        finalizers = dict.fromkeys([*list_at(obj, "spec.finalizers"), "kubernetes"])
        obj["spec"] = object_at(obj, "spec") | {"finalizers": list(finalizers)}
        obj["status"] = {"phase": "Active"}
        own_name = {"kubernetes.io/metadata.name": text_at(obj, "metadata.name")}
        obj["metadata"]["labels"] = strings_at(obj, "metadata.labels") | own_name

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        obj["spec"] = with_finalizers(obj, list_at(old, "spec.finalizers"))

    def holds(self, obj: Obj) -> bool:
        return bool(list_at(obj, "spec.finalizers"))

    def mark_deleted(self, obj: Obj) -> None:
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = object_at(obj, "status") | {"phase": "Terminating"}

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.phase": text_at(obj, "status.phase")}


class ConfigMaps(Strategy):
    """ConfigMaps: keys that can be file names, each once, and data that never changes if it says so."""

    def validate(self, obj: Obj) -> list[FieldError]:
        texts, binary = object_at(obj, "data"), object_at(obj, "binaryData")
        found = [
            invalid_value(f"{field}[{key}]", key, _CONFIG_KEY)
            for field, held in (("data", texts), ("binaryData", binary))
            for key in held
            if not _KEY.fullmatch(key)
        ]
        twice = [key for key in texts if key in binary]
        return found + [invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData") for key in twice]

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return kept_immutable(obj, old)


def kept_immutable(obj: Obj, old: Obj) -> list[FieldError]:
    """What an update changed of a ConfigMap or Secret that is immutable."""
    if not old.get("immutable"):
        return []
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [field for field in ("data", "binaryData") if object_at(obj, field) != object_at(old, field)]
    return [forbidden_field(field, "field is immutable when `immutable` is set") for field in changed]


_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


class Leases(Strategy):
    """Leases."""

    def validate(self, obj: Obj) -> list[FieldError]:
        path = "spec.leaseDurationSeconds"
        seconds = value_at(obj, path)
        return [] if seconds is None or seconds > 0 else [invalid_value(path, seconds, "must be greater than 0")]

    unconditional_update = False
    create_on_update = True


class Events(Strategy):
    """Events, stored as core/v1 whichever group they come from."""

    create_on_update = True
    _ABOUT: ClassVar[tuple[str, ...]] = (
        "kind",
        "namespace",
        "name",
        "uid",
        "apiVersion",
        "resourceVersion",
        "fieldPath",
    )

    def validate(self, obj: Obj) -> list[FieldError]:
        about, namespace = text_at(obj, "involvedObject.namespace"), text_at(obj, "metadata.namespace")
        if about in ("", namespace) and (about or namespace == "default"):
            return []
        return [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]

    def fields(self, obj: Obj) -> Mapping[str, str]:
        about = {f"involvedObject.{name}": text_at(obj, f"involvedObject.{name}") for name in self._ABOUT}
        plain = {name: text_at(obj, name) for name in ("reason", "type", "reportingComponent")}
        return {**about, **plain, "source": text_at(obj, "source.component")}


class Secrets(Strategy):
    """Secrets."""

    defaults: ClassVar[Rules] = {"type": "Opaque"}
    immutable: ClassVar[Mapping[str, str]] = {"type": IMMUTABLE}

    def default(self, obj: Obj) -> None:
        super().default(obj)
        texts = strings_at(obj, "stringData")
        obj.pop("stringData", None)
        if texts:
            encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
            obj["data"] = object_at(obj, "data") | encoded

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"type": text_at(obj, "type")}


def _same_port(port: Obj) -> Any:
    return port.get("port")


def _addresses(spec: Obj) -> list[str] | None:
    return [spec["clusterIP"]] if spec.get("clusterIP") else None


def _unless_alias(value: Any) -> Callable[[Obj], Any]:
    """A default of services that have an address, if only their own word for none."""
    return lambda spec: None if spec["type"] == "ExternalName" else value


class Services(Strategy):
    """Services: stored for those who name them; no address is handed out."""

    name_error = staticmethod(label_error)
    clears_status = False
    defaults: ClassVar[Rules] = {
        "spec.type": "ClusterIP",
        "spec.sessionAffinity": "None",
        "spec.clusterIPs": _addresses,
        "spec.internalTrafficPolicy": _unless_alias("Cluster"),
        "spec.ipFamilies": _unless_alias(["IPv4"]),
        "spec.ipFamilyPolicy": _unless_alias("SingleStack"),
        "spec.ports[].protocol": "TCP",
        "spec.ports[].targetPort": _same_port,
    }


class PriorityClasses(Strategy):
    """PriorityClasses."""

    counts_generations = True
    defaults: ClassVar[Rules] = {"preemptionPolicy": "PreemptLowerPriority"}
    immutable: ClassVar[Mapping[str, str]] = {"value": "may not be changed in an update."}


class AccessControl(Strategy):
    """RBAC objects: stored, not enforced (see `auth`)."""

    name_error = staticmethod(path_segment_error)

    def validate(self, obj: Obj) -> list[FieldError]:
        if obj["kind"].endswith("Binding") and not text_at(obj, "roleRef.name"):
            return [required("roleRef.name")]
        return []
