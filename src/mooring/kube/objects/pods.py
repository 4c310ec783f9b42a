"""Pods (core group)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from mooring.kube.objects.meta import Condition, Object, Resource, Struct
from mooring.kube.objects.volumes import Volume, VolumeDevice, VolumeMount


class EnvVar(Struct, frozen=True):
    name: str = ""
    value: str = ""
    value_from: dict[str, Any] | None = None


class EnvFromSource(Struct, frozen=True):
    prefix: str = ""
    config_map_ref: dict[str, Any] | None = None
    secret_ref: dict[str, Any] | None = None


class Handler(Struct, frozen=True):
    """What a hook or a probe does. Exactly one is set."""

    exec: dict[str, Any] | None = None
    http_get: dict[str, Any] | None = None
    tcp_socket: dict[str, Any] | None = None
    grpc: dict[str, Any] | None = None
    sleep: dict[str, Any] | None = None


class Probe(Handler, frozen=True):
    """Times in seconds; the defaults are those of the API, which has them for 0, too."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None

    def __post_init__(self) -> None:
        """An API server has done so; a manifest of a static pod has been to none."""
        for field, usual in _POSITIVE.items():
            if getattr(self, field) < 1:
                force_setattr(self, field, usual)


_POSITIVE = {"period_seconds": 10, "timeout_seconds": 1, "success_threshold": 1, "failure_threshold": 3}


class Lifecycle(Struct, frozen=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None
    stop_signal: str = ""


class SecurityContext(Struct, frozen=True):
    """Of a container; what is None is the pod's."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    privileged: bool | None = None
    capabilities: dict[str, Any] | None = None
    seccomp_profile: dict[str, Any] | None = None
    app_armor_profile: dict[str, Any] | None = None
    se_linux_options: dict[str, Any] | None = None


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    resources: dict[str, Any] = {}
    ports: tuple[dict[str, Any], ...] = ()
    restart_policy: str = ""
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    security_context: SecurityContext | None = None
    stdin: bool = False
    tty: bool = False

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: it is kept running beside the containers that come after it."""
        return self.restart_policy == "Always"


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Affinity(Struct, frozen=True):
    node_affinity: dict[str, Any] | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class PodSecurityContext(Struct, frozen=True):
    fs_group: int | None = None
    fs_group_change_policy: str = ""
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    se_linux_options: dict[str, Any] | None = None
    seccomp_profile: dict[str, Any] | None = None
    sysctls: tuple[dict[str, Any], ...] = ()


class HostAlias(Struct, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodDNSConfig(Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[dict[str, Any], ...] = ()


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    hostname: str = ""
    subdomain: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    service_account_name: str = ""
    security_context: PodSecurityContext | None = None
    active_deadline_seconds: int | None = None
    readiness_gates: tuple[dict[str, str], ...] = ()
    host_network: bool = False
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    host_aliases: tuple[HostAlias, ...] = ()
    dns_policy: str = "ClusterFirst"
    dns_config: PodDNSConfig | None = None


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
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
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
