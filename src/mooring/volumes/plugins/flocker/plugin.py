"""The plugin `kubernetes.io/flocker`: a dataset that Flocker moves to the node, bound into each pod.

Guarantees: a dataset is shown to a pod only while Flocker has it mounted on this node, never the node's own
directory in its place; a PersistentVolume is granted to one node first (`volumes.granted`), so that no
dataset is moved away under another node's pods. Setting `controlService`: `HOST:PORT`; and `control.FILES`.

The storage neither refuses a second node nor revokes one: it obeys the last that asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from mooring.kube.objects import FlockerVolumeSource, Node, Pod, Volume
from mooring.volumes.errors import VolumeError
from mooring.volumes.granted import GrantedSharePlugin
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, PersistentVolumePlugin
from mooring.volumes.plugins.flocker.control import Control, api
from mooring.volumes.plugins.flocker.source import Dataset, dataset, written
from mooring.volumes.pod_directory import BindMounter, BindUnmounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/flocker"
DATASETS = Path("/flocker")
"""Where Flocker mounts a node's datasets, each at its UUID."""

log = structlog.get_logger("node-agent")


class FlockerMounter(BindMounter):
    """Has the dataset moved here, and shows it to the pod."""

    def __init__(
        self, host: VolumeHost, spec: VolumeSpec, pod: Pod, control: Control, datasets: Path
    ) -> None:
        self._wanted: Dataset = dataset(spec)
        super().__init__(host, PLUGIN_NAME, spec, pod, "", self._wanted.read_only)
        self._control, self._datasets = control, datasets

    def get_attributes(self) -> Attributes:
        return Attributes(read_only=self._read_only, managed=not self._read_only)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        if await self._host.mounts.is_mount_point(directory):
            return  # whether the service answers or not
        uuid = await self._control.bring(self._wanted, await self._addresses())
        self._device_mount_path = str(self._datasets / uuid)
        if not await self._host.mounts.is_mount_point(self._device_mount_path):
            raise VolumeError(
                f"{self._wanted} is on this node by Flocker's word, and is not mounted at {self._device_mount_path}: "
                f"look at flocker-dataset-agent here. It is tried again"
            )
        await super().set_up_at(directory, fs_group)
        log.info("flocker dataset bound", volume=self._name, dataset=uuid, path=directory)

    async def _addresses(self) -> list[str]:
        """Those by which Flocker may know this node."""
        node = await self._host.objects.find(Node, self._host.node_name)
        told = node.status.addresses if node is not None else ()
        return [
            each["address"] for each in told if each.get("type", "").endswith("IP") and each.get("address")
        ]


class FlockerPlugin(GrantedSharePlugin, PersistentVolumePlugin):
    """The plugin."""

    _control: Control

    def __init__(self, control: Control | None = None, datasets: Path = DATASETS) -> None:
        self._given, self._datasets = control, datasets

    def init(self, host: VolumeHost) -> None:
        super().init(host)
        self._control = self._given or Control(api(host.settings(PLUGIN_NAME)))

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        of = dataset(spec)
        return of.uuid or of.name

    def can_support(self, spec: VolumeSpec) -> bool:
        return written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod")

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> FlockerMounter:
        return FlockerMounter(self._host, spec, pod, self._control, self._datasets)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> BindUnmounter:
        return BindUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        source = FlockerVolumeSource(dataset_name=volume_name)
        return VolumeSpec.of_volume(Volume(name=volume_name, flocker=source))


def plugin() -> FlockerPlugin:
    """The factory that the entry point names."""
    return FlockerPlugin()
