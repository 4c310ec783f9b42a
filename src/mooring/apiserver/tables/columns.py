"""The columns of `kubectl get` for each kind, as a table: a name, and how its cell is read from an object.
Pure.

Names are upstream's (Kubernetes 1.36), because scripts and habits depend on them; `cells` knows the contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.tables import cells, pod_state, upstream_cells
from mooring.apiserver.values.dotted import list_at, value_at


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `wide` ones are shown with `-o wide` only."""

    name: str
    cell: cells.Cell
    wide: bool = False
    type: str = "string"
    description: str = ""


_NAME = Column("Name", cells.at("metadata.name"))
_AGE = Column("Age", cells.ago("metadata.creationTimestamp"))
_CREATED = Column("Created At", cells.at("metadata.creationTimestamp"))
_CONTAINERS = Column("Containers", cells.each("spec.template.spec.containers", "name"), wide=True)
_IMAGES = Column("Images", cells.each("spec.template.spec.containers", "image"), wide=True)
_SELECTOR = Column("Selector", cells.selector("spec.selector"), wide=True)
_ATTRIBUTES = Column("VolumeAttributesClass", cells.at("spec.volumeAttributesClassName", cells.UNSET))
_MODE = Column("VolumeMode", cells.at("spec.volumeMode", cells.UNSET), wide=True)

