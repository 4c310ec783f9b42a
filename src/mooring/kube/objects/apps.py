"""The group apps, and its forerunner ReplicationController: StatefulSets, ReplicaSets, Deployments."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Condition, LabelSelector, Object, ObjectMeta, Resource, Struct


class PodTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class RollingUpdate(Struct, frozen=True):
    """`max_unavailable`: a number of pods or a percentage of the replicas."""

    partition: int = 0
    max_unavailable: int | str | None = None


class UpdateStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class Ordinals(Struct, frozen=True):
    start: int = 0


class ClaimRetentionPolicy(Struct, frozen=True):
    """Retain or Delete, for the claims of a set that is deleted, and of identities that are scaled away."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


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
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()


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


class RollingUpdateDaemonSet(Struct, frozen=True):
    """Each a number of pods or a percentage of the nodes; one of them is 0."""

    max_unavailable: int | str = 1
    max_surge: int | str = 0


class DaemonSetUpdateStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDaemonSet = RollingUpdateDaemonSet()


class DaemonSetSpec(Struct, frozen=True):
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Struct, frozen=True):
    """Numbers of nodes: that should have a pod and have one; that have one and should not; ..."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0


class DaemonSet(Object, frozen=True):
    RESOURCE = Resource("apps", "v1", "daemonsets", "DaemonSet")
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


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


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: dict[str, str] = {}
    template: dict[str, Any] = {}


class ReplicationController(Object, frozen=True):
    RESOURCE = Resource("", "v1", "replicationcontrollers", "ReplicationController")
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateDeployment(Struct, frozen=True):
    """Each a number of pods or a percentage of the replicas ("25%")."""

    max_unavailable: int | str = "25%"
    max_surge: int | str = "25%"


class DeploymentStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDeployment = RollingUpdateDeployment()


class DeploymentSpec(Struct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    revision_history_limit: int = 10
    progress_deadline_seconds: int | None = None
    paused: bool = False


class DeploymentStatus(Struct, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Object, frozen=True):
    RESOURCE = Resource("apps", "v1", "deployments", "Deployment")
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()
