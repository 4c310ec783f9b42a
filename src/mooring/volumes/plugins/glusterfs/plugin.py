"""The plugin `kubernetes.io/glusterfs`: a volume of GlusterFS servers, mounted for each pod by a client of
its own, a process of this node (FUSE).

Guarantees: those of `network_mount`; and no client is left when its mount is gone: what it still holds can
not arrive later. A client that dies leaves its mount in place, which then fails ("Transport endpoint is not
connected"), so that a pod never has another directory in its place.

The storage neither refuses a second node nor revokes one. It must not know what an API server is: it asks its
host for the Endpoints.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence

import structlog

from mooring.kube.objects import Endpoints, GlusterfsVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, PersistentVolumePlugin
from mooring.volumes.plugins.glusterfs import clients
from mooring.volumes.plugins.glusterfs.source import (
    last_line,
    logs_elsewhere,
    mount_words,
    servers,
    share,
    user_options,
    written,
)
from mooring.volumes.plugins.network_mount import (
    NetworkUnmounter,
    advice,
    companion,
    load_fuse,
    mount_in_time,
    mounted,
    unmount_in_time,
    use_of,
)
from mooring.volumes.plugins.programs import Ended, Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/glusterfs"
PORT, ANSWER_S = 24007, 3.0
"""Where glusterd listens; and how long it has, before another server is asked in its place."""
LOG_BYTES = 4096

_ADVICE = (
    ("volume file", "the servers have no such volume: correct glusterfs.path, or create and start it"),
    (
        "authentication failed",
        "the volume has no such directory, or does not let this node in: look at glusterfs.path, and at auth.allow",
    ),
    ("Invalid option", "GlusterFS does not know that option: correct mountOptions"),
    ("/dev/fuse", "this node's kernel has no FUSE: modprobe fuse"),
)
_SILENT = (
    "Mounting glusterfs on",
    "no GlusterFS server answers there: look at glusterd, at the network, and at the Endpoints",
)
"""What it says where nothing is in the log."""

log = structlog.get_logger("node-agent")

Reaches = Callable[[str], Awaitable[bool]]
"""Whether a server answers."""


class GlusterfsMounter(PodDirectoryMounter):
    """Mounts the volume for the pod. Its files keep their owners, whatever the fsGroup."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run, reaches: Reaches) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._share = share(spec, pod.namespace)
        self._options = user_options(spec)
        self._log = log_file(host, pod.uid, spec.name)
        self._run, self._reaches = call, reaches

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._share.read_only, managed=False)

    async def can_mount(self) -> None:
        await blocking(find_tool, "mount.glusterfs")

    async def get_metrics(self) -> Metrics:
        return await use_of(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        before = await mounted(self._host, directory)
        if before is not None and await blocking(clients.of, directory):
            return
        addresses = await self._servers()
        words = mount_words(self._share, addresses, self._log, directory, self._options)
        await blocking(clients.end, directory, 0.0)  # of a mount of unknown outcome
        await unmount_in_time(self._host, self._run, directory)  # without its client it never works again
        await load_fuse(self._run)
        await blocking(_begin_log, self._log)
        what = f"{self._share.path} of {', '.join(addresses)} (volume {self._name})"
        failed = await mount_in_time(self._host, self._run, words, directory, what)
        if failed is not None:
            raise VolumeError(f"cannot mount {what}: {await self._why(failed)}")
        log.info("glusterfs mounted", volume=self._name, path=directory, servers=addresses)

    async def _why(self, failed: Ended) -> str:
        """The mount program itself says next to nothing: the client's log does."""
        said = last_line(await blocking(_tail, self._log))
        silent = () if said or logs_elsewhere(self._options) else (_SILENT,)
        return advice(failed, (*_ADVICE, *silent), said)

    async def _servers(self) -> list[str]:
        """Those that answer first: the client asks them in order, each for 42 s."""
        name = f"{self._share.namespace}/{self._share.endpoints}"
        found = await self._host.objects.find(Endpoints, self._share.endpoints, self._share.namespace)
        if found is None:
            raise VolumeError(
                f"Endpoints {name} of volume {self._name} do not exist: create them with the addresses of the "
                f"GlusterFS servers"
            )
        addresses = servers(found, name)
        if len(addresses) == 1:
            return addresses
        answers = dict(zip(addresses, await asyncio.gather(*map(self._reaches, addresses)), strict=True))
        return sorted(addresses, key=lambda address: not answers[address])


class GlusterfsUnmounter(NetworkUnmounter):
    """Unmounts the volume, and sees its client end."""

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec_name, pod_uid, call)
        self._log = log_file(host, pod_uid, spec_name)

    async def tear_down_at(self, directory: str) -> None:
        was_mounted = await mounted(self._host, directory) is not None
        await unmount_in_time(self._host, self._run, directory)
        patience_s = clients.OF_ITS_OWN_S if was_mounted else 0.0
        if killed := await blocking(clients.end, directory, patience_s):
            log.warning("glusterfs clients were killed after the unmount", path=directory, pids=killed)
        await blocking(_remove_log, self._log)
        await super().tear_down_at(directory)  # once more: a client may have come to its mount meanwhile


class GlusterfsPlugin(PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def __init__(self, call: Run = run, reaches: Reaches | None = None) -> None:
        self._run = call
        self._reaches = reaches or listens

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = share(spec, "")
        return f"{of.endpoints}:{of.path}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> GlusterfsMounter:
        return GlusterfsMounter(self._host, spec, pod, self._run, self._reaches)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> GlusterfsUnmounter:
        return GlusterfsUnmounter(self._host, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, glusterfs=GlusterfsVolumeSource()))


async def listens(address: str) -> bool:
    """Whether a glusterd takes a connection there."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(address, PORT)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def log_file(host: VolumeHost, pod_uid: str, spec_name: str) -> str:
    """The log of the client of this pod's volume; it is removed with its mount."""
    return str(companion(host, PLUGIN_NAME, spec_name, pod_uid, "log"))


def _begin_log(path: str) -> None:
    os.makedirs(os.path.dirname(path), 0o750, exist_ok=True)
    _remove_log(path)


def _remove_log(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _tail(path: str) -> bytes:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
        return file.read(LOG_BYTES)
    return b""


def plugin() -> GlusterfsPlugin:
    """The factory that the entry point names."""
    return GlusterfsPlugin()