_EVENT = (
    Column(
        "Last Seen",
        cells.ago("series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"),
    ),
    Column("Type", cells.at("type")),
    Column("Reason", cells.at("reason")),
    Column("Object", cells.event_object),
    Column("Subobject", cells.at("involvedObject.fieldPath"), wide=True),
    Column("Source", cells.event_source, wide=True),
    Column("Message", cells.message),
    Column("First Seen", cells.ago("firstTimestamp", "eventTime", "metadata.creationTimestamp"), wide=True),
    Column("Count", cells.event_count, wide=True),
    Column("Name", cells.at("metadata.name"), wide=True),
)

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", pod_state.ready),
        Column("Status", pod_state.status),
        Column("Restarts", pod_state.restarts),
        _AGE,
        Column("IP", cells.at("status.podIP", cells.NONE), wide=True),
        Column("Node", cells.at("spec.nodeName", cells.NONE), wide=True),
        Column("Nominated Node", cells.at("status.nominatedNodeName", cells.NONE), wide=True),
        Column("Readiness Gates", cells.readiness_gates, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", cells.node_status),
        Column("Roles", cells.node_roles),
        _AGE,
        Column("Version", cells.at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", cells.address("InternalIP"), wide=True),
        Column("External-IP", cells.address("ExternalIP"), wide=True),
        Column("OS-Image", cells.at("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", cells.at("status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column(
            "Container-Runtime", cells.at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True
        ),
    ),
    "persistentvolumes": (
        _NAME,
        Column("Capacity", cells.at("spec.capacity.storage")),
        Column("Access Modes", cells.access_modes("spec.accessModes")),
        Column("Reclaim Policy", cells.at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", cells.phase),
        Column("Claim", cells.claim_of),
        Column("StorageClass", cells.class_of),
        _ATTRIBUTES,
        Column("Reason", cells.at("status.reason")),
        _AGE,
        _MODE,
    ),
    "persistentvolumeclaims": (
        _NAME,
        Column("Status", cells.phase),
        Column("Volume", cells.at("spec.volumeName")),
        Column("Capacity", cells.claim_capacity),
        Column("Access Modes", cells.claim_modes),
        Column("StorageClass", cells.class_of),
        _ATTRIBUTES,
        _AGE,
        _MODE,
    ),
    "storageclasses": (
        Column("Name", cells.class_name),
        Column("Provisioner", cells.at("provisioner")),
        Column("ReclaimPolicy", cells.at("reclaimPolicy")),
        Column("VolumeBindingMode", cells.at("volumeBindingMode")),
        Column("AllowVolumeExpansion", cells.truth("allowVolumeExpansion"), type="boolean"),
        _AGE,
    ),
    "volumeattachments": (
        _NAME,
        Column("Attacher", cells.at("spec.attacher")),
        Column("PV", cells.at("spec.source.persistentVolumeName")),
        Column("Node", cells.at("spec.nodeName")),
        Column("Attached", cells.truth("status.attached"), type="boolean"),
        _AGE,
    ),
    "volumeattributesclasses": (_NAME, Column("DriverName", cells.at("driverName")), _AGE),
    "csidrivers": (
        _NAME,
        Column("AttachRequired", cells.truth("spec.attachRequired"), type="boolean"),
        Column("PodInfoOnMount", cells.truth("spec.podInfoOnMount"), type="boolean"),
        Column("StorageCapacity", cells.truth("spec.storageCapacity"), type="boolean"),
        Column(
            "TokenRequests",
            lambda obj, now: cells.each("spec.tokenRequests", "audience")(obj, now) or cells.UNSET,
        ),
        Column("RequiresRepublish", cells.truth("spec.requiresRepublish"), type="boolean"),
        Column("Modes", cells.joined("spec.volumeLifecycleModes")),
        _AGE,
    ),
    "csinodes": (_NAME, Column("Drivers", cells.count("spec.drivers"), type="integer"), _AGE),
    "statefulsets": (
        _NAME,
        Column("Ready", cells.ratio("status.readyReplicas", "spec.replicas")),
        _AGE,
        _CONTAINERS,
        _IMAGES,
    ),
    "replicasets": (
        _NAME,
        Column("Desired", cells.number("spec.replicas"), type="integer"),
        Column("Current", cells.number("status.replicas"), type="integer"),
        Column("Ready", cells.number("status.readyReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "deployments": (
        _NAME,
        Column("Ready", cells.ratio("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", cells.number("status.updatedReplicas"), type="integer"),
        Column("Available", cells.number("status.availableReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "daemonsets": (
        _NAME,
        Column("Desired", cells.number("status.desiredNumberScheduled"), type="integer"),
        Column("Current", cells.number("status.currentNumberScheduled"), type="integer"),
        Column("Ready", cells.number("status.numberReady"), type="integer"),
        Column("Up-to-date", cells.number("status.updatedNumberScheduled"), type="integer"),
        Column("Available", cells.number("status.numberAvailable"), type="integer"),
        Column("Node Selector", cells.labels("spec.template.spec.nodeSelector")),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "replicationcontrollers": (
        _NAME,
        Column("Desired", cells.number("spec.replicas"), type="integer"),
        Column("Current", cells.number("status.replicas"), type="integer"),
        Column("Ready", cells.number("status.readyReplicas"), type="integer"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", cells.labels("spec.selector"), wide=True),
    ),
    "jobs": (
        _NAME,
        Column("Status", cells.job_status),
        Column("Completions", cells.ratio("status.succeeded", "spec.completions")),
        Column("Duration", cells.job_duration),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "cronjobs": (
        _NAME,
        Column("Schedule", cells.at("spec.schedule")),
        Column("Timezone", cells.at("spec.timeZone", cells.NONE)),
        Column("Suspend", lambda obj, now: str(bool(value_at(obj, "spec.suspend"))), type="boolean"),
        Column("Active", cells.count("status.active"), type="integer"),
        Column(
            "Last Schedule",
            lambda obj, now: cells.ago("status.lastScheduleTime")(obj, now).replace(*cells.NEVER),
        ),
        _AGE,
    ),
    "endpoints": (_NAME, Column("Endpoints", cells.addresses), _AGE),
    "endpointslices": (
        _NAME,
        Column("AddressType", cells.at("addressType")),
        Column("Ports", lambda obj, now: cells.each_number("ports", "port")(obj, now) or cells.UNSET),
        Column("Endpoints", cells.slice_addresses),
        _AGE,
    ),
    "resourceclaims": (_NAME, Column("State", cells.claim_state), _AGE),
    "resourceslices": (
        _NAME,
        Column("Node", cells.at("spec.nodeName", cells.UNSET)),
        Column("Driver", cells.at("spec.driver")),
        Column("Pool", cells.at("spec.pool.name")),
        _AGE,
    ),
    "csistoragecapacities": (
        _NAME,
        Column("StorageClassName", cells.at("storageClassName")),
        Column("Capacity", cells.at("capacity", cells.UNSET)),
        _AGE,
    ),
    "controllerrevisions": (
        _NAME,
        Column("Controller", cells.controller),
        Column("Revision", cells.number("revision"), type="integer"),
        _AGE,
    ),
    "configmaps": (_NAME, Column("Data", cells.configuration_size), _AGE),
    "secrets": (
        _NAME,
        Column("Type", cells.at("type")),
        Column("Data", cells.count("data"), type="integer"),
        _AGE,
    ),
    "services": (
        _NAME,
        Column("Type", cells.at("spec.type")),
        Column("Cluster-IP", cells.at("spec.clusterIP", cells.NONE)),
        Column("External-IP", cells.joined("spec.externalIPs")),
        Column("Port(s)", cells.ports),
        _AGE,
        Column("Selector", cells.labels("spec.selector"), wide=True),
    ),
    "serviceaccounts": (_NAME, Column("Secrets", cells.count("secrets"), type="integer"), _AGE),
    "namespaces": (_NAME, Column("Status", cells.at("status.phase")), _AGE),
    "events": _EVENT,
    "leases": (_NAME, Column("Holder", cells.at("spec.holderIdentity")), _AGE),
    "poddisruptionbudgets": (
        _NAME,
        Column("Min Available", cells.at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", cells.at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", cells.number("status.disruptionsAllowed"), type="integer"),
        _AGE,
    ),
    "priorityclasses": (
        _NAME,
        Column("Value", cells.number("value"), type="integer"),
        Column("Global-Default", cells.truth("globalDefault"), type="boolean"),
        _AGE,
        Column("PreemptionPolicy", cells.at("preemptionPolicy")),
    ),
    "runtimeclasses": (_NAME, Column("Handler", cells.at("handler")), _AGE),
    "roles": (_NAME, _CREATED),
    "clusterroles": (_NAME, _CREATED),
    "customresourcedefinitions": (_NAME, _CREATED),
    "horizontalpodautoscalers": (
        _NAME,
        Column("Reference", cells.kind_and_name("spec.scaleTargetRef")),
        Column("Targets", upstream_cells.targets),
        Column("MinPods", lambda obj, now: str(cells.at("spec.minReplicas", cells.UNSET)(obj, now))),
        Column("MaxPods", cells.number("spec.maxReplicas")),
        Column("Replicas", cells.number("status.currentReplicas")),
        _AGE,
    ),
    "certificatesigningrequests": (
        _NAME,
        _AGE,
        Column("SignerName", cells.at("spec.signerName", cells.NONE)),
        Column("Requestor", cells.at("spec.username")),
        Column("RequestedDuration", upstream_cells.requested_duration),
        Column("Condition", upstream_cells.request_state),
    ),
    "servicecidrs": (_NAME, Column("CIDRs", lambda obj, now: ",".join(list_at(obj, "spec.cidrs"))), _AGE),
    "ipaddresses": (_NAME, Column("ParentRef", upstream_cells.parent), _AGE),
    "validatingadmissionpolicies": (
        _NAME,
        Column("Validations", cells.count("spec.validations"), type="integer"),
        Column("ParamKind", upstream_cells.parameter_kind),
        _AGE,
    ),
    "validatingadmissionpolicybindings": (
        _NAME,
        Column("PolicyName", cells.at("spec.policyName")),
        Column("ParamRef", upstream_cells.parameter),
        _AGE,
    ),
    "rolebindings": (_NAME, Column("Role", cells.kind_and_name("roleRef")), _AGE),
    "clusterrolebindings": (_NAME, Column("Role", cells.kind_and_name("roleRef")), _AGE),
}


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """The columns of a kind; name and age for one that has none of its own."""
    if kind.custom is None:
        return _COLUMNS.get(kind.plural, (_NAME, _AGE))
    own = [
        Column(each.name, cells.custom_cell(each), each.wide, each.type, each.description)
        for each in kind.custom.columns
    ]
    return (_NAME, *own) if own else (_NAME, _AGE)
