"""The single operations on a volume, through its plugin: each writes down what it is about to do, then does
it.

Every operation may be repeated after a crash at any point. Raises what the plugin raises (`VolumeError`,
`MountsError` or anything else); what is then known of the mount is in the `WantedVolume`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from mooring.kube.client import Client
from mooring.kube.objects import Pod
from mooring.kube.storage_metrics import operation
from mooring.mounts.interface import Mounts
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.handshake import NotAttachedYet, Permission
from mooring.node.volumes.orphans import OrphanedVolume, remove_orphan
from mooring.node.volumes.records import DeviceRecord, PodRecord, Records, VolumeRecord
from mooring.node.volumes.resizing import grow_file_system
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.volumes.attachment_lock import needs_lock
from mooring.volumes.errors import InvalidSpec, NoPluginMatched, VolumeError
from mooring.volumes.exclusivity import is_exclusive, is_multi_attach_allowed, is_one_pod_only
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    BlockVolumePlugin,
    DeviceMountableVolumePlugin,
    Mounter,
    VolumePlugin,
)
from mooring.volumes.names import split_volume_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.selinux import has_selinux, labelled
from mooring.volumes.spec import VolumeSpec

WAIT_FOR_ATTACH_S = 600.0  # upstream's waitForAttachTimeout

log = structlog.get_logger("node-agent")


class Operations:
    """Mounts and unmounts, and keeps the records true."""

    def __init__(self, plugins: PluginManager, records: Records, mounts: Mounts) -> None:
        self._plugins = plugins
        self._mounts = mounts
        self._records = records

    def empty_record(self, unique_name: str, spec: VolumeSpec) -> VolumeRecord:
        """The record of a volume of which nothing is mounted yet."""
        return VolumeRecord(
            unique_name,
            self._plugins.find_plugin_by_spec(spec).get_plugin_name(),
            attachable=self._plugins.find_attachable_plugin_by_spec(spec) is not None,
            has_device=spec.block or self._plugins.find_device_mountable_plugin_by_spec(spec) is not None,
            block=spec.block,
        )

    def refuse_former(self, volume: WantedVolume, spec: VolumeSpec, pod_uid: str) -> None:
        """Raises VolumeError while the volume is on this node as that of a PersistentVolume which has been
        made anew since, as a device instead of a file system, or for other storage: it is let go first."""
        others = [want.spec.persistent_volume for uid, want in volume.wants.items() if uid != pod_uid]
        uid = spec.persistent_volume.uid if spec.persistent_volume is not None else ""
        left = volume.record.device is not None and not (volume.wants or pod_uid in volume.adopted)
        another = left or any(each is not None and each.uid != uid for each in others)
        named = self._plugins.find_plugin_by_spec(spec).is_named_by_object()
        if volume.record.block != spec.block or (named and another):
            raise VolumeError(
                f"volume {spec.name} is still on this node as former pods had it: it is let go first"
            )

    def is_read_only(self, spec: VolumeSpec, pod: Pod) -> bool:
        """Whether the pod's containers may only read the volume. Its mount on the node alone does not see to
        that: a driver makes it read-only in a second step, which no other mount namespace is told of."""
        if spec.block:
            return False
        return self._plugins.find_plugin_by_spec(spec).new_mounter(spec, pod).get_attributes().read_only

    def is_exclusive(self, spec: VolumeSpec) -> bool:
        """Whether one node at a time may have the volume."""
        plugin = self._plugins.find_attachable_plugin_by_spec(spec)
        if plugin is None:
            return not is_multi_attach_allowed(spec)
        return is_exclusive(spec, plugin.capabilities(spec))

    def one_at_a_time(self, volume: WantedVolume) -> bool:
        """Whether the volume's driver takes one call for it after the other."""
        try:
            return self._plugins.find_plugin_by_name(volume.record.plugin).one_at_a_time()
        except NoPluginMatched:  # a driver of a folder that has gone
            return False

    def requires_remount(self, volume: WantedVolume) -> bool:
        """Whether what the volume shows follows something, so that it must be set up once more after a
        change."""
        return self._plugins.find_plugin_by_name(volume.record.plugin).requires_remount()

    def remount_period(self, volume: WantedVolume, want: Want) -> float | None:
        """After how many seconds the pod's volume is set up again, because it ages; None: never."""
        try:
            return self._plugins.find_plugin_by_name(volume.record.plugin).remount_period(want.spec)
        except NoPluginMatched:  # a driver of a folder that has gone
            return None

    def grows(self, spec: VolumeSpec) -> bool:
        """Whether this node has a part in it when the volume grows: a volume without a claim never does."""
        plugin = self._plugins.find_node_expandable_plugin_by_spec(spec)
        claimed = spec.persistent_volume is not None and spec.persistent_volume.spec.claim_ref is not None
        return claimed and not spec.block and plugin is not None

    async def grow(self, client: Client, volume: WantedVolume) -> str | None:
        """Grows the mounted file system if the claim asks for it; the new size if it has grown."""
        spec = next((want.spec for want in volume.wants.values()), None)
        device = volume.record.device
        if spec is None or device is None:
            return None
        plugin = self._plugins.find_node_expandable_plugin_by_spec(spec)
        return await grow_file_system(client, plugin, spec, device.mount_path) if plugin is not None else None

    async def mount_device(self, volume: WantedVolume, permission: Permission | None) -> None:
        """Finds the device, verifies that it is the volume's, mounts it."""
        want = next((want for want in volume.wants.values() if want.starting), None)
        if want is None:
            return
        spec = msgspec.structs.replace(want.spec, epoch=permission.epoch) if permission else want.spec
        if volume.record.block:
            await self._set_up_device(volume, spec, permission)
            return
        plugin = self._device_plugin(volume)
        _refuse_mount_options(spec, plugin)
        device_path = await self._attached_device(plugin, spec, permission) if permission else ""
        mounter = plugin.new_device_mounter()
        path = mounter.get_device_mount_path(spec)
        self._save(volume, device=_about_to_be(volume.record.device, path, permission))
        volume.device = Presence.UNCERTAIN
        spec = _labelled(plugin, spec, want.pod)
        with operation(volume.record.plugin, "mount_device"):
            await mounter.mount_device(spec, device_path, path)
        self._save(volume, device=_device_record(path, permission))
        volume.device = Presence.PRESENT
        volume.to_grow = self.grows(spec)
        log.info("device mounted", volume=volume.record.unique_name, device=device_path, path=path)

    async def _set_up_device(
        self, volume: WantedVolume, spec: VolumeSpec, permission: Permission | None
    ) -> None:
        """Finds the device that pods get as it is; nothing is mounted. What is known of one that was set up
        before stays known."""
        plugin, former = self._block_plugin(volume), volume.record.device
        device_path = await self._attached_device(plugin, spec, permission) if permission else ""
        path = former.mount_path if former is not None else plugin.get_global_map_path(spec)
        self._save(volume, device=_about_to_be(former, path, permission))
        volume.device = Presence.UNCERTAIN
        with operation(volume.record.plugin, "map_device"):
            device = await plugin.set_up_device(spec, device_path)
        self._save(volume, device=_device_record(device, permission))
        volume.device = Presence.PRESENT
        log.info("device set up", volume=volume.record.unique_name, device=device)

    async def attach(self, volume: WantedVolume, node_name: str, node_uid: str) -> Permission:
        """Attaches the volume to this node, where no controller does it. It is written down first. Raises
        InvalidSpec where only the controller's lock would keep a second node from it."""
        spec = next(want.spec for want in volume.wants.values())
        plugin = self._plugins.find_attachable_plugin_by_spec(spec)
        assert plugin is not None
        capabilities = plugin.capabilities(spec)
        if needs_lock(capabilities, exclusive=is_exclusive(spec, capabilities)):
            raise InvalidSpec(
                f"the storage of volume {spec.name} does not refuse a second node, and this node agent attaches for "
                f"itself: use a node whose volumes the attach/detach controller attaches"
            )
        self._save(volume, attached_here=True)
        volume.device = Presence.UNCERTAIN if volume.device is Presence.ABSENT else volume.device
        with operation(volume.record.plugin, "volume_attach"):
            attachment = await plugin.new_attacher().attach(spec, node_name)
        log.info("attached by this node", volume=volume.record.unique_name, attachment=dict(attachment))
        return Permission(attachment, "", node_uid)

    async def unmount_device(self, volume: WantedVolume, node_name: str) -> None:
        """Unmounts the device, when nothing else shows it any more; detaches it if this agent has attached
        it. Unless that succeeds it is not known whether it is still mounted: a plugin whose call timed out
        may go on."""
        device = volume.record.device
        if device is not None:
            self._save(volume, device=msgspec.structs.replace(device, leaving=True))
            volume.device = Presence.UNCERTAIN
            try:
                with operation(
                    volume.record.plugin, "unmap_device" if volume.record.block else "unmount_device"
                ):
                    await self._release(volume, device)
            except NoPluginMatched as missing:
                await remove_orphan(device.mount_path, missing, self._mounts)
        self._save(volume, device=None)
        if volume.record.attached_here:
            await self._detach(volume, node_name)
        volume.device, volume.stale = Presence.ABSENT, False
        log.info(
            "device released", volume=volume.record.unique_name, path=device.mount_path if device else ""
        )

    async def _detach(self, volume: WantedVolume, node_name: str) -> None:
        try:
            plugin = self._plugins.find_attachable_plugin_by_name(volume.record.plugin)
        except NoPluginMatched as missing:
            text = f"{missing}; this node has attached {volume.record.unique_name}: install the plugin, to detach it"
            raise OrphanedVolume(text) from missing
        if plugin is None:
            raise VolumeError(f"volume plugin {volume.record.plugin} cannot detach volumes any more")
        name = split_volume_name(volume.record.unique_name)[1]
        with operation(volume.record.plugin, "volume_detach"):
            await plugin.new_detacher().detach(name, node_name)
        self._save(volume, attached_here=False)
        log.info("detached by this node", volume=volume.record.unique_name)

    async def _release(self, volume: WantedVolume, device: DeviceRecord) -> None:
        if volume.record.block:
            await self._block_plugin(volume).tear_down_device(device.mount_path)
            return
        plugin = self._device_plugin(volume)
        references = await plugin.get_device_mount_refs(device.mount_path)
        if references:
            raise VolumeError(
                f"device of {volume.record.unique_name} is still mounted at {', '.join(references)}: unmount it there"
            )
        await plugin.new_device_unmounter().unmount_device(device.mount_path)

    async def set_up(self, volume: WantedVolume, pod_uid: str) -> None:
        """Gives the volume to one pod. A remount that fails leaves what the pod has."""
        want = volume.wants.get(pod_uid)
        if want is None:
            return
        plugin = self._plugins.find_plugin_by_name(volume.record.plugin)
        self._refuse(volume, want, plugin)
        path, set_up = await self._way_to_pod(volume, want, plugin)
        if pod_uid not in volume.wants or not want.starting:
            return
        self._refuse(volume, want, plugin)  # another pod's may have begun meanwhile
        first = volume.pods.get(pod_uid) is not Presence.PRESENT
        self._save_pod(volume, want, path, unfinished=first)
        volume.outdated.discard(pod_uid)
        volume.pods.setdefault(pod_uid, Presence.UNCERTAIN)
        try:
            with operation(volume.record.plugin, "map_volume" if volume.record.block else "volume_mount"):
                await set_up()
            if first:
                self._save_pod(volume, want, path)
        except Exception:
            volume.outdated.add(pod_uid)
            raise
        volume.pods[pod_uid] = Presence.PRESENT
        volume.set_up_at[pod_uid] = asyncio.get_running_loop().time()
        log.info("volume set up", volume=volume.record.unique_name, pod=want.pod.key, path=path)

    async def _way_to_pod(
        self, volume: WantedVolume, want: Want, plugin: VolumePlugin
    ) -> tuple[str, Callable[[], Awaitable[None]]]:
        """Where the pod finds the volume, and what puts it there."""
        if volume.record.block:
            mapper = self._block_plugin(volume).new_block_volume_mapper(want.spec, want.pod)
            device = volume.record.device
            assert device is not None
            return mapper.get_pod_device_map_path(), lambda: mapper.map_pod_device(device.mount_path)
        mounter = plugin.new_mounter(_labelled(plugin, want.spec, want.pod), want.pod)
        await self._can_mount(mounter, want)
        context = want.pod.spec.security_context
        return mounter.get_path(), lambda: mounter.set_up(context.fs_group if context else None)

    async def limit_exceeded(self, volume: WantedVolume, want: Want) -> str | None:
        """Why the pod must go for what it has put into the volume, which has no device, or None."""
        plugin = self._plugins.find_plugin_by_name(volume.record.plugin)
        return await plugin.new_mounter(want.spec, want.pod).limit_exceeded()

    async def tear_down(self, volume: WantedVolume, pod_uid: str) -> None:
        """Takes the volume from one pod."""
        record = msgspec.structs.replace(volume.record.pods[pod_uid], leaving=True)
        with contextlib.suppress(OSError):  # on a disk that is full: this is what makes room
            self._save(volume, pods={**volume.record.pods, pod_uid: record})
        volume.pods[pod_uid] = Presence.UNCERTAIN
        try:
            with operation(volume.record.plugin, "unmap_volume" if volume.record.block else "volume_unmount"):
                await self._take_from_pod(volume, record, pod_uid)
        except NoPluginMatched as missing:
            await remove_orphan(record.path, missing, self._mounts)
        self._save(volume, pods={uid: pod for uid, pod in volume.record.pods.items() if uid != pod_uid})
        volume.pods.pop(pod_uid, None)
        volume.set_up_at.pop(pod_uid, None)
        volume.outdated.discard(pod_uid)
        log.info("volume torn down", volume=volume.record.unique_name, pod_uid=pod_uid, path=record.path)

    async def _take_from_pod(self, volume: WantedVolume, record: PodRecord, pod_uid: str) -> None:
        if volume.record.block:
            unmapper = self._block_plugin(volume).new_block_volume_unmapper(record.spec_name, pod_uid)
            await unmapper.unmap_pod_device()
        else:
            plugin = self._plugins.find_plugin_by_name(volume.record.plugin)
            await plugin.new_unmounter(record.spec_name, pod_uid).tear_down()

    def _save(self, volume: WantedVolume, **changes: object) -> None:
        record = msgspec.structs.replace(volume.record, **changes)
        self._records.save(record)
        volume.record = record

    def _save_pod(self, volume: WantedVolume, want: Want, path: str, *, unfinished: bool = False) -> None:
        pod = PodRecord(want.spec.name, path, unfinished)
        self._save(volume, pods={**volume.record.pods, want.pod.uid: pod})

    def _device_plugin(self, volume: WantedVolume) -> DeviceMountableVolumePlugin:
        plugin = self._plugins.find_device_mountable_plugin_by_name(volume.record.plugin)
        if plugin is None:
            raise VolumeError(
                f"volume plugin {volume.record.plugin} cannot mount devices any more: install its version"
            )
        return plugin

    def _block_plugin(self, volume: WantedVolume) -> BlockVolumePlugin:
        plugin = self._plugins.find_plugin_by_name(volume.record.plugin)
        if not isinstance(plugin, BlockVolumePlugin):
            raise InvalidSpec(
                f"plugin {volume.record.plugin} cannot give pods raw devices: use volumeMode Filesystem"
            )
        return plugin

    async def _attached_device(self, plugin: VolumePlugin, spec: VolumeSpec, permission: Permission) -> str:
        if not isinstance(plugin, AttachableVolumePlugin):
            raise NotAttachedYet(f"volume plugin {plugin.get_plugin_name()} has no attachable volumes")
        attacher = plugin.new_attacher()
        device_path = await attacher.wait_for_attach(spec, permission.attachment, WAIT_FOR_ATTACH_S)
        await attacher.verify_device(spec, device_path)
        return device_path

    async def _can_mount(self, mounter: Mounter, want: Want) -> None:
        """Nothing is tried on a node that lacks what it takes; the pod's event says what that is."""
        try:
            await mounter.can_mount()
        except Exception as error:
            raise VolumeError(
                f"this node lacks what it takes to mount volume {want.spec.name}: {error}"
            ) from error

    def _refuse(self, volume: WantedVolume, want: Want, plugin: VolumePlugin) -> None:
        """What must not be mounted for this pod, whatever the plugin can do."""
        _refuse_mount_options(want.spec, plugin)
        holder = next((uid for uid in sorted(volume.pods) if uid != want.pod.uid), None)
        if holder is not None and is_one_pod_only(want.spec):
            other = volume.wants.get(holder)
            raise VolumeError(
                "volume uses the ReadWriteOncePod access mode and is already in use by another pod: "
                f"{other.pod.key if other is not None else 'one that has gone, and whose mount is still there'}"
            )


def _device_record(path: str, permission: Permission | None) -> DeviceRecord:
    if permission is None:
        return DeviceRecord(path)
    return DeviceRecord(path, permission.attachment_uid, permission.node_uid)


def _about_to_be(former: DeviceRecord | None, path: str, permission: Permission | None) -> DeviceRecord:
    """The record before a mount, which has not succeeded yet. An unmount that has begun, and was not
    answered, may go on until it has: an agent that starts meanwhile must know."""
    leaving = former is not None and former.leaving
    return msgspec.structs.replace(_device_record(path, permission), leaving=leaving, unfinished=True)


def _labelled(plugin: VolumePlugin, spec: VolumeSpec, pod: Pod) -> VolumeSpec:
    """The spec with the pod's SELinux label, where plugin and kernel have it."""
    return labelled(spec, pod) if plugin.supports_selinux_mount(spec) and has_selinux() else spec


def _refuse_mount_options(spec: VolumeSpec, plugin: VolumePlugin) -> None:
    if spec.mount_options and not plugin.supports_mount_option():
        options = ", ".join(spec.mount_options)
        raise InvalidSpec(f"plugin {plugin.get_plugin_name()} cannot honour the mount options {options}")
