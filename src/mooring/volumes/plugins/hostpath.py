"""`kubernetes.io/host-path`: a file, directory or device of the node as it is; nothing is
mounted for the pod.

The types are those of Kubernetes: with one, what is there must be of that type, or is made ("...OrCreate").
Without one anything is taken, and a directory is made where nothing is.
Recycling empties the directory of a PersistentVolume, on the machine of the controller that does it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

from mooring.kube.objects import HostPathVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    Attributes,
    Metrics,
    MetricsNotSupported,
    Mounter,
    PersistentVolumePlugin,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
    Unmounter,
)
from mooring.volumes.metrics import file_system_metrics
from mooring.volumes.scrub import may_recycle, scrub
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/host-path"

IS_OF_TYPE: dict[str, Callable[[int], bool]] = {
    "DirectoryOrCreate": stat.S_ISDIR,
    "Directory": stat.S_ISDIR,
    "FileOrCreate": stat.S_ISREG,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def check_host_path(path: str, kind: str) -> None:
    """Raises InvalidSpec for a type or path that cannot be, and VolumeError if what is at `path`
    is not of type `kind`, after it was made where the type says so. The empty type takes whatever
    is there, or nothing. Blocking."""
    if not os.path.isabs(path) or ".." in path.split("/"):
        raise InvalidSpec(f"hostPath {path!r} must be absolute and without '..'")
    if not kind:
        return
    if kind not in IS_OF_TYPE:
        raise InvalidSpec(f"hostPath {path} has type {kind!r}: choose one of {', '.join(IS_OF_TYPE)}")
    if kind.endswith("OrCreate") and not os.path.lexists(path):
        _create(path, kind)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        what = f"hostPath type check failed: {path} does not exist on this node, and must be a {kind}"
        raise VolumeError(what) from None
    if not IS_OF_TYPE[kind](mode):
        raise VolumeError(f"hostPath type check failed: {path} is not a {kind} on this node")


def _create(path: str, kind: str) -> None:
    if kind == "DirectoryOrCreate":
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


class HostPathMounter(Mounter):
    """Checks that the path is what the pod expects. The node's content keeps its owner,
    whatever the fsGroup."""

    def __init__(self, source: HostPathVolumeSource, read_only: bool) -> None:
        self._source = source
        self._read_only = read_only

    def get_path(self) -> str:
        return self._source.path

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._read_only, managed=False)

    async def get_metrics(self) -> Metrics:
        if not os.path.isdir(self._source.path):
            raise MetricsNotSupported(
                f"hostPath {self._source.path} is not a directory: it has no use of its own"
            )
        return await blocking(file_system_metrics, self._source.path)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self._source.path, fs_group)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        await blocking(check_host_path, directory, self._source.type or "")
        if not os.path.lexists(directory):
            # As the container runtime does where the kubelet checks nothing.
            await blocking(_create, directory, "DirectoryOrCreate")


class HostPathUnmounter(Unmounter):
    """Does nothing: no mount was made."""

    def get_path(self) -> str:
        return ""

    async def tear_down(self) -> None:
        return

    async def tear_down_at(self, directory: str) -> None:
        return


class HostPathPlugin(PersistentVolumePlugin, RecyclableVolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return _source(spec).path

    def can_support(self, spec: VolumeSpec) -> bool:
        return _find(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce",)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> HostPathMounter:
        return HostPathMounter(_source(spec), spec.read_only)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> HostPathUnmounter:
        return HostPathUnmounter()

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, host_path=HostPathVolumeSource(path=mount_path)))

    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None:
        may_recycle(self._host.settings(PLUGIN_NAME), pv_name)
        await scrub(_source(spec).path, pv_name, event_recorder)


def _find(spec: VolumeSpec) -> HostPathVolumeSource | None:
    return spec.definition.host_path if spec.definition is not None else None


def _source(spec: VolumeSpec) -> HostPathVolumeSource:
    found = _find(spec)
    if found is None:
        raise InvalidSpec(f"volume {spec.name} is not a hostPath")
    return found


def plugin() -> HostPathPlugin:
    """The factory that the entry point names."""
    return HostPathPlugin()
