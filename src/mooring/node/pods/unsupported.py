"""What a pod asks for and this node does not do. Pure.

Such a pod runs all the same, as a pod on a node without that feature does; an event names the fields. What
would make a pod do something else than its user expects is refused instead (`containers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.kube.objects import Container, Pod
from mooring.kube.objects.pods import PodSecurityContext, SecurityContext


def not_honoured(pod: Pod) -> list[str]:
    """The fields, each once, in the words of the API."""
    return list(
        dict.fromkeys([*_of_pod(pod), *(field for each in _containers(pod) for field in _of_container(each))])
    )


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def _of_pod(pod: Pod) -> Iterator[str]:
    context = pod.spec.security_context or PodSecurityContext()
    fields: dict[str, Any] = {
        "hostPID": pod.spec.host_pid,
        "hostIPC": pod.spec.host_ipc,
        "securityContext.sysctls": context.sysctls,
        "securityContext.seLinuxOptions": context.se_linux_options,
        "securityContext.seccompProfile": _confines(context.seccomp_profile),
    }
    yield from (field for field, value in fields.items() if value)


def _of_container(container: Container) -> Iterator[str]:
    context = container.security_context or SecurityContext()
    fields: dict[str, Any] = {
        "resources.limits": container.resources.get("limits"),
        "securityContext.privileged": context.privileged,
        "securityContext.capabilities": context.capabilities,
        "securityContext.seccompProfile": _confines(context.seccomp_profile),
        "securityContext.appArmorProfile": _confines(context.app_armor_profile),
        "securityContext.seLinuxOptions": context.se_linux_options,
        "ports.hostPort": any(port.get("hostPort") for port in container.ports),
        "volumeMounts.mountPropagation": any(
            mount.mount_propagation not in ("", "None") for mount in container.volume_mounts
        ),
        "stdin": container.stdin,
        "tty": container.tty,
    }
    yield from (field for field, value in fields.items() if value)


def _confines(profile: dict[str, Any] | None) -> bool:
    return profile is not None and profile.get("type") != "Unconfined"
