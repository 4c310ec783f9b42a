"""`kubernetes.io/nfs`: a directory that a server exports, mounted for each pod by the node's kernel.

Guarantees: server and path are checked before a program gets them; those of `network_mount`, which does the
mounting.

A PersistentVolume for one node at a time is granted to it first (`volumes.granted`). The storage itself
neither refuses a second node nor revokes one; who may write is the server's to say (docs/plugins.md). Names,
access modes and attributes are those of upstream's plugin.
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
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.granted import GrantedSharePlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, PersistentVolumePlugin
from mooring.volumes.plugins.network_mount import (
    NetworkUnmounter,
    advice,
    checked_options,
    mark_of_granted,
    mount_in_time,
    set_mark,
    use_of,
)
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/nfs"
LONGEST_PATH = 4096

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
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
    return [*checked_options(spec, refused=("bg",)), *(("ro",) if of.read_only else ())]


class NFSMounter(PodDirectoryMounter):
    """Mounts the export for the pod. Its files keep their owners, whatever the fsGroup."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run, *, granted: bool) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._mark = mark_of_granted(host, PLUGIN_NAME, spec.name, pod.uid) if granted else None
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
        return await use_of(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if await self._host.mounts.is_mount_point(directory):
            return
        if self._mark is not None:
            await blocking(set_mark, self._mark)
        options = ("-o", ",".join(self._options)) if self._options else ()
        words = ("-t", "nfs", *options, "--", str(self._export))
        what = f"{self._export} of volume {self._name}"
        failed = await mount_in_time(self._host, self._run, words, directory, what)
        if failed is not None:
            raise VolumeError(f"cannot mount {what}: {advice(failed, _ADVICE)}")
        log.info("nfs mounted", volume=self._name, export=str(self._export), path=directory)


class NFSPlugin(GrantedSharePlugin, PersistentVolumePlugin):
    """The plugin."""

    def __init__(self, call: Run = run) -> None:
        self._run = call

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = export(spec)
        return f"{of.server}/{of.path}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> NFSMounter:
        return NFSMounter(self._host, spec, pod, self._run, granted=self.can_attach(spec))

    def new_unmounter(self, spec_name: str, pod_uid: str) -> NetworkUnmounter:
        return NetworkUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, nfs=NFSVolumeSource()))


def plugin() -> NFSPlugin:
    """The factory that the entry point names."""
    return NFSPlugin()
