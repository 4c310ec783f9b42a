"""From a pod's spec to the runtime's request. Pure.

A container that cannot be made is a `ContainerConfigProblem`, whose reason and message go into its status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from signal import SIGTERM

from mooring.kube.objects import Container, Pod
from mooring.kube.objects.pods import PodSecurityContext, SecurityContext
from mooring.kube.objects.volumes import VolumeMount
from mooring.node.pods.environment import (
    PATH,
    ContainerConfigProblem,
    Surroundings,
    config_problem,
    declared,
    expand,
    hostname,
    unresolved,
)
from mooring.node.pods.stop_signal import signal_number
from mooring.node.runtime import ContainerMount, ContainerSpec, SandboxSpec


@dataclass(frozen=True)
class Image:
    """A root file system, and what its config says; a plain folder has none."""

    directory: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


FindImage = Callable[[str], Image | None]
"""The image of that name; None if there is none: then the container runs on the machine's own root."""


def environment(pod: Pod, container: Container, around: Surroundings, image: Image | None) -> dict[str, str]:
    """All variables of the container. Raises `ContainerConfigProblem`."""
    given = {"PATH": PATH, "HOSTNAME": hostname(pod), **(image.env if image else {})}
    return given | declared(pod, container, around)


def sandbox_spec(
    pod: Pod, volumes: Mapping[str, str], find_image: FindImage, masks: tuple[str, ...]
) -> SandboxSpec:
    """The pod's sandbox, but for its network; `volumes` says where each volume is set up on this machine."""
    found = {name: image for name in images(pod) if (image := find_image(name)) is not None}
    return SandboxSpec(
        uid=pod.uid,
        hostname=hostname(pod),
        volumes=dict(volumes),
        images={image_key(pod, name): image.directory for name, image in found.items()},
        masks=masks,
        machine_proc=_shows_machine(pod),
    )


def images(pod: Pod) -> list[str]:
    """The names of the images that the pod is started with, each once."""
    return list(dict.fromkeys(container.image for container in _started_with(pod)))


