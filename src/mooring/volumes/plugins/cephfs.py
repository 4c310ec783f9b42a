"""`kubernetes.io/cephfs`: a directory of a Ceph file system, mounted for each pod by the node's kernel.

Guarantees: those of `network_mount`; the key is in a file of this node while it is mounted, and in no list of
arguments. Names, defaults and access modes are those of upstream's plugin, which Kubernetes 1.31 removed; the
fields are in its API still.

Many nodes may write; the cluster keeps their views together. It ends the session of a client that says
nothing, and lets it write no more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from mooring.kube.objects import CephFSVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, PersistentVolumePlugin
from mooring.volumes.plugins.ceph.cluster import DEFAULT_USER, Cluster, addresses, cluster, read_key
from mooring.volumes.plugins.network_mount import (
    MOUNT_S,
    SecretUnmounter,
    advice,
    checked_options,
    mount_in_time,
    secret_file,
    use_of,
)
from mooring.volumes.plugins.private_files import remove, write
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/cephfs"
LONGEST_PATH = 4096
OURS = ("name", "secret", "secretfile", "key", "conf", "fsid")
"""Options that say who mounts what: that is in the volume's source."""

_ADVICE = (
    ("error 1 =", "the monitors refuse the user or its key: compare both with `ceph auth get`"),
    ("error 13 =", "the user has no right to that path: look at `ceph auth get`, and at cephfs.path"),
    ("error 2 =", "the file system has no such directory: correct cephfs.path"),
    ("error 22 =", "the kernel does not know one of the mountOptions, or the key cannot be one: correct it"),
    ("error 110 =", "no Ceph monitor answers there: look at the cluster, at the network, and at monitors"),
    (
        "no mds",
        "no monitor or no metadata server of the cluster answers this node: look at `ceph status`, at the "
        "network, and at monitors",
    ),
    ("unknown filesystem", "this node's kernel has no CephFS: modprobe ceph"),
)

log = structlog.get_logger("node-agent")


@dataclass(frozen=True)
class Directory:
    """What a spec names, checked."""

    cluster: Cluster
    path: str
    read_only: bool


def written(spec: VolumeSpec) -> CephFSVolumeSource | None:
    """The `cephfs` source of the spec, unchecked."""
    return spec.definition.cephfs if spec.definition is not None else None


def directory_of(spec: VolumeSpec, pod_namespace: str) -> Directory:
    """Raises InvalidSpec for a spec that is not CephFS's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no cephfs source")
    path = source.path or "/"
    if (
        not path.startswith("/")
        or ".." in path.split("/")
        or len(os.fsencode(path)) > LONGEST_PATH
        or not path.isprintable()
        or ":/" in path
    ):
        raise InvalidSpec(
            f"cephfs.path {path[:100]!a} of volume {spec.name} must be absolute, printable, and without '..' and ':/': "
            f"correct it"
        )
    key_file = source.secret_file or f"/etc/ceph/{source.user or DEFAULT_USER}.secret"
    of = cluster(spec, source, key_file, pod_namespace)
    return Directory(of, path, source.read_only or spec.read_only)


def options(spec: VolumeSpec, of: Directory) -> list[str]:
    """The volume's mountOptions, and ours. Raises InvalidSpec for one that says who mounts."""
    given = checked_options(spec, refused=OURS)
    named = {each.partition("=")[0] for each in ",".join(given).split(",")}
    patience = [] if "mount_timeout" in named else [f"mount_timeout={MOUNT_S / 2:.0f}"]
    return [f"name={of.cluster.user}", *patience, *given, *(("ro",) if of.read_only else ())]


class CephFSMounter(PodDirectoryMounter):
    """Mounts the directory for the pod. Its files keep their owners, whatever the fsGroup."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._of = directory_of(spec, pod.namespace)
        self._options = options(spec, self._of)
        self._key_file = secret_file(host, PLUGIN_NAME, spec.name, pod.uid)
        self._run = call

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._of.read_only, managed=False)

    async def can_mount(self) -> None:
        await blocking(find_tool, "mount.ceph")

    async def get_metrics(self) -> Metrics:
        return await use_of(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        await blocking(remove, self._key_file)  # of an agent that was killed
        if await self._host.mounts.is_mount_point(directory):
            return
        if "," in self._key_file:
            raise VolumeError(
                f"{self._key_file!a} cannot be an option of mount: give the agent another directory"
            )
        key = await read_key(self._host, self._of.cluster)
        source = f"{','.join(await addresses(self._of.cluster))}:{self._of.path}"
        given = ",".join([f"secretfile={self._key_file}", *self._options])
        what = f"{source} of volume {self._name}"
        try:
            await blocking(write, self._key_file, key)
            failed = await mount_in_time(
                self._host, self._run, ("-t", "ceph", "-o", given, "--", source), directory, what
            )
        finally:
            await blocking(remove, self._key_file)
        if failed is not None:
            raise VolumeError(f"cannot mount {what}: {advice(failed, _ADVICE)}")
        log.info("cephfs mounted", volume=self._name, source=source, path=directory)


class CephFSPlugin(PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost

    def __init__(self, call: Run = run) -> None:
        self._run = call

    def init(self, host: VolumeHost) -> None:
        self._host = host

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = directory_of(spec, "")
        return f"{of.cluster}:{of.path}"

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> CephFSMounter:
        return CephFSMounter(self._host, spec, pod, self._run)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> SecretUnmounter:
        return SecretUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, cephfs=CephFSVolumeSource()))


def plugin() -> CephFSPlugin:
    """The factory that the entry point names."""
    return CephFSPlugin()
