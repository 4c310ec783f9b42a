"""Kubernetes objects as frozen structs that hold only the fields Mooring uses.

Unknown fields are skipped while decoding, so an object here is a *view*: it is never written back. Every write is a
patch (`mooring.kube.client`). Attribute names are the API's in snake_case. Lists are tuples, times are the API's own
RFC 3339 strings (`mooring.kube.times` parses them), quantities are strings (`mooring.kube.quantity` parses them).

Each top-level kind carries its `RESOURCE`: group, version, plural and scope, from which paths are made. Where a field
is opaque to Mooring it is plain JSON (`dict[str, Any]`).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import msgspec


class Resource(NamedTuple):
    """Where a kind lives in the API: `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, or of one object or subresource."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


class Struct(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of everything here: frozen, camelCase on the wire."""


class OwnerReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ManagedFieldsEntry(Struct, frozen=True):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(Struct, frozen=True):
    """A top-level object. `key` is "namespace/name", or "name" for cluster-scoped kinds."""

    RESOURCE: ClassVar[Resource]

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    @property
    def deleting(self) -> bool:
        """A deletionTimestamp is set: the object ends when its finalizers (or a pod's node) let it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)


class LocalObjectReference(Struct, frozen=True):
    name: str = ""


class ObjectReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None


class LabelSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


# --- volumes inside pods -------------------------------------------------------------------------------------------


class KeyToPath(Struct, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class EmptyDirVolumeSource(Struct, frozen=True):
    medium: str = ""
    size_limit: str | int | None = None


class ConfigMapVolumeSource(Struct, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolumeSource(Struct, frozen=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class HostPathVolumeSource(Struct, frozen=True):
    path: str = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class FlexVolumeSource(Struct, frozen=True):
    driver: str = ""
    fs_type: str = ""
    read_only: bool = False
    options: dict[str, str] = {}


class CSIPersistentVolumeSource(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    fs_type: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = {}


class LocalVolumeSource(Struct, frozen=True):
    path: str = ""
    fs_type: str | None = None


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: dict[str, Any] | None = None


class Volume(Struct, frozen=True):
    """One entry of a pod's `spec.volumes`. `projected` and `downward_api` are kept as plain JSON."""

    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    projected: dict[str, Any] | None = None
    downward_api: dict[str, Any] | None = msgspec.field(default=None, name="downwardAPI")


class VolumeMount(Struct, frozen=True):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""


class VolumeDevice(Struct, frozen=True):
    name: str = ""
    device_path: str = ""


# --- pods ----------------------------------------------------------------------------------------------------------


class EnvVar(Struct, frozen=True):
    name: str = ""
    value: str = ""
    value_from: dict[str, Any] | None = None


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    resources: dict[str, Any] = {}
    ports: tuple[dict[str, Any], ...] = ()


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Affinity(Struct, frozen=True):
    node_affinity: dict[str, Any] | None = None


class PodSecurityContext(Struct, frozen=True):
    fs_group: int | None = None


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    hostname: str = ""
    subdomain: str = ""
    scheduler_name: str = "default-scheduler"
    service_account_name: str = ""
    security_context: PodSecurityContext | None = None


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    started_at: str | None = None


class ContainerStateTerminated(Struct, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Struct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None


class Pod(Object, frozen=True):
    RESOURCE = Resource("", "v1", "pods", "Pod")
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Phase Succeeded or Failed: no container runs or will run again."""
        return self.status.phase in ("Succeeded", "Failed")


# --- nodes ---------------------------------------------------------------------------------------------------------


class Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class AttachedVolume(Struct, frozen=True, omit_defaults=False):
    """One entry of `status.volumesAttached`: unique volume name and device path."""

    name: str = ""
    device_path: str = ""


class NodeSystemInfo(Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    machine_id: str = msgspec.field(default="", name="machineID")


class NodeStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    addresses: tuple[dict[str, str], ...] = ()
    allocatable: dict[str, str | int] = {}
    capacity: dict[str, str | int] = {}


class Node(Object, frozen=True):
    RESOURCE = Resource("", "v1", "nodes", "Node", namespaced=False)
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> str:
        """The Ready condition: "True", "False" or "Unknown" (also when the condition is missing)."""
        return next((c.status for c in self.status.conditions if c.type == "Ready"), "Unknown")


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    RESOURCE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    spec: LeaseSpec = LeaseSpec()


# --- storage -------------------------------------------------------------------------------------------------------


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: dict[str, str | int] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    mount_options: tuple[str, ...] = ()
    node_affinity: VolumeNodeAffinity | None = None
    flex_volume: FlexVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(Object, frozen=True):
    RESOURCE = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class VolumeResourceRequirements(Struct, frozen=True):
    requests: dict[str, str | int] = {}
    limits: dict[str, str | int] = {}


class PersistentVolumeClaimSpec(Struct, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: LabelSelector | None = None
    data_source: dict[str, Any] | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str | int] = {}


class PersistentVolumeClaim(Object, frozen=True):
    RESOURCE = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: tuple[dict[str, Any], ...] = ()


class StorageClass(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    allow_volume_expansion: bool = False
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeAttributesClass(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False)
    driver_name: str = ""
    parameters: dict[str, str] = {}


class VolumeAttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: dict[str, Any] | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Struct, frozen=True):
    time: str | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(Struct, frozen=True):
    attached: bool = False
    attachment_metadata: dict[str, str] = {}
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class CSIDriverSpec(Struct, frozen=True):
    attach_required: bool = True


class CSIDriver(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
    spec: CSIDriverSpec = CSIDriverSpec()


class CSINodeDriver(Struct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()


class CSINodeSpec(Struct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    RESOURCE = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
    spec: CSINodeSpec = CSINodeSpec()


# --- workloads -----------------------------------------------------------------------------------------------------


class PodTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class RollingUpdate(Struct, frozen=True):
    partition: int = 0


class UpdateStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class Ordinals(Struct, frozen=True):
    start: int = 0


class StatefulSetSpec(Struct, frozen=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    service_name: str = ""
    template: dict[str, Any] = {}
    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    ordinals: Ordinals | None = None
    revision_history_limit: int = 10


class StatefulSetStatus(Struct, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None


class StatefulSet(Object, frozen=True):
    RESOURCE = Resource("apps", "v1", "statefulsets", "StatefulSet")
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ReplicaSetSpec(Struct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}


class ReplicaSetStatus(Struct, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class ReplicaSet(Object, frozen=True):
    RESOURCE = Resource("apps", "v1", "replicasets", "ReplicaSet")
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ControllerRevision(Object, frozen=True):
    RESOURCE = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
    revision: int = 0
    data: dict[str, Any] = {}


# --- the rest ------------------------------------------------------------------------------------------------------


class NamespaceStatus(Struct, frozen=True):
    phase: str = ""


class Namespace(Object, frozen=True):
    RESOURCE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object, frozen=True):
    RESOURCE = Resource("", "v1", "configmaps", "ConfigMap")
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(Object, frozen=True):
    RESOURCE = Resource("", "v1", "secrets", "Secret")
    type: str = "Opaque"
    data: dict[str, str] = {}


class Service(Object, frozen=True):
    RESOURCE = Resource("", "v1", "services", "Service")
    spec: dict[str, Any] = {}


class ServiceAccount(Object, frozen=True):
    RESOURCE = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class PodDisruptionBudget(Object, frozen=True):
    RESOURCE = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    RESOURCE = Resource("", "v1", "events", "Event")
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class EventV1(Object, frozen=True):
    """An Event as the group events.k8s.io shows it: the same stored objects as `Event`, other field names."""

    RESOURCE = Resource("events.k8s.io", "v1", "events", "Event")
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str = ""
    note: str = ""
    type: str = "Normal"
    action: str = ""
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    deprecated_count: int | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None


class PriorityClass(Object, frozen=True):
    RESOURCE = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