def _started_with(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def image_key(pod: Pod, image: str) -> str:
    """Names an image within its pod."""
    return str(images(pod).index(image))


def _image_of_sandbox(pod: Pod, container: Container) -> str:
    """The key of the container's image. Raises `ContainerConfigProblem` for an ephemeral container with an
    image that the pod's sandbox was made without."""
    if container.image not in images(pod):
        message = (
            f"container {container.name}: image {container.image!r} is under --images and no container of the pod had "
            f"it when the pod was started: use one of {', '.join(images(pod))}"
        )
        raise config_problem(message)
    return image_key(pod, container.image)


def images_on_host_root(pod: Pod, find_image: FindImage) -> list[str]:
    """The images of the pod that are not below --images: their containers run on the machine's own root."""
    return [image for image in images(pod) if find_image(image) is None]


def container_spec(
    pod: Pod,
    container: Container,
    attempt: int,
    *,
    around: Surroundings,
    find_image: FindImage,
    read_only: Set[str] = frozenset(),
) -> ContainerSpec:
    """One attempt of a container; `read_only` are the pod's volumes that it may only read, whatever its
    mounts say. Raises `ContainerConfigProblem`."""
    image = find_image(container.image)
    variables = declared(pod, container, around)
    own = container.security_context or SecurityContext()
    return ContainerSpec(
        name=container.name,
        attempt=attempt,
        argv=tuple(expand(word, variables) for word in _command(container, image)),
        env=environment(pod, container, around, image),
        working_dir=container.working_dir or (image.working_dir if image else "") or "/",
        image=_image_of_sandbox(pod, container) if image else None,
        mounts=_mounts(pod, container, variables, read_only),
        user=_user(pod, container, image),
        groups=_groups(pod.spec.security_context),
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        message_path=container.termination_message_path,
        message_from_logs=container.termination_message_policy == "FallbackToLogsOnError",
        stop_signal=_stop_signal(container, image),
    )


def _command(container: Container, image: Image | None) -> tuple[str, ...]:
    """`command` stands for the image's entrypoint, `args` for its command; `command` alone drops both."""
    if container.command:
        return (*container.command, *container.args)
    if image is not None and (words := (*image.entrypoint, *(container.args or image.command))):
        return words
    if image is not None:
        message = (
            f"container {container.name}: image {container.image!r} names no command to run: set `command`"
        )
        raise config_problem(message)
    message = (
        f"container {container.name}: there is no image {container.image!r} under --images, and without `command` "
        "there is nothing to run on the node's own root: put a root file system folder or an OCI layout of that name "
        "there, or set `command`"
    )
    raise ContainerConfigProblem("ErrImageNeverPull", message)


def _stop_signal(container: Container, image: Image | None) -> int:
    """The container's word before the image's. What is no signal is refused here: containerd starts such a
    container, and then fails each time it is to end it."""
    own = container.lifecycle.stop_signal if container.lifecycle else ""
    text = own or (image.stop_signal if image else "")
    try:
        return signal_number(text) if text else SIGTERM
    except ValueError as error:
        where = "lifecycle.stopSignal" if own else f"StopSignal of image {container.image!r}"
        raise config_problem(f"container {container.name}: {where}: {error}") from error


def _mounts(
    pod: Pod, container: Container, variables: Mapping[str, str], read_only: Set[str]
) -> tuple[ContainerMount, ...]:
    roots = _machine_roots(pod, container) if _shows_machine(pod) else set[str]()
    devices = (ContainerMount(device.name, device.device_path) for device in container.volume_devices)
    # Outer paths first, so that a mount inside another one's path is not hidden by it.
    volumes = (
        ContainerMount(
            mount.name,
            mount.mount_path,
            mount.read_only or mount.name in read_only,
            _sub_path(container, mount, variables),
            machine_proc=mount.name in roots and not (mount.sub_path or mount.sub_path_expr),
        )
        for mount in sorted(container.volume_mounts, key=lambda mount: mount.mount_path)
    )
    return (*volumes, *devices)


def _shows_machine(pod: Pod) -> bool:
    """Of the containers that the pod is started with; one that is added later cannot change its sandbox."""
    return any(_machine_roots(pod, container) for container in _started_with(pod))


def _machine_roots(pod: Pod, container: Container) -> set[str]:
    """The volumes that show a privileged container the machine's root with its processes, so that
    `nsenter --mount=ROOT/proc/1/ns/mnt` leads into the machine, as it does on a node of a real cluster."""
    if not (container.security_context and container.security_context.privileged):
        return set()
    paths = {volume.name: volume.host_path.path for volume in pod.spec.volumes if volume.host_path}
    return {name for name, path in paths.items() if path and not path.strip("/")}


def _sub_path(container: Container, mount: VolumeMount, variables: Mapping[str, str]) -> str:
    if not mount.sub_path_expr:
        return mount.sub_path
    where = f"container {container.name}: subPathExpr {mount.sub_path_expr!r}"
    if missing := unresolved(mount.sub_path_expr, variables):
        raise config_problem(f"{where}: there is no variable {', '.join(missing)}")
    path = expand(mount.sub_path_expr, variables)
    if path.startswith("/") or ".." in path.split("/"):
        raise config_problem(f"{where}: {path!r} must be a path inside the volume")
    return path


def _user(pod: Pod, container: Container, image: Image | None) -> str:
    """The container's word before the pod's before the image's; a group is set together with the user or
    alone."""
    own, of_pod = (
        container.security_context or SecurityContext(),
        pod.spec.security_context or PodSecurityContext(),
    )
    uid = _first(own.run_as_user, of_pod.run_as_user)
    gid = _first(own.run_as_group, of_pod.run_as_group)
    name, _, group = (image.user if image else "").partition(":")
    user = name if uid is None else str(uid)
    if _first(own.run_as_non_root, of_pod.run_as_non_root) and user in ("", "0", "root"):
        raise config_problem(
            f"container {container.name}: runAsNonRoot is set and it would run as root: set `runAsUser`"
        )
    # A user that is set without a group is not in the group of the image's user.
    group = str(gid) if gid is not None else group if uid is None else ""
    return f"{user or '0'}:{group}" if group else user


def _first(own: int | None, of_pod: int | None) -> int | None:
    return of_pod if own is None else own


def _groups(context: PodSecurityContext | None) -> tuple[int, ...]:
    if context is None:
        return ()
    return (*context.supplemental_groups, *(() if context.fs_group is None else (context.fs_group,)))
