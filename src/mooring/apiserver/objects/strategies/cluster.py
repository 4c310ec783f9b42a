"""Nodes, namespaces, leases, events, services, configuration and access control."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value
from mooring.apiserver.objects.defaults import Rules
from mooring.apiserver.objects.strategy import IMMUTABLE, Admission, Strategy
from mooring.apiserver.objects.validation import configuration as valid
from mooring.apiserver.objects.validation import services
from mooring.apiserver.objects.validation.formats import label_error, path_segment_error, subdomain_error
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at


def _settle_blocks(spec: Obj) -> None:
    """podCIDR and podCIDRs agree: podCIDR takes precedence. `configSource` is dropped, because Kubernetes no
    longer has it."""
    one, every = spec.get("podCIDR"), list_at(spec, "podCIDRs")
    if one and every[:1] != [one]:
        spec["podCIDRs"] = [one]
    elif every:
        spec["podCIDR"] = every[0]
    spec.pop("configSource", None)


class Nodes(Strategy):
    """Nodes: a registration carries its status, so that a node that comes back can tell at once what it
    uses."""

    judges_base = False
    rules = (valid.node,)
    new_rules = (valid.new_node,)
    clears_status = False

    def default(self, obj: Obj) -> None:
        _settle_blocks(object_at(obj, "spec"))
        status = obj["status"]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        self.default(obj)

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if value_at(obj, "spec.unschedulable") else "false"}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return valid.changed_node(obj, old)


def with_finalizers(namespace: Obj, finalizers: list[Any]) -> Obj:
    """The spec of a namespace with other finalizers."""
    spec = {key: value for key, value in object_at(namespace, "spec").items() if key != "finalizers"}
    return spec | ({"finalizers": finalizers} if finalizers else {})


class Namespaces(Strategy):
    """Namespaces: deleted in two steps, the `kubernetes` finalizer of the spec being the second's
    condition."""

    rules = (valid.namespace,)
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

    rules = (valid.config_map,)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return kept_immutable(obj, old)


def kept_immutable(obj: Obj, old: Obj) -> list[FieldError]:
    """What an update changed of a ConfigMap or Secret that is immutable."""
    if not old.get("immutable"):
        return []
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [field for field in ("data", "binaryData") if object_at(obj, field) != object_at(old, field)]
    return [forbidden_field(field, "field is immutable when `immutable` is set") for field in changed]


class Leases(Strategy):
    """Leases."""

    rules = (valid.lease,)
    kube_finalizers = False
    judges_base = False
    unconditional_update = False
    create_on_update = True


class Events(Strategy):
    """Events, stored as core/v1 whichever group they come from."""

    rules = (valid.event,)
    name_error = staticmethod(path_segment_error)
    kube_finalizers = False
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

    def fields(self, obj: Obj) -> Mapping[str, str]:
        about = {f"involvedObject.{name}": text_at(obj, f"involvedObject.{name}") for name in self._ABOUT}
        plain = {name: text_at(obj, name) for name in ("reason", "type", "reportingComponent")}
        return {**about, **plain, "source": text_at(obj, "source.component")}


class NewEvents(Events):
    """Events that come by events.k8s.io: complete from the start, and unchanged but for their series."""

    rules = (valid.event_v1,)
    new_rules = (valid.new_event_v1,)
    name_error = staticmethod(subdomain_error)
    judges_base = False
    immutable: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
         "eventTime", "action", "related", "reportingInstance"), IMMUTABLE)  # fmt: skip

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        series = valid.series(obj) if obj.get("series") != old.get("series") else ()
        errors = [*series, *super().validate_update(obj, old)]
        if text_at(obj, "reportingComponent") != text_at(old, "reportingComponent"):
            errors.append(invalid_value("reportingController", obj.get("reportingComponent"), IMMUTABLE))
        return errors


class Secrets(Strategy):
    """Secrets."""

    rules = (valid.secret,)
    defaults: ClassVar[Rules] = {"type": "Opaque"}
    immutable: ClassVar[Mapping[str, str]] = {"type": IMMUTABLE}

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return [*super().validate_update(obj, old), *kept_immutable(obj, old)]

    def default(self, obj: Obj) -> None:
        super().default(obj)
        texts = strings_at(obj, "stringData")
        obj.pop("stringData", None)
        if texts:
            encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
            obj["data"] = object_at(obj, "data") | encoded

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {"type": text_at(obj, "type")}


def _traffic_policy(spec: Obj) -> str | None:
    return "Cluster" if services.is_external(spec) else None


def _node_ports(spec: Obj) -> bool | None:
    return True if spec["type"] == "LoadBalancer" else None


def _affinity_config(spec: Obj) -> Obj | None:
    client = object_at(spec, "sessionAffinityConfig.clientIP")
    if spec.get("sessionAffinity") != "ClientIP" or client.get("timeoutSeconds") is not None:
        return None
    return {"clientIP": {"timeoutSeconds": 10800}}


def _addresses(spec: Obj) -> list[str] | None:
    return [spec["clusterIP"]] if spec.get("clusterIP") else None


def _unless_alias(value: Any) -> Callable[[Obj], Any]:
    """A default of services that have an address, if only their own word for none."""
    return lambda spec: None if spec["type"] == "ExternalName" else value


def _families(spec: Obj) -> list[str] | None:
    if spec["type"] == "ExternalName":
        return None
    return ["IPv4", "IPv6"] if _finds_nothing(spec) else ["IPv4"]


def _family_policy(spec: Obj) -> str | None:
    if spec["type"] == "ExternalName":
        return None
    return "RequireDualStack" if _finds_nothing(spec) else "SingleStack"


def _finds_nothing(spec: Obj) -> bool:
    """Headless and without a selector: its endpoints, which another client writes, may be of either
    family."""
    return spec.get("clusterIP") == "None" and not spec.get("selector")


class Services(Strategy):
    """Services: stored for the controllers and objects that name them; this server assigns no addresses."""

    judges_base = False
    rules = (services.service,)
    name_error = staticmethod(label_error)
    clears_status = False
    defaults: ClassVar[Rules] = {
        "spec.type": "ClusterIP",
        "spec.sessionAffinity": "None",
        "spec.clusterIPs": _addresses,
        "spec.externalTrafficPolicy": _traffic_policy,
        "spec.internalTrafficPolicy": _unless_alias("Cluster"),
        "spec.allocateLoadBalancerNodePorts": _node_ports,
        "spec.ipFamilies": _families,
        "spec.ipFamilyPolicy": _family_policy,
        "spec.ports[].protocol": "TCP",
    }

    def default(self, obj: Obj) -> None:
        super().default(obj)
        spec = obj["spec"]
        for port in objects_at(spec, "ports"):
            port["targetPort"] = port.get("targetPort") or port.get("port")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if (config := _affinity_config(spec)) is not None:
            spec["sessionAffinityConfig"] = config

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        """An address that is left out stays."""
        before, spec = object_at(old, "spec"), object_at(obj, "spec")
        if "ExternalName" not in (before.get("type"), spec.get("type")):
            spec |= {
                field: before[field]
                for field in ("clusterIP", "clusterIPs")
                if field in before and not spec.get(field)
            }

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        return services.changed(object_at(obj, "spec"), object_at(old, "spec"))

    def fields(self, obj: Obj) -> Mapping[str, str]:
        """A kubelet reads those that have an address: `spec.clusterIP!=None`."""
        return {path: text_at(obj, path) for path in ("spec.clusterIP", "spec.type")}


class PriorityClasses(Strategy):
    """PriorityClasses."""

    judges_base = False
    rules = (valid.priority_class,)
    counts_generations = True
    defaults: ClassVar[Rules] = {"preemptionPolicy": "PreemptLowerPriority"}
    immutable: ClassVar[Mapping[str, str]] = {
        "value": "may not be changed in an update.",
        "preemptionPolicy": IMMUTABLE,
    }


_RBAC_GROUP = "rbac.authorization.k8s.io"


class _AccessControl(Strategy):
    """RBAC objects: stored, not enforced (see `access`)."""

    name_error = staticmethod(path_segment_error)


class Roles(_AccessControl):
    """Roles."""

    rules = (valid.role,)


class ClusterRoles(_AccessControl):
    """ClusterRoles."""

    rules = (valid.cluster_role,)


class _Bindings(_AccessControl):
    def default(self, obj: Obj) -> None:
        reference = object_at(obj, "roleRef")
        obj["roleRef"] = reference | {"apiGroup": reference.get("apiGroup") or _RBAC_GROUP}
        for subject in objects_at(obj, "subjects"):
            if subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = subject.get("apiGroup") or _RBAC_GROUP

    immutable: ClassVar[Mapping[str, str]] = {"roleRef": "cannot change roleRef"}


class RoleBindings(_Bindings):
    """RoleBindings: whom a role is given to may change, which role may not."""

    rules = (valid.role_binding,)


class ClusterRoleBindings(_Bindings):
    """ClusterRoleBindings."""

    rules = (valid.cluster_role_binding,)


class LimitRanges(Strategy):
    """LimitRanges: stored, not enforced."""

    rules = (valid.limit_range,)

    def default(self, obj: Obj) -> None:
        for limit in objects_at(obj, "spec.limits"):
            if limit.get("type") == "Container":
                limit["default"] = object_at(limit, "max") | object_at(limit, "default")
                requests = object_at(limit, "min") | limit["default"] | object_at(limit, "defaultRequest")
                limit["defaultRequest"] = requests


class Quotas(Strategy):
    """ResourceQuotas: stored, not enforced."""

    judges_base = False
    rules = (valid.quota,)
    immutable: ClassVar[Mapping[str, str]] = {"spec.scopes": IMMUTABLE}
