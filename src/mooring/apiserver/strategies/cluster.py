"""Nodes, namespaces, leases, events, services, configuration and access control."""

from collections.abc import Mapping

from mooring.apiserver.errors import FieldError, Obj, invalid_value, required
from mooring.apiserver.strategy import Admission, Strategy, label_1035_error, label_error, path_segment_error, value_at


class Nodes(Strategy):
    """Nodes: a registration carries its status, so that a node that comes back can tell at once what it uses."""

    clears_status = False

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if value_at(obj, "spec.unschedulable") else "false"}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = value_at(old, "spec.providerID"), value_at(obj, "spec.providerID")
        if before and before != after:
            return [
                FieldError(
                    "FieldValueForbidden",
                    "spec.providerID",
                    'Forbidden: node updates may not change providerID except from "" to valid',
                )
            ]
        return []


class Namespaces(Strategy):
    """Namespaces: deleted in two steps, the `kubernetes` finalizer of the spec being the second's condition."""

    name_error = staticmethod(label_error)

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        spec: Obj = obj.get("spec") or {}
        obj["spec"] = spec
        spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or []), "kubernetes"]))
        obj["status"] = {"phase": "Active"}
        labels: Obj = obj["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        obj.setdefault("spec", {})["finalizers"] = value_at(old, "spec.finalizers")

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"status.phase": value_at(obj, "status.phase") or ""}


class Leases(Strategy):
    """Leases."""

    unconditional_update = False
    create_on_update = True


class Events(Strategy):
    """Events, stored as core/v1 whichever group they come from."""

    create_on_update = True

    def validate(self, obj: Obj) -> list[FieldError]:
        about: Obj = obj.get("involvedObject") or {}
        namespace = obj["metadata"].get("namespace")
        if about.get("namespace", "") not in ("", namespace) or (not about.get("namespace") and namespace != "default"):
            return [
                invalid_value("involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace")
            ]
        return []

    def fields(self, obj: Obj) -> Mapping[str, str]:
        about: Obj = obj.get("involvedObject") or {}
        names = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return {
            **{f"involvedObject.{name}": about.get(name, "") for name in names},
            "reason": obj.get("reason", ""),
            "type": obj.get("type", ""),
            "source": value_at(obj, "source.component") or "",
            "reportingComponent": obj.get("reportingComponent", ""),
        }


class Secrets(Strategy):
    """Secrets."""

    defaults = {"type": "Opaque"}
    immutable = {"type": "field is immutable"}

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        _fold_string_data(obj)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        _fold_string_data(obj)

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"type": obj.get("type", "")}


def _fold_string_data(obj: Obj) -> None:
    from base64 import b64encode

    texts: Obj = obj.pop("stringData", None) or {}
    if texts:
        data: Obj = obj.get("data") or {}
        obj["data"] = data
        data.update({key: b64encode(str(value).encode()).decode() for key, value in texts.items()})


class Services(Strategy):
    """Services: stored for those who name them; no address is handed out."""

    name_error = staticmethod(label_1035_error)
    clears_status = False
    defaults = {
        "spec.type": "ClusterIP",
        "spec.sessionAffinity": "None",
        "spec.ports[].protocol": "TCP",
        "spec.ports[].targetPort": lambda port: port.get("port"),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        "status.loadBalancer": {},
    }


class Classes(Strategy):
    """PriorityClasses."""

    immutable = {"value": "may not be changed in an update."}


class AccessControl(Strategy):
    """RBAC objects: stored, not enforced (see `auth`)."""

    name_error = staticmethod(path_segment_error)

    def validate(self, obj: Obj) -> list[FieldError]:
        if obj["kind"].endswith("Binding") and not value_at(obj, "roleRef.name"):
            return [required("roleRef.name")]
        return []
