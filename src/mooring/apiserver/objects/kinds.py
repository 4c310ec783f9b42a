"""The kinds that every server keeps, as one table. To add a kind: add an entry, and a strategy if it is
special.

Kinds of CustomResourceDefinitions are added to them by `catalog`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mooring.apiserver.encodings import protobuf
from mooring.apiserver.errors import Obj, Resource
from mooring.apiserver.objects.event_versions import from_events_v1, to_events_v1
from mooring.apiserver.objects.strategies import (
    autoscaling,
    cluster,
    definitions,
    devices,
    pods,
    runtime_classes,
    upstream_workloads,
    volumes,
    workloads,
)
from mooring.apiserver.objects.strategy import Strategy

_ORDINARY = Strategy()


@dataclass(frozen=True)
class Conversion:
    """How a second group-version of a kind maps to the one that is stored."""

    stored: Kind
    to_stored: Callable[[Obj], Obj]
    from_stored: Callable[[Obj], Obj]


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of a custom kind's table: `path` is a simple JSONPath, `type` one of the API's column
    types."""

    name: str
    path: str
    type: str
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, eq=False)
class Custom:
    """One version of a CustomResourceDefinition's kind. The paths are those of the scale subresource."""

    definition: str
    singular: str
    list_kind: str
    schema: Obj
    columns: tuple[PrinterColumn, ...] = ()
    wanted_path: str = ""
    observed_path: str = ""
    selector_path: str = ""
    terminating: bool = False
    deprecated: str = ""


@dataclass(frozen=True)
class Kind:
    """One served kind. `subresources` are those beyond the object itself; "status" among them splits the
    status off."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    categories: tuple[str, ...] = ()
    strategy: Strategy = field(default=_ORDINARY)
    conversion: Conversion | None = None
    custom: Custom | None = None

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def resource(self) -> Resource:
        return Resource(self.group, self.plural)

    @cached_property
    def storage(self) -> str:
        """The store's name for the collection."""
        return str(self.conversion.stored.resource if self.conversion else self.resource)

    @property
    def singular(self) -> str:
        return self.custom.singular if self.custom else self.name.lower()

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom else f"{self.name}List"

    @cached_property
    def speaks_protobuf(self) -> bool:
        return self.custom is None and protobuf.speaks(self.group, self.version, self.name)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def _subresources(*names: str) -> frozenset[str]:
    return frozenset(names)


_STATUS = _subresources("status")
_SCALE = _subresources("status", "scale")
_NAMESPACE = _subresources("status", "finalize")
_POD = _subresources("status", "binding", "eviction", "log", "ephemeralcontainers")
_ALL = ("all",)
_STORAGE, _RBAC, _DEVICES = "storage.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io"
_NETWORK, _ADMISSION, _EXTENDS = "networking.k8s.io", "admissionregistration.k8s.io", ("api-extensions",)
_EVENTS = Kind("", "v1", "Event", "events", True, ("ev",), strategy=cluster.Events())
_NEW_EVENTS = Conversion(replace(_EVENTS, strategy=cluster.NewEvents()), from_events_v1, to_events_v1)
_STORED = devices.Stored()

