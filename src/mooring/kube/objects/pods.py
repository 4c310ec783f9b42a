"""Pods (core group)."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.kube.objects.meta import Condition, Object, Resource, Struct
from mooring.kube.objects.volumes import Volume, VolumeDevice, VolumeMount


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
