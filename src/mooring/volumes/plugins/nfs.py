"""`kubernetes.io/nfs`: a directory that a server exports, mounted for each pod by the node's kernel.

Guarantees: server and path are checked before a program gets them; no call waits for a server longer than
its deadline; what a deadline leaves behind is looked up in the mount table, which needs no server. A mount
goes only when all is written or given up, never lazily: its kernel would write when the server is back, over
what others wrote meanwhile. Nothing on the export is removed.

The storage neither refuses a second node nor revokes one here; who may write is the server's to say
(docs/plugins.md). Names, access modes and attributes are those of upstream's plugin.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import structlog

from mooring.kube.objects import NFSVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.mounts.errors import ToolMissing
from mooring.mounts.interface import Mount
from mooring.mounts.table import as_shown, mount_at
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, MetricsNotSupported, PersistentVolumePlugin
from mooring.volumes.plugins.programs import Ended, Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter, PodDirectoryUnmounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/nfs"
MOUNT_S, WRITE_BACK_S, UNMOUNT_S, METRICS_S = 60.0, 60.0, 20.0, 10.0
FORCED = 3
"""How often: the first time ends the calls that keep the mount busy."""
LONGEST_PATH = 4096

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
_OPTION = re.compile(r"[!-~]+", re.ASCII)
_ADVICE = (
    ("access denied", "the server does not export it to this node: let the node in there"),
    ("No such file or directory", "the server exports no such path: correct nfs.path"),
    ("Connection refused", "no NFS server answers there: start it, or correct nfs.server"),
    ("No route to host", "this node does not reach the server: look at the network"),
    ("timed out", "the server does not answer this node: look at it, and at the network"),
    ("Protocol not supported", "the server does not speak that version: set mountOptions, as nfsvers=4.2"),
    ("resolve", "this node cannot resolve the name of the server: correct nfs.server"),
)

log = structlog.get_logger("node-agent")


@dataclass(frozen=True)
class Export:
    """A directory of a server, checked. Its text is what `mount` takes."""

    server: str
    path: str
    read_only: bool

    def __str__(self) -> str:
        return f"[{self.server}]:{self.path}" if ":" in self.server else f"{self.server}:{self.path}"


def written(spec: VolumeSpec) -> NFSVolumeSource | None:
    """The `nfs` source of the spec, unchecked."""
    return spec.definition.nfs if spec.definition is not None else None


def export(spec: VolumeSpec) -> Export:
    """Raises InvalidSpec for a spec that is not NFS's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no nfs source")
    read_only = source.read_only or spec.read_only
    return Export(_server(source.server, spec.name), _path(source.path, spec.name), read_only)


def _server(text: str, name: str) -> str:
    """A link-local address is of no use: `%` leads to other text."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    with contextlib.suppress(ValueError):
        found = ip_address(bare)
        if "%" not in bare and (bare == text or isinstance(found, IPv6Address)):
            return str(found)
    if not _NAME.fullmatch(text):
        raise InvalidSpec(
            f"nfs.server {text[:100]!a} of volume {name} is neither a host name nor an address: correct it"
        )
    return text


def _path(text: str, name: str) -> str:
    if (
        not text.startswith("/")
        or ".." in text.split("/")
        or len(os.fsencode(text)) > LONGEST_PATH
        or not text.isprintable()
    ):
        raise InvalidSpec(
            f"nfs.path {text[:100]!a} of volume {name} must be absolute, printable and without '..': correct it"
        )
    return text


def mount_options(spec: VolumeSpec, of: Export) -> list[str]:
    """Raises InvalidSpec for an option that cannot be one, and for `bg`: then `mount` says that it is done
    before it is, and pods would write to the node's own disk."""
    for option in spec.mount_options:
        if not _OPTION.fullmatch(option) or "bg" in option.split(","):
            raise InvalidSpec(
                f"mountOptions of volume {spec.name}: {option[:100]!a} cannot be used: remove it"
            )
    return [*spec.mount_options, *(("ro",) if of.read_only else ())]