KINDS: tuple[Kind, ...] = (
    Kind("", "v1", "Namespace", "namespaces", False, ("ns",), _NAMESPACE, (), cluster.Namespaces()),
    Kind("", "v1", "Node", "nodes", False, ("no",), _STATUS, (), cluster.Nodes()),
    Kind("", "v1", "Pod", "pods", True, ("po",), _POD, _ALL, pods.Pods()),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), _STATUS, (), volumes.Volumes()),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",), _STATUS, (), volumes.Claims()),
    Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",), strategy=cluster.ConfigMaps()),
    Kind("", "v1", "Secret", "secrets", strategy=cluster.Secrets()),
    Kind("", "v1", "Service", "services", True, ("svc",), _STATUS, _ALL, cluster.Services()),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), _subresources("token")),
    _EVENTS,
    Kind("", "v1", "ReplicationController", "replicationcontrollers", True, ("rc",), _SCALE, _ALL,
         upstream_workloads.ReplicationControllers()),
    Kind("", "v1", "PodTemplate", "podtemplates", strategy=devices.PodTemplates()),
    Kind("", "v1", "Endpoints", "endpoints", True, ("ep",), strategy=devices.Endpoints()),
    Kind("", "v1", "LimitRange", "limitranges", True, ("limits",), strategy=cluster.LimitRanges()),
    Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), _STATUS, strategy=cluster.Quotas()),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), _SCALE, _ALL, workloads.StatefulSets()),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), _SCALE, _ALL, workloads.ReplicaSets()),
    Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), _SCALE, _ALL, workloads.Deployments()),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), _STATUS, _ALL, upstream_workloads.DaemonSets()),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions", strategy=workloads.ControllerRevisions()),
    Kind(_STORAGE, "v1", "StorageClass", "storageclasses", False, ("sc",), strategy=volumes.StorageClasses()),
    Kind(_STORAGE, "v1", "VolumeAttachment", "volumeattachments", False, (), _STATUS, (), volumes.VolumeAttachments()),
    Kind(_STORAGE, "v1", "CSIDriver", "csidrivers", False, strategy=volumes.CSIDrivers()),
    Kind(_STORAGE, "v1", "CSINode", "csinodes", False, strategy=volumes.CSINodes()),
    Kind(
        _STORAGE, "v1", "VolumeAttributesClass", "volumeattributesclasses", False, ("vac",),
        strategy=volumes.VolumeAttributesClasses(),
    ),
    Kind(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", strategy=devices.StorageCapacities()),
    Kind("batch", "v1", "Job", "jobs", True, (), _STATUS, _ALL, upstream_workloads.Jobs()),
    Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), _STATUS, _ALL, upstream_workloads.CronJobs()),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", strategy=cluster.Leases()),
    Kind(
        "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), _STATUS,
        strategy=workloads.DisruptionBudgets(),
    ),
    Kind("events.k8s.io", "v1", "Event", "events", True, ("ev",), strategy=cluster.NewEvents(), conversion=_NEW_EVENTS),
    Kind(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",),
        strategy=cluster.PriorityClasses(),
    ),
    Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, strategy=runtime_classes.RuntimeClasses()),
    Kind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, ("crd", "crds"),
        _STATUS, _EXTENDS, definitions.Definitions(),
    ),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", strategy=devices.EndpointSlices()),
    Kind(_DEVICES, "v1", "DeviceClass", "deviceclasses", False, strategy=devices.DeviceClasses()),
    Kind(_DEVICES, "v1", "ResourceClaim", "resourceclaims", True, (), _STATUS, (), devices.Claims()),
    Kind(_DEVICES, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", strategy=devices.ClaimTemplates()),
    Kind(_DEVICES, "v1", "ResourceSlice", "resourceslices", False, strategy=devices.Slices()),
    Kind(_RBAC, "v1", "Role", "roles", strategy=cluster.Roles()),
    Kind(_RBAC, "v1", "RoleBinding", "rolebindings", strategy=cluster.RoleBindings()),
    Kind(_RBAC, "v1", "ClusterRole", "clusterroles", False, strategy=cluster.ClusterRoles()),
    Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, strategy=cluster.ClusterRoleBindings()),
    # Kept for upstream's controllers; nothing here acts on them.
    Kind(
        "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",), _STATUS, _ALL,
        autoscaling.Autoscalers(),
    ),
    Kind(
        "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, ("csr",), _STATUS
    ),
    Kind(_NETWORK, "v1", "ServiceCIDR", "servicecidrs", False, (), _STATUS, strategy=devices.AddressRanges()),
    Kind(_NETWORK, "v1", "IPAddress", "ipaddresses", False, ("ip",), strategy=devices.Addresses()),
    Kind(
        _ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, (), _STATUS, _EXTENDS,
        _STORED,
    ),
    Kind(
        _ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False, (),
        categories=_EXTENDS, strategy=_STORED,
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds by their names in requests and in the store."""

    all: tuple[Kind, ...]

    @cached_property
    def by_path(self) -> Mapping[tuple[str, str, str], Kind]:
        """By group, version and plural: how a request names them."""
        return {(kind.group, kind.version, kind.plural): kind for kind in self.all}

    @cached_property
    def versions(self) -> frozenset[tuple[str, str]]:
        """The groups, with the versions of them that have a kind."""
        return frozenset((kind.group, kind.version) for kind in self.all)

    @cached_property
    def by_storage(self) -> Mapping[str, Kind]:
        """The stored versions by the store's name for their collection."""
        return {kind.storage: kind for kind in self.all if kind.conversion is None}


BUILT_IN = Kinds(KINDS)


def indexed_fields(storage: str, obj: Obj) -> Mapping[str, str]:
    """The fields that selectors can ask for, of an object as it is stored."""
    kind = BUILT_IN.by_storage.get(storage)
    metadata = obj["metadata"]
    base = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    return {**base, **kind.strategy.fields(obj)} if kind else base
