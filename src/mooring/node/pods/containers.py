"""From a pod's spec to what the runtime is asked to run. Pure.

Rules: Kubernetes' API reference of `Container` (command, args, env: `$(VAR)` is replaced where VAR is known, `$$` is
one dollar, anything else stays as it is). A container that cannot be made is a `ContainerConfigProblem`, whose
reason and message go into its status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mooring.kube.objects import Container, EnvVar, Pod
from mooring.node.runtime import ContainerMount, ContainerSpec, SandboxSpec

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTNAME_LENGTH = 63  # of a DNS label; the kernel takes no more than 64

_REFERENCE = re.compile(r"\$(?:\$|\(([-._A-Za-z0-9]+)\))")

Lookup = Callable[[str, str], Mapping[str, str] | None]
"""The data of the ConfigMap or Secret (kind, name) in the pod's namespace, decoded; None if it does not exist."""
ImageDirectory = Callable[[str], str | None]
"""The root file system folder of an image; None if there is none of that name."""


class ContainerConfigProblem(Exception):
    """The container cannot be made as its spec says; `reason` is a waiting reason of Kubernetes."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(VAR)` by the variable's value, if there is one."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def environment(pod: Pod, container: Container, node_address: str, lookup: Lookup) -> dict[str, str]:
    """The container's variables; later ones may refer to earlier ones."""
    variables = {"PATH": PATH, "HOSTNAME": hostname(pod)}
    for variable in container.env:
        value = _value(pod, variable, node_address, lookup)
        if value is not None:
            variables[variable.name] = expand(value, variables) if variable.value_from is None else value
    return variables


def hostname(pod: Pod) -> str:
    """`spec.hostname`, else the pod's name, cut to what a host name may have."""
    return (pod.spec.hostname or pod.name)[:HOSTNAME_LENGTH].rstrip("-.")


def sandbox_spec(
    pod: Pod, volumes: Mapping[str, str], image_directory: ImageDirectory, masks: tuple[str, ...]
) -> SandboxSpec:
    """The pod's sandbox; `volumes` says where each volume is set up on this machine."""
    images = {name: directory for name in _images(pod) if (directory := image_directory(name)) is not None}
    return SandboxSpec(
        uid=pod.uid,
        hostname=hostname(pod),
        volumes=dict(volumes),
        images={image_key(pod, name): directory for name, directory in images.items()},
        masks=masks,
    )


def image_key(pod: Pod, image: str) -> str:
    """Names an image within its pod."""
    return str(_images(pod).index(image))


def images_on_host_root(pod: Pod, image_directory: ImageDirectory) -> list[str]:
    """The images of the pod that no folder provides: their containers run on the machine's own root."""
    return [image for image in _images(pod) if image_directory(image) is None]


def container_spec(
    pod: Pod,
    container: Container,
    attempt: int,
    *,
    node_address: str,
    image_directory: ImageDirectory,
    lookup: Lookup,
) -> ContainerSpec:
    """One attempt of a container. Raises `ContainerConfigProblem`."""
    variables = environment(pod, container, node_address, lookup)
    has_folder = image_directory(container.image) is not None
    return ContainerSpec(
        name=container.name,
        attempt=attempt,
        argv=tuple(expand(word, variables) for word in _command(container, has_folder=has_folder)),
        env=variables,
        working_dir=container.working_dir or "/",
        image=image_key(pod, container.image) if has_folder else None,
        mounts=_mounts(container),
    )


def _images(pod: Pod) -> list[str]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return list(dict.fromkeys(container.image for container in containers))


def _command(container: Container, *, has_folder: bool) -> tuple[str, ...]:
    if container.command:
        return (*container.command, *container.args)
    if has_folder:
        message = f"container {container.name}: an image folder names no command to run: set `command`"
        raise ContainerConfigProblem("CreateContainerConfigError", message)
    message = (
        f"container {container.name}: image {container.image!r} is not a folder under --images, and without `command` "
        "there is nothing to run on the node's own root: unpack the image there, or set `command`"
    )
    raise ContainerConfigProblem("ErrImageNeverPull", message)


def _mounts(container: Container) -> tuple[ContainerMount, ...]:
    if container.volume_devices:
        message = f"container {container.name}: raw block volumes (volumeDevices) are not supported yet"
        raise ContainerConfigProblem("CreateContainerConfigError", message)
    # Outer paths first, so that a mount inside another one's path is not hidden by it.
    return tuple(
        ContainerMount(mount.name, mount.mount_path, mount.read_only, mount.sub_path)
        for mount in sorted(container.volume_mounts, key=lambda mount: mount.mount_path)
    )


def _value(pod: Pod, variable: EnvVar, node_address: str, lookup: Lookup) -> str | None:
    source = variable.value_from
    if source is None:
        return variable.value
    if "fieldRef" in source:
        return _field(pod, variable, source["fieldRef"].get("fieldPath", ""), node_address)
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            return _key(variable, kind, source[key], lookup)
    message = f"variable {variable.name}: valueFrom {', '.join(source)} is not supported"
    raise ContainerConfigProblem("CreateContainerConfigError", message)


def _key(variable: EnvVar, kind: str, reference: Mapping[str, Any], lookup: Lookup) -> str | None:
    name, key = reference.get("name", ""), reference.get("key", "")
    data = lookup(kind, name)
    if data is not None and key in data:
        return data[key]
    if reference.get("optional"):
        return None
    missing = f"{kind} {name!r} does not exist" if data is None else f"{kind} {name!r} has no key {key!r}"
    raise ContainerConfigProblem("CreateContainerConfigError", f"variable {variable.name}: {missing}")


_MAP_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def _field(pod: Pod, variable: EnvVar, path: str, node_address: str) -> str:
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": node_address,
        "status.podIP": node_address,
    }
    if match := _MAP_KEY.fullmatch(path):
        values = pod.metadata.labels if match[1] == "labels" else pod.metadata.annotations
        return values.get(match[2], "")
    if path not in fields:
        message = f"variable {variable.name}: fieldPath {path!r} is not one that an environment can have"
        raise ContainerConfigProblem("CreateContainerConfigError", message)
    return fields[path]
