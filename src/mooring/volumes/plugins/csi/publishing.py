"""A CSI volume of one pod: NodePublishVolume and NodeUnpublishVolume, for directories and for raw devices.

A directory is published at `<pod>/volumes/kubernetes.io~csi/<volume>/mount`, a device at
`<plugins>/volumeDevices/publish/<volume>/<pod uid>`, to which the pod's link points.
`vol_data.json` is beside the target. The driver makes the target, and Mooring what is above it (CSI
specification, NodePublishVolume).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Node
from mooring.csi.secrets import ACCOUNT_TOKENS
from mooring.kube.objects import CSIDriver, Pod, SecretReference
from mooring.kube.times import format_time
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    Attributes,
    BlockVolumeMapper,
    BlockVolumeUnmapper,
    Metrics,
    Mounter,
    Unmounter,
)
from mooring.volumes.metrics import file_system_metrics
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.ownership import give_to_group, on_root_mismatch
from mooring.volumes.plugins.csi import vol_data
from mooring.volumes.plugins.csi.drivers import Driver, Drivers, NodeAbility
from mooring.volumes.plugins.csi.source import (
    Mode,
    capability,
    capability_of,
    inline,
    inline_handle,
    persistent,
    read_secret,
)
from mooring.volumes.plugins.csi.staging import staging_path
from mooring.volumes.plugins.csi.vol_data import VolumeData
from mooring.volumes.pod_device import PodDevice
from mooring.volumes.spec import VolumeSpec

MOUNT = "mount"
POD_INFO = "csi.storage.k8s.io/"
TOKEN_S = 3600
"""The life of a token for which a CSIDriver says none, in seconds: the API server's default."""


