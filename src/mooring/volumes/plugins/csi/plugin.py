"""`kubernetes.io/csi`: volumes of CSI drivers, under upstream's names; and the node's part of their life.

On a node, pods' volumes are staged and published by the driver's node service there. On a controller, each
driver of the settings is a plugin of its own behind this one (`driver`). Settings: `<driver name>:
<address>` for each driver that this process calls (drivers that register with a node agent are added), and
the further names in `drivers`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Node
from mooring.kube.objects import (
    CSIDriver,
    CSIPersistentVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
)
from mooring.volumes.errors import InvalidSpec, PluginError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    BlockVolumePlugin,
    NodeExpandableVolumePlugin,
    PersistentVolumePlugin,
    VolumePlugin,
)
from mooring.volumes.matching import capacity
from mooring.volumes.names import CSI_PLUGIN, csi_volume_name
from mooring.volumes.plugins.csi import vol_data
from mooring.volumes.plugins.csi.driver import CSIDriverPlugin
from mooring.volumes.plugins.csi.drivers import (
    CONTROLLER_TIMEOUT_S,
    NODE_TIMEOUT_S,
    Connect,
    Drivers,
    NodeAbility,
    over_grpc,
)
from mooring.volumes.plugins.csi.growing import growing
from mooring.volumes.plugins.csi.publishing import (
    CSIMounter,
    CSIPodDevice,
    CSIUnmounter,
    Publication,
    published_paths,
)
from mooring.volumes.plugins.csi.source import capability_of, inline, persistent, read_secret
from mooring.volumes.plugins.csi.staging import CSIStager, staging_path, volume_staged_at
from mooring.volumes.spec import VolumeSpec

KnownDrivers = Callable[[str], CSIDriver | None]

REPUBLISH_S = 60.0
"""As often as kubelets look at a pod."""


class CSIPlugin(
    AttachableVolumePlugin, PersistentVolumePlugin, BlockVolumePlugin, NodeExpandableVolumePlugin
):
    """The plugin. `known_drivers` gives the CSIDriver objects of the API server: a node agent sets it."""

    _host: VolumeHost
    drivers_here: Drivers

    def __init__(self, connect: Connect = over_grpc, *, extra_metadata: bool = False) -> None:
        """`extra_metadata`: drivers are given the names of the claim and volume that they make."""
        self._connect = connect
        self._extra_metadata = extra_metadata
        self.known_drivers: KnownDrivers = lambda name: None

    def init(self, host: VolumeHost) -> None:
        self._host = host
        timeout_s = NODE_TIMEOUT_S if host.node_name else CONTROLLER_TIMEOUT_S
        self.drivers_here = Drivers.of_settings(host, self._connect, timeout_s)

    def drivers(self) -> Sequence[VolumePlugin]:
        """On a controller those of the settings."""
        if self._host.node_name:
            return []
        return [CSIDriverPlugin(each, extra_metadata=self._extra_metadata) for each in self.drivers_here]

    # --- names

    def get_plugin_name(self) -> str:
        return CSI_PLUGIN

    def get_driver_name(self, spec: VolumeSpec) -> str:
        return persistent(spec).driver

    def get_volume_name(self, spec: VolumeSpec) -> str:
        source = persistent(spec)
        return csi_volume_name(source.driver, source.volume_handle)

    def can_support(self, spec: VolumeSpec) -> bool:
        in_volume = spec.persistent_volume is not None and spec.persistent_volume.spec.csi is not None
        return in_volume or inline(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")

    def one_at_a_time(self) -> bool:
        """CSI 1.12, "Concurrency": a volume has no more than one call in flight."""
        return True

    def supports_mount_option(self) -> bool:
        return True

    def supports_selinux_mount(self, spec: VolumeSpec) -> bool:
        """Where its CSIDriver says so (`seLinuxMount`); a volume that a pod defines itself has no mount
        options."""
        if spec.persistent_volume is None:
            return False
        known = self.known_drivers(persistent(spec).driver)
        return known is not None and known.spec.se_linux_mount

    # --- abilities

    def can_attach(self, spec: VolumeSpec) -> bool:
        """Whether its CSIDriver asks for attaching; a driver without a CSIDriver does, as in upstream."""
        if spec.persistent_volume is None:
            return False
        known = self.known_drivers(persistent(spec).driver)
        return known is None or known.spec.attach_required

    def can_device_mount(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        """By the CSI specification, ControllerPublishVolume fails for an exclusive volume
        that is published to another node."""
        return AttachCapabilities(refuses=True, revokes=False, multi_attach=True)

    def remount_period(self, spec: VolumeSpec) -> float | None:
        """Drivers that ask for it (`requiresRepublish`) are told of each mounted volume again."""
        source = inline(spec)
        known = self.known_drivers(source.driver if source else persistent(spec).driver)
        return REPUBLISH_S if known is not None and known.spec.requires_republish else None

    # --- once for the node

    def new_attacher(self) -> CSIStager:
        return CSIStager(self.drivers_here, self._host)

    def new_detacher(self) -> CSIStager:
        return CSIStager(self.drivers_here, self._host)

    async def get_device_mount_refs(self, device_mount_path: str) -> Sequence[str]:
        """The mounts of pods: a driver may have mounts of its own."""
        pods = self._host.pod_dir("x").parent
        refs = await self._host.mounts.get_device_mount_refs(device_mount_path)
        return [ref for ref in refs if Path(ref).is_relative_to(pods)]

    def get_volume_name_at(self, device_mount_path: str) -> str | None:
        return volume_staged_at(Path(device_mount_path))

    # --- for a pod

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> CSIMounter:
        return CSIMounter(self._publication(spec, pod), self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> CSIUnmounter:
        return CSIUnmounter(self.drivers_here, self._host, spec_name, pod_uid)

    def _publication(self, spec: VolumeSpec, pod: Pod) -> Publication:
        source = inline(spec)
        known = self.known_drivers(source.driver if source else persistent(spec).driver)
        if source is not None and (known is None or "Ephemeral" not in known.spec.volume_lifecycle_modes):
            raise InvalidSpec(
                f"volume {spec.name} is defined in the pod, but CSIDriver {source.driver} does not have Ephemeral "
                f"among its volumeLifecycleModes: use a PersistentVolumeClaim"
            )
        return Publication(self.drivers_here, self._host, spec, pod, known)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        data = vol_data.load(os.path.dirname(mount_path)) or vol_data.load(mount_path)
        if data is None or data.volume_lifecycle_mode != "Persistent":
            raise InvalidSpec(f"{mount_path} has no {vol_data.NAME} of a PersistentVolume")
        source = CSIPersistentVolumeSource(driver=data.driver_name, volume_handle=data.volume_handle)
        name = data.spec_vol_id or volume_name
        pv = PersistentVolume(metadata=ObjectMeta(name=name), spec=PersistentVolumeSpec(csi=source))
        return VolumeSpec.of_persistent_volume(pv)

    # --- raw devices

    def get_global_map_path(self, spec: VolumeSpec) -> str:
        return staging_path(self._host, spec)

    async def set_up_device(self, spec: VolumeSpec, device_path: str) -> str:
        path = self.get_global_map_path(spec)
        await self.new_attacher().mount_device(spec, device_path, path)
        return path

    async def tear_down_device(self, device_path: str) -> None:
        await self.new_detacher().unmount_device(device_path)

    def new_block_volume_mapper(self, spec: VolumeSpec, pod: Pod) -> CSIPodDevice:
        return CSIPodDevice(self.drivers_here, self._host, spec.name, pod.uid, self._publication(spec, pod))

    def new_block_volume_unmapper(self, spec_name: str, pod_uid: str) -> CSIPodDevice:
        return CSIPodDevice(self.drivers_here, self._host, spec_name, pod_uid, None)

    # --- growing

    async def expand_fs(self, spec: VolumeSpec, device_mount_path: str) -> None:
        source = persistent(spec)
        driver = self.drivers_here.find(source.driver)
        if not await driver.node_can(NodeAbility.EXPAND_VOLUME):
            return
        assert spec.persistent_volume is not None
        staged = await driver.node_can(NodeAbility.STAGE_UNSTAGE_VOLUME)
        several = await driver.node_can(NodeAbility.SINGLE_NODE_MULTI_WRITER)
        paths = published_paths(self._host, spec.name)
        if not (staged or paths):
            raise PluginError(
                f"volume {spec.name} is mounted nowhere on this node: it grows when a pod uses it"
            )
        request = csi.NodeExpandVolumeRequest(
            volume_id=source.volume_handle,
            volume_path=device_mount_path if staged else paths[0],
            capacity_range=csi.CapacityRange(required_bytes=capacity(spec.persistent_volume)),
            staging_target_path=device_mount_path if staged else "",
            volume_capability=capability_of(spec, several_writers=several),
            secrets=await read_secret(self._host, source.node_expand_secret_ref),
        )
        with growing():
            await driver.call(Node.node_expand_volume, request)
