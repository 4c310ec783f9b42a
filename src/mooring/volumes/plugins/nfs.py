"""`kubernetes.io/nfs`: a directory that a server exports, mounted for each pod by the node's kernel.

Guarantees: server and path are checked before a program gets them (`nfs_source`); those of `network_mount`,
which does the mounting; and on controllers, which make, empty and remove directories of exports, those of
`nfs_directories`.

A PersistentVolume for one node at a time is granted to it first (`volumes.granted`). The storage itself
neither refuses a second node nor revokes one; who may write is the server's to say (docs/plugins.md). Names,
access modes and attributes are those of upstream's plugin.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from mooring.kube.objects import NFSVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.granted import GrantedSharePlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    Attributes,
    DeletableVolumePlugin,
    Metrics,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
    VolumeOptions,
)
from mooring.volumes.matching import capacity
from mooring.volumes.plugins.network_mount import (
    NetworkUnmounter,
    advice,
    mark_of_granted,
    mount_in_time,
    set_mark,
    use_of,
)
from mooring.volumes.plugins.nfs_directories import Directories
from mooring.volumes.plugins.nfs_provisioning import NFSDeleter, NFSProvisioner
from mooring.volumes.plugins.nfs_source import PLUGIN_NAME, Export, export, mount_options, written
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.scrub import may_recycle
from mooring.volumes.spec import VolumeSpec

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
        await blocking(find_tool, "mount.nfs")

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


class NFSPlugin(
    GrantedSharePlugin,
    PersistentVolumePlugin,
    RecyclableVolumePlugin,
    ProvisionableVolumePlugin,
    DeletableVolumePlugin,
):
    """The plugin. Setting `recycle=this-machine`: this machine may mount exports and empty them."""

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

    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None:
        may_recycle(self._host.settings(PLUGIN_NAME), pv_name)
        of = export(spec)
        if of.path.strip("/") == "":
            raise InvalidSpec(f"volume {pv_name} is not recycled: it is all that the server exports")
        assert spec.persistent_volume is not None
        event_recorder("Normal", f"everything in {of} is being removed")
        options = mount_options(spec, Export(of.server, of.path, read_only=False))
        await Directories(self._run).empty(str(of), options, capacity(spec.persistent_volume))

    def new_provisioner(self, options: VolumeOptions) -> NFSProvisioner:
        return NFSProvisioner(Directories(self._run), options)

    def new_deleter(self, spec: VolumeSpec) -> NFSDeleter:
        return NFSDeleter(Directories(self._run), spec)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, nfs=NFSVolumeSource()))


def plugin() -> NFSPlugin:
    """The factory that the entry point names."""
    return NFSPlugin()