class Publication:
    """One volume for one pod: what is asked of the driver. `known` is the CSIDriver object,
    if there is one."""

    def __init__(
        self, drivers: Drivers, host: VolumeHost, spec: VolumeSpec, pod: Pod, known: CSIDriver | None
    ) -> None:
        self._drivers = drivers
        self._host = host
        self._spec = spec
        self._pod = pod
        self._known = known
        self._inline = inline(spec)

    @property
    def driver(self) -> Driver:
        """Raises NotAsked if it is not on this node."""
        return self._drivers.find(self._inline.driver if self._inline else persistent(self._spec).driver)

    @property
    def read_only(self) -> bool:
        return self._spec.read_only or (self._inline or persistent(self._spec)).read_only

    @property
    def handle(self) -> str:
        return inline_handle(self._pod, self._spec) if self._inline else persistent(self._spec).volume_handle

    async def publish(self, directory: str, target: str, fs_group: int | None) -> None:
        """Writes the file in `directory`, then asks the driver to show the volume at `target`."""
        driver = self.driver
        lifecycle = "Ephemeral" if self._inline else "Persistent"
        data = VolumeData(
            spec_vol_id=self._spec.name,
            volume_handle=self.handle,
            driver_name=driver.name,
            node_name=self._host.node_name,
            volume_lifecycle_mode=lifecycle,
        )
        vol_data.save(directory, data)
        request = await (self._of_pod(target) if self._inline else self._of_volume(target, fs_group))
        await driver.call(Node.node_publish_volume, request)
        if fs_group is not None and not self._spec.block and await self._is_ours_to_give():
            lazy = on_root_mismatch(self._pod)
            await blocking(give_to_group, target, fs_group, on_root_mismatch=lazy)

    async def _of_pod(self, target: str) -> csi.NodePublishVolumeRequest:
        source = self._inline
        assert source is not None
        named = (
            SecretReference(name=source.secret.name, namespace=self._pod.namespace) if source.secret else None
        )
        used = capability(block=False, mode=Mode.SINGLE_NODE_WRITER, fs_type=source.fs_type)
        request = csi.NodePublishVolumeRequest(
            volume_id=self.handle,
            target_path=target,
            volume_capability=used,
            readonly=self.read_only,
            secrets=await read_secret(self._host, named),
            volume_context=source.attributes | self._pod_info(),
        )
        return await self._with_tokens(request)

    async def _of_volume(self, target: str, fs_group: int | None) -> csi.NodePublishVolumeRequest:
        source, driver = persistent(self._spec), self.driver
        staging = staging_path(self._host, self._spec)
        staged = vol_data.load(os.path.dirname(staging))
        if staged is None:
            raise VolumeError(
                f"volume {self._spec.name} is not staged on this node yet: {staging} has no record"
            )
        stages = await driver.node_can(NodeAbility.STAGE_UNSTAGE_VOLUME)
        several = await driver.node_can(NodeAbility.SINGLE_NODE_MULTI_WRITER)
        group = str(fs_group) if fs_group is not None and await self._driver_gives_group() else ""
        request = csi.NodePublishVolumeRequest(
            volume_id=source.volume_handle,
            publish_context=staged.publish_context,
            staging_target_path=staging if stages else "",
            target_path=target,
            volume_capability=capability_of(self._spec, several_writers=several, mount_group=group),
            readonly=self.read_only,
            secrets=await read_secret(self._host, source.node_publish_secret_ref),
            volume_context=source.volume_attributes | self._pod_info(),
        )
        return await self._with_tokens(request)

    async def _with_tokens(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeRequest:
        """Adds the tokens of the pod's service account that its CSIDriver asks for (`tokenRequests`), by
        audience, as kubelets give them: where serviceAccountTokenInSecrets says."""
        if self._known is None or not self._known.spec.token_requests:
            return request
        tokens: dict[str, dict[str, str]] = {}
        for asked in self._known.spec.token_requests:
            seconds = asked.expiration_seconds or TOKEN_S
            made = await self._host.get_token(self._pod, asked.audience, seconds)
            expires = format_time(made.expires)
            tokens[asked.audience] = {"token": made.token, "expirationTimestamp": expires}
        in_secrets = self._known.spec.service_account_token_in_secrets
        given = request.secrets if in_secrets else request.volume_context
        given[ACCOUNT_TOKENS] = msgspec.json.encode(tokens).decode()
        return request

    def _pod_info(self) -> dict[str, str]:
        """The pod of the volume, for drivers whose CSIDriver has podInfoOnMount."""
        if self._known is None or not self._known.spec.pod_info_on_mount:
            return {}
        info = {
            "pod.name": self._pod.name,
            "pod.namespace": self._pod.namespace,
            "pod.uid": self._pod.uid,
            "serviceAccount.name": self._pod.spec.service_account_name or "default",
            "ephemeral": str(self._inline is not None).lower(),
        }
        return {f"{POD_INFO}{key}": value for key, value in info.items()}

    async def _driver_gives_group(self) -> bool:
        return await self.driver.node_can(NodeAbility.VOLUME_MOUNT_GROUP)

    async def _is_ours_to_give(self) -> bool:
        """Whether Mooring gives the files to the pod's group (CSIDriver.spec.fsGroupPolicy)."""
        if self.read_only or await self._driver_gives_group():
            return False
        policy = self._known.spec.fs_group_policy if self._known else "ReadWriteOnceWithFSType"
        if policy != "ReadWriteOnceWithFSType" or self._spec.persistent_volume is None:
            return policy == "File"
        modes = self._spec.persistent_volume.spec.access_modes
        return bool(persistent(self._spec).fs_type) and any(
            mode.startswith("ReadWriteOnce") for mode in modes
        )


class CSIMounter(Mounter):
    """Publishes a directory."""

    def __init__(self, publication: Publication, host: VolumeHost, spec: VolumeSpec, pod: Pod) -> None:
        self._publication = publication
        self._path = str(host.get_pod_volume_dir(pod.uid, CSI_PLUGIN, spec.name) / MOUNT)

    def get_path(self) -> str:
        return self._path

    def get_attributes(self) -> Attributes:
        read_only = self._publication.read_only
        return Attributes(read_only=read_only, managed=not read_only)

    async def set_up(self, fs_group: int | None = None) -> None:
        await self.set_up_at(self._path, fs_group)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        await self._publication.publish(os.path.dirname(directory), directory, fs_group)

    async def get_metrics(self) -> Metrics:
        driver = self._publication.driver
        if not await driver.node_can(NodeAbility.GET_VOLUME_STATS):
            return await blocking(file_system_metrics, self._path)
        request = csi.NodeGetVolumeStatsRequest(volume_id=self._publication.handle, volume_path=self._path)
        return _metrics(await driver.call(Node.node_get_volume_stats, request))


class CSIUnmounter(Unmounter):
    """Takes a directory from a pod."""

    def __init__(self, drivers: Drivers, host: VolumeHost, spec_name: str, pod_uid: str) -> None:
        self._drivers = drivers
        self._host = host
        self._path = str(host.get_pod_volume_dir(pod_uid, CSI_PLUGIN, spec_name) / MOUNT)

    def get_path(self) -> str:
        return self._path

    async def tear_down(self) -> None:
        await self.tear_down_at(self._path)

    async def tear_down_at(self, directory: str) -> None:
        parent = os.path.dirname(directory)
        data = vol_data.load(parent)
        if data is not None:
            request = csi.NodeUnpublishVolumeRequest(volume_id=data.volume_handle, target_path=directory)
            await self._drivers.find(data.driver_name).call(Node.node_unpublish_volume, request)
        elif await self._host.mounts.is_mount_point(directory):
            raise VolumeError(
                f"{parent} has no {vol_data.NAME}: what is mounted there is not known. Unmount it"
            )
        await self._host.mounts.remove_mount_point(directory)
        vol_data.remove(parent)


class CSIPodDevice(BlockVolumeMapper, BlockVolumeUnmapper):
    """A raw device for a pod: a link to where the driver has published it."""

    def __init__(
        self,
        drivers: Drivers,
        host: VolumeHost,
        spec_name: str,
        pod_uid: str,
        publication: Publication | None,
    ) -> None:
        self._drivers = drivers
        self._publication = publication
        self._link = PodDevice(host, CSI_PLUGIN, spec_name, pod_uid)
        self._directory = host.get_plugin_dir(CSI_PLUGIN) / "volumeDevices" / "publish" / spec_name / pod_uid

    def get_pod_device_map_path(self) -> str:
        return self._link.get_pod_device_map_path()

    async def map_pod_device(self, device_path: str) -> None:
        assert self._publication is not None
        target = str(self._directory / "device")
        await self._publication.publish(str(self._directory), target, None)
        await self._link.map_pod_device(target)

    async def unmap_pod_device(self) -> None:
        data = vol_data.load(str(self._directory))
        if data is not None:
            target = str(self._directory / "device")
            request = csi.NodeUnpublishVolumeRequest(volume_id=data.volume_handle, target_path=target)
            await self._drivers.find(data.driver_name).call(Node.node_unpublish_volume, request)
        await self._link.unmap_pod_device()
        vol_data.remove(str(self._directory))
        with contextlib.suppress(OSError):  # another pod has it
            self._directory.parent.rmdir()


def _metrics(answer: csi.NodeGetVolumeStatsResponse) -> Metrics:
    by_unit = {each.unit: each for each in answer.usage}
    space, inodes = by_unit.get(csi.VolumeUsage.BYTES), by_unit.get(csi.VolumeUsage.INODES)
    return Metrics(
        capacity=space.total if space else 0,
        used=space.used if space else 0,
        available=space.available if space else 0,
        inodes=inodes.total if inodes else 0,
        inodes_used=inodes.used if inodes else 0,
        inodes_free=inodes.available if inodes else 0,
    )


def published_paths(host: VolumeHost, spec_name: str) -> list[str]:
    """Returns where the volume is published for pods of this node, as far as the directories show."""
    pods = Path(host.pod_dir("x")).parent
    pattern = f"*/volumes/{host.get_pod_volume_dir('x', CSI_PLUGIN, 'y').parent.name}/{spec_name}/{MOUNT}"
    return sorted(str(path) for path in pods.glob(pattern))
