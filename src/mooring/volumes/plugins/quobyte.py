"""`kubernetes.io/quobyte`: a volume of Quobyte, mounted for each pod by a client of its own (`mount.quobyte`,
FUSE), and shown to the pod as one of its users.

The client mounts all that the registry has, at a directory beside the pod's; in it, `USER#GROUP@VOLUME` is
the volume as that user sees it, and that alone is bound into the pod. Guarantees: those of `network_mount`
for both mounts; what reaches a program is checked before.

The storage neither refuses a second node nor revokes one. Names and defaults are those of upstream's plugin,
which Kubernetes 1.25 removed; the fields are in its API still.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

import structlog

from mooring.kube.objects import Pod, QuobyteVolumeSource, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, PersistentVolumePlugin
from mooring.volumes.plugins.network_mount import (
    NetworkUnmounter,
    advice,
    checked_options,
    companion,
    load_fuse,
    mount_in_time,
    mounted,
    unmount_in_time,
    use_of,
)
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/quobyte"
DEFAULT_USER, DEFAULT_GROUP = "root", "nfsnobody"
MOST_REGISTRIES = 16

_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_NAME = re.compile(r"\w[-\w.]{0,99}", re.ASCII)
_ADVICE = (
    (
        "ermission denied",
        "Quobyte refuses this node or its certificate: look at /etc/quobyte, and at its access keys",
    ),
    ("Connection refused", "no registry answers there: look at Quobyte, or correct quobyte.registry"),
    ("No route to host", "this node does not reach the registry: look at the network"),
    ("resolve", "this node cannot resolve the name of the registry: correct quobyte.registry"),
    ("unknown filesystem", "this node has no client of Quobyte: install quobyte-client"),
    ("/dev/fuse", "this node's kernel has no FUSE: modprobe fuse"),
)
_NOT_THERE = (
    ("does not exist", "the registry has no such volume: correct quobyte.volume"),
    ("ermission denied", "that user may not use the volume: correct quobyte.user and quobyte.group"),
)

log = structlog.get_logger("node-agent")


@dataclass(frozen=True)
class Share:
    """What a spec names, checked."""

    registry: str
    volume: str
    user: str
    group: str
    read_only: bool

    @property
    def entry(self) -> str:
        """The volume as the user sees it, in the client's mount."""
        return f"{self.user}#{self.group}@{self.volume}"


def written(spec: VolumeSpec) -> QuobyteVolumeSource | None:
    """The `quobyte` source of the spec, unchecked."""
    return spec.definition.quobyte if spec.definition is not None else None


def share(spec: VolumeSpec) -> Share:
    """The tenant is of no use here, as in upstream: it says whose a volume will be that is made. Raises
    InvalidSpec for a spec that is not Quobyte's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no quobyte source")
    user, group = source.user or DEFAULT_USER, source.group or DEFAULT_GROUP
    for field, text in (("volume", source.volume), ("user", user), ("group", group)):
        if not _NAME.fullmatch(text):
            raise InvalidSpec(
                f"quobyte.{field} {text[:100]!a} of volume {spec.name} must be of letters, digits and -_.: correct it"
            )
    registry = _registry(source.registry, spec.name)
    return Share(registry, source.volume, user, group, source.read_only or spec.read_only)


def _registry(text: str, name: str) -> str:
    pairs = text.split(",")
    if len(pairs) > MOST_REGISTRIES or not all(map(_is_host_port, pairs)):
        raise InvalidSpec(
            f"quobyte.registry {text[:100]!a} of volume {name} must be HOST:PORT or [IPV6]:PORT, {MOST_REGISTRIES} of "
            f"them at the most, with commas between them: correct it"
        )
    return text


def _is_host_port(text: str) -> bool:
    host, _, port = text.rpartition(":")
    if not _PORT.fullmatch(port) or int(port) > 65535:
        return False
    if host.startswith("[") and host.endswith("]") and "%" not in host:
        with contextlib.suppress(ValueError):
            return bool(IPv6Address(host[1:-1]))
    return _HOST.fullmatch(host) is not None


def client_directory(host: VolumeHost, pod_uid: str, spec_name: str) -> str:
    """Where the client of this pod's volume has its mount; root alone may look there."""
    return str(companion(host, PLUGIN_NAME, spec_name, pod_uid, "client"))


class QuobyteMounter(PodDirectoryMounter):
    """Mounts the registry, and binds the volume into the pod. Its files keep their owners, whatever the
    fsGroup: the servers map users."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._share = share(spec)
        self._options = checked_options(spec)
        self._client = client_directory(host, pod.uid, spec.name)
        self._run = call

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._share.read_only, managed=False)

    async def can_mount(self) -> None:
        await blocking(find_tool, "mount.quobyte")

    async def get_metrics(self) -> Metrics:
        return await use_of(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if await mounted(self._host, directory) is not None:
            return
        # First of all, so that an agent after this one finds the volume, and unmounts its client.
        await blocking(os.makedirs, directory, 0o750, exist_ok=True)
        what = f"{self._share.volume} of {self._share.registry} (volume {self._name})"
        problem = await self._mount_client(what) or await self._bind(directory, what)
        if problem:
            await unmount_in_time(self._host, self._run, self._client)
            await blocking(_remove, self._client)
            await blocking(_remove, directory)
            raise VolumeError(f"cannot mount {what}: {problem}")
        log.info("quobyte mounted", volume=self._name, registry=self._share.registry, path=directory)

    async def _mount_client(self, what: str) -> str:
        """Why not, or ""."""
        if await mounted(self._host, self._client) is not None:
            return ""
        await load_fuse(self._run)
        options = ("-o", ",".join(self._options)) if self._options else ()
        words = ("-t", "quobyte", *options, "--", f"{self._share.registry}/")
        failed = await mount_in_time(self._host, self._run, words, self._client, what)
        return advice(failed, _ADVICE) if failed is not None else ""

    async def _bind(self, directory: str, what: str) -> str:
        """Likewise. A look at what is bound asks the servers, so a process of its own looks."""
        bind = "bind,ro" if self._share.read_only else "bind"
        words = ("-o", bind, "--", os.path.join(self._client, self._share.entry))
        failed = await mount_in_time(self._host, self._run, words, directory, what)
        return advice(failed, _NOT_THERE) if failed is not None else ""


class QuobyteUnmounter(NetworkUnmounter):
    """Unmounts the volume, then its client."""

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec_name, pod_uid, call)
        self._client = client_directory(host, pod_uid, spec_name)

    async def tear_down_at(self, directory: str) -> None:
        # The client's mount stays meanwhile, so the pod's goes at once, whatever the servers do.
        await unmount_in_time(self._host, self._run, directory)
        await unmount_in_time(self._host, self._run, self._client)
        await blocking(_remove, self._client)
        await super().tear_down_at(directory)


class QuobytePlugin(PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def __init__(self, call: Run = run) -> None:
        self._run = call

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = share(spec)
        return f"{of.registry}:{of.volume}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> QuobyteMounter:
        return QuobyteMounter(self._host, spec, pod, self._run)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> QuobyteUnmounter:
        return QuobyteUnmounter(self._host, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, quobyte=QuobyteVolumeSource()))


def _remove(directory: str) -> None:
    with contextlib.suppress(OSError):  # not there, or used: it is tried again when the volume is unmounted
        os.rmdir(directory)


def plugin() -> QuobytePlugin:
    """The factory that the entry point names."""
    return QuobytePlugin()