class NFSMounter(PodDirectoryMounter):
    """Mounts the export for the pod. Its files keep their owners, whatever the fsGroup."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._export = export(spec)
        self._options = mount_options(spec, self._export)
        self._run = call

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._export.read_only, managed=False)

    async def can_mount(self) -> None:
        try:
            await blocking(find_tool, "mount.nfs")
        except ToolMissing:
            raise ToolMissing("mount.nfs", "nfs-common") from None

    async def get_metrics(self) -> Metrics:
        return await _use(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if await self._host.mounts.is_mount_point(directory):
            return
        await blocking(os.makedirs, directory, 0o750, exist_ok=True)
        options = ("-o", ",".join(self._options)) if self._options else ()
        words = ("mount", "-t", "nfs", *options, "--", str(self._export), directory)
        ended = await self._run(*words, deadline_s=MOUNT_S)
        if ended.status == 0 and await self._host.mounts.is_mount_point(directory):
            log.info("nfs mounted", volume=self._name, export=str(self._export), path=directory)
            return
        if ended.status is None:
            raise OutcomeUnknown(
                f"mounting {self._export} of volume {self._name} did not end within {MOUNT_S:g} s, and may be done or "
                f"not: is the server well? It is tried again"
            )
        with contextlib.suppress(OSError):
            await blocking(os.rmdir, directory)
        raise VolumeError(f"cannot mount {self._export} of volume {self._name}: {_advice(ended)}")


class NFSUnmounter(PodDirectoryUnmounter):
    """Unmounts the export; what is on it is never removed.

    What was written is first written back. A server that has gone keeps that waiting; then the mount is
    taken away by force, as upstream does after a minute, and those writes are given up. An unmount alone
    would not do: it takes the mount out of the table at once, and the kernel goes on writing when the server
    is back. A server that is only slow is waited for.

    Where another pod of this node has mounted the same file system, force would end its I/O, too. Then the
    mount alone is removed, which waits for nothing; what was written stays on its way meanwhile.
    """

    def __init__(self, host: VolumeHost, spec_name: str, pod_uid: str, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec_name, pod_uid)
        self._run = call

    async def tear_down_at(self, directory: str) -> None:
        if (mount := await self._mount_at(directory)) is not None:
            await self._unmount(directory, mount)
        if await blocking(os.path.lexists, directory):
            await self._host.mounts.remove_mount_point(directory)

    async def _mount_at(self, directory: str) -> Mount | None:
        """By the table alone: a look at the directory itself would wait for the server."""
        return mount_at(await self._host.mounts.mount_table(), await blocking(as_shown, directory))

    async def _unmount(self, directory: str, mount: Mount) -> None:
        shared = any(
            each.device == mount.device and each.mount_id != mount.mount_id
            for each in await self._host.mounts.mount_table()
        )
        force = not shared and not await self._written_back(directory, mount)
        ended = Ended(None)
        for _ in range(FORCED if force else 1):
            words = ("umount", "-f") if force else ("umount",)
            ended = await self._run(*words, "--", directory, deadline_s=UNMOUNT_S)
            if ended.status == 0:
                break
        if await self._mount_at(directory) is not None:
            raise VolumeError(
                f"{mount.source} is still mounted at {directory}: {ended.words()}. It is tried again"
            )

    async def _written_back(self, directory: str, mount: Mount) -> bool:
        """False if the server has gone. Raises VolumeError while it answers, and has not got everything."""
        ended = await self._run("sync", "-f", "--", directory, deadline_s=WRITE_BACK_S)
        if ended.status is not None:
            return True
        answers = await self._run("stat", "-f", "--", directory, deadline_s=METRICS_S)
        if answers.status is not None:
            raise VolumeError(
                f"what was written to {mount.source} is not all there after {WRITE_BACK_S:g} s, while the server "
                f"answers: look whether it is well. It is waited for"
            )
        log.error(
            "writes that the server has not confirmed are given up", export=mount.source, path=directory
        )
        return False


class NFSPlugin(PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def __init__(self, call: Run = run) -> None:
        self._run = call

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = export(spec)
        return f"{of.server}/{of.path}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> NFSMounter:
        return NFSMounter(self._host, spec, pod, self._run)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> NFSUnmounter:
        return NFSUnmounter(self._host, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, nfs=NFSVolumeSource()))


async def _use(call: Run, path: str) -> Metrics:
    """The use of the file system, asked in a process of its own: a server that has gone keeps it waiting."""
    ended = await call("stat", "-f", "-c", "%S %b %f %a %c %d", "--", path, deadline_s=METRICS_S)
    numbers = ended.output.split()
    if ended.status != 0 or len(numbers) != 6 or not all(number.isdecimal() for number in numbers):
        raise MetricsNotSupported(f"the use of {path} is not known: {ended.words()}")
    block, blocks, free, available, inodes, inodes_free = map(int, numbers)
    return Metrics(
        capacity=block * blocks,
        used=block * (blocks - free),
        available=block * available,
        inodes=inodes,
        inodes_used=inodes - inodes_free,
        inodes_free=inodes_free,
    )


def _advice(ended: Ended) -> str:
    said = ended.words()
    return next((f"{advice} ({said})" for words, advice in _ADVICE if words in said), said)


def plugin() -> NFSPlugin:
    """The factory that the entry point names."""
    return NFSPlugin()
