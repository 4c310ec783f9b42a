"""Makes the volumes of this node what its pods want: reconstructs, mounts, unmounts, says what is in use.

`decide` says what to do next about one volume; here it is done. Guarantees:
- Operations on several volumes are concurrent, and so are those on one volume for several pods, unless its
  driver takes one call at a time; nothing else is done to a volume while its device is mounted or unmounted.
- What fails is tried again after its backoff (500 ms, doubling to 2 min 2 s), which is each pod's own, or as
  soon as something changes; the pods concerned get a FailedMount event.
- What may be mounted is written down before it is mounted, and until it is unmounted (`records`).
- A volume is in `volumes_in_use()` from the time a pod wants it until its device is unmounted and no pod
  wants it.

It must not know containers: the pod worker says which pods want a volume, and until when.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, assert_never

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import KubeError, ServerError, Unreachable
from mooring.kube.objects import Node, Pod
from mooring.kube.reason import Reason
from mooring.kube.workqueue import WorkQueue
from mooring.mounts.interface import Mounts
from mooring.node.volumes import handshake, orphans
from mooring.node.volumes.content import ContentWatches
from mooring.node.volumes.decide import Action, Decision, PodVolumes, decide
from mooring.node.volumes.eviction import Evictions
from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.operations import Operations
from mooring.node.volumes.orphans import OrphanedVolume
from mooring.node.volumes.pod_reports import PodReports, Report
from mooring.node.volumes.reconstruction import reconstruct
from mooring.node.volumes.records import Records
from mooring.node.volumes.volume import WAITING, PodOperation, Want, WantedVolume
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.interfaces import Volume
from mooring.volumes.names import VOLUMES_ATTACHED_WRITE
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

WORKERS = 32
LOOK_AGAIN_S = 1.0

log = structlog.get_logger("node-agent")


class Publisher(Protocol):
    """What is needed of `mooring.node.registration`."""

    @property
    def uid(self) -> str: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def node(self) -> Node | None: ...
    def published(self, volume: str) -> bool: ...
    async def publish(self) -> None: ...


class VolumeManager:
    """The volumes of one node. `pod_changed(uid)` is called when `state(uid)` may have changed. `attaches`:
    this node attaches and detaches its volumes itself, and waits for no controller. `alone`: there is no API
    server."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        root: Path,
        plugins: PluginManager,
        mounts: Mounts,
        *,
        report: Report,
        pod_changed: Callable[[str], None],
        content: ContentWatches,
        attaches: bool,
        alone: bool,
    ) -> None:
        self._client = client
        self._attaches = attaches
        self._alone = alone
        self._node_name = node_name
        self._root = root
        self._plugins = plugins
        self._mounts = mounts
        self._records = Records(root)
        self._operations = Operations(plugins, self._records, mounts)
        self._report = report
        self._pod_changed = pod_changed
        self._content = content
        self._known = NodeVolumes(node_name)
        self._evictions = Evictions(self._operations, self._known.volumes, self._evict)
        self._queue: WorkQueue[str] = WorkQueue()
        self._for_pods: WorkQueue[tuple[str, str]] = WorkQueue()
        """Volume and pod, for which an operation is under way."""
        self._reports = PodReports(report, pod_changed, self._queue.add_after)
        self._publisher: Publisher
        self._reconstructed = False

    # --- what others ask

    def volumes_in_use(self) -> tuple[str, ...]:
        """The unique names for the Node's `volumesInUse`."""
        return self._known.in_use()

    def volumes_awaited(self) -> dict[str, int]:
        """Of those the ones that were taken from this node by force and are not mounted any more, for the
        Node."""
        return self._known.awaited()

    def remembered(self) -> Mapping[str, WantedVolume] | None:
        """What is known of each volume of this node, by its unique name; None: nothing yet."""
        return self._known.volumes if self._reconstructed else None

    def drained(self) -> Awaitable[None]:
        """Returns when nothing of any volume is left on this node."""
        return self._known.drained()

    def pods(self) -> list[str]:
        """The pods that want, or hold, any volume."""
        return self._known.pods()

    def mounted(self) -> list[tuple[Pod, str, Volume]]:
        """Each pod's volumes that are set up, with their names in the pod, as their plugins have them."""
        found: list[tuple[Pod, str, Volume]] = []
        for volume, want in self._known.set_up():
            with contextlib.suppress(VolumeError):  # its plugin has gone: a driver of a folder
                plugin = self._plugins.find_plugin_by_name(volume.record.plugin)
                found += [(want.pod, name, plugin.new_mounter(want.spec, want.pod)) for name in want.names]
        return found

    def state(self, pod_uid: str) -> PodVolumes:
        """What the pod has, and what it waits for."""
        return self._known.state(pod_uid, self._evictions.reason(pod_uid))

    def sharers(self, pod_uid: str) -> set[str]:
        """The other pods that have, or may have, one of the pod's volumes which one node alone may have."""
        return {
            other
            for volume in self._known.of(pod_uid)
            if (want := volume.wants.get(pod_uid)) is not None and self._operations.is_exclusive(want.spec)
            for other in volume.pods
            if other != pod_uid
        }

    def supports(self, spec: VolumeSpec) -> bool:
        """Whether a plugin of this node has the volume as it is written. Then it is not its CSI driver's."""
        return any(plugin.can_support(spec) for plugin in self._plugins.plugins)

    def want(self, pod: Pod, specs: Mapping[str, VolumeSpec]) -> None:
        """The pod shall have these volumes, by their names in the pod. Raises `VolumeError` if no plugin has
        one."""
        names = {name: self._plugins.unique_volume_name(spec, pod.uid) for name, spec in specs.items()}
        wishes = [self._wish(pod, each, names, specs) for each in dict.fromkeys(names.values())]
        self._known.wanting(pod.uid)  # nothing of it is refused any more
        for volume, want in wishes:
            unique_name = volume.record.unique_name
            self._known.want(volume, want)
            volume.rouse(pod.uid)
            self._evictions.look_at(volume)
            self._content.follow(pod, want.spec, unique_name, self._operations.grows(want.spec))
            self._queue.add(unique_name)

    def _wish(
        self, pod: Pod, unique_name: str, names: Mapping[str, str], specs: Mapping[str, VolumeSpec]
    ) -> tuple[WantedVolume, Want]:
        """The volume of that unique name, as the pod wants it. Raises VolumeError if it cannot have it."""
        own = tuple(name for name, other in names.items() if other == unique_name)
        read_only = frozenset(name for name in own if self._operations.is_read_only(specs[name], pod))
        # There is one mount for all of its names: to be written if by any it is.
        spec = specs[min(own, key=lambda name: name in read_only)]
        known = self._known.volumes.get(unique_name)
        if known is not None:
            self._operations.refuse_former(known, spec, pod.uid)
        volume = known or WantedVolume(self._operations.empty_record(unique_name, spec))
        self._can_be_attached(volume, own)
        return volume, Want(pod, own, spec, _now(), read_only)

    def _can_be_attached(self, volume: WantedVolume, names: Sequence[str]) -> None:
        if self._alone and not self._attaches and volume.record.attachable:
            raise InvalidSpec(
                f"volume {', '.join(names)}: without an API server no controller attaches it. Start the agent with "
                "--enable-controller-attach-detach=false: then it attaches by itself"
            )

    def terminating(self, pod_uid: str) -> None:
        """The pod keeps what it has and gets nothing new."""
        # Less is to be done than before: no volume needs to be looked at.
        for volume in self._known.of(pod_uid):
            if (want := volume.wants.get(pod_uid)) is not None:
                want.starting = False

    def release(self, pod_uid: str) -> None:
        """The pod's processes are gone: its volumes are to be unmounted."""
        for volume in self._known.release(
            pod_uid
        ):  # others are being torn down, at the pace of their backoff
            unique_name = volume.record.unique_name
            self._content.unfollow(pod_uid, unique_name)
            if not volume.holds(pod_uid):
                self._forget_pod(pod_uid, unique_name)
            self._queue.add(unique_name)

    def content_changed(self, pod_uid: str, unique_name: str) -> None:
        """What the volume shows (a ConfigMap, a Secret) has changed: it is set up once more for the pod. Or
        its claim has: its file system may have to grow."""
        volume = self._known.volumes.get(unique_name)
        if volume is None or pod_uid not in volume.wants:
            return
        if self._operations.requires_remount(volume):
            volume.outdated.add(pod_uid)
        volume.rouse(pod_uid)
        volume.to_grow = self._operations.grows(volume.wants[pod_uid].spec)
        self._queue.add(unique_name)

    def plugin_changed(self, plugin: str) -> None:
        """What the plugin says of its volumes may have changed: they are looked at."""
        for unique_name, volume in self._known.volumes.items():
            if volume.record.plugin == plugin:
                for pod_uid in volume.operations:
                    volume.rouse(pod_uid)
                self._queue.add(unique_name)

    def pod_updated(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was written: its volumes may show its labels and annotations."""
        if new is None:
            if old is not None:
                self.terminating(old.uid)
                self._evictions.forget(old.uid)
            return
        for volume in self._known.of(new.uid):
            want = volume.wants.get(new.uid)
            if want is not None:
                before, want.pod = want.pod.metadata, new
                if (before.labels, before.annotations) != (new.metadata.labels, new.metadata.annotations):
                    self.content_changed(new.uid, volume.record.unique_name)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Our Node has changed: looks at the volumes that this concerns."""
        before, after = _reported(old), _reported(new)
        unreported = _write_token(old) != _write_token(new) or (old and old.uid) != (new and new.uid)
        for unique_name, volume in self._known.volumes.items():
            held = volume.busy or volume.record.device is not None
            attached_for_us = volume.record.attachable and not self._attaches
            if held and attached_for_us and (unreported or unique_name not in after):
                volume.unverified = True
            if unreported or (unique_name in before) != (unique_name in after):
                self._queue.add(unique_name)

    # --- running

    async def reconstruct(self) -> None:
        """Finds what earlier agents left mounted. Needs no API server; nothing is mounted or unmounted by
        it."""
        table = await self._mounts.mount_table()
        points = {mount.mount_point for mount in table}
        found = await reconstruct(self._root, self._plugins, self._records.load(), table)
        for record in found.values():
            self._known.found(record, points)
        self._reconstructed = True
        log.info("reconstructed", volumes=len(found), in_use=self.volumes_in_use())

    async def run(self, publisher: Publisher) -> None:
        """Works until cancelled. Only after the Node is registered and the first list of pods has arrived."""
        self._publisher = publisher
        for unique_name in self._known.volumes:
            self._queue.add(unique_name)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._evictions.run())
            group.create_task(self._for_pods.run(WORKERS, self._operate))
            group.create_task(self._queue.run(WORKERS, self._reconcile))

    def _evict(self, pod: Pod, why: Reason) -> None:
        self._report(pod, "Warning", *why)
        self._pod_changed(pod.uid)

    async def _reconcile(self, unique_name: str) -> None:
        while (volume := self._known.volumes.get(unique_name)) is not None:
            await self._verify(volume)
            self._age(volume)
            decision = decide(
                volume.state(
                    published=self._publisher.published(unique_name),
                    reported=self._listed(volume),
                    now=_now(),
                    one_at_a_time=self._operations.one_at_a_time(volume),
                )
            )
            try:
                if not await self._take(volume, decision):
                    return
            except (handshake.NotAttachedYet, Unreachable, ServerError) as error:  # not about the volume
                self._reports.waiting(volume, decision, str(error))
                self._queue.add_after(unique_name, LOOK_AGAIN_S)
                return
            except OrphanedVolume as error:
                self._tell_orphan(volume, str(error))
                return
            except Exception as error:
                log.warning(
                    "volume operation failed",
                    volume=unique_name,
                    action=decision.action.value,
                    error=str(error),
                )
                self._reports.failed(volume, decision, error)
                raise

    def _age(self, volume: WantedVolume) -> None:
        now = _now()
        rests = volume.age(lambda want: self._operations.remount_period(volume, want), now), volume.rest(now)
        for rest in rests:
            if rest is not None:
                self._queue.add_after(volume.record.unique_name, rest)

    def _tell_orphan(self, volume: WantedVolume, text: str) -> None:
        """Once, and again when there is something else to say."""
        if volume.told != text:
            volume.told = text
            log.warning(
                "volume without a plugin left in place", volume=volume.record.unique_name, problem=text
            )
        self._queue.add_after(volume.record.unique_name, orphans.LOOK_AGAIN_S)

    async def _take(self, volume: WantedVolume, decision: Decision) -> bool:
        """Carries one decision out; False if nothing more can be done now."""
        match decision.action:
            case Action.SETTLED:
                return False
            case Action.END_PODS:
                self._reports.lost(volume, decision, self._node_name)
                return False
            case Action.WAIT_FOR_ATTACH:
                self._reports.waiting(volume, decision, decision.reason.message)
                if volume.awaited_epoch(self._node_name) is not None:
                    await self._publisher.publish()
                return False
            case Action.UNPUBLISH:
                await self._unpublish(volume)
                return False
            case Action.PUBLISH:
                await self._publisher.publish()
                return True
            case Action.MOUNT_DEVICE:
                await self._mount_device(volume)
            case Action.GROW:
                await self._grow(volume, decision)
            case Action.SET_UP | Action.TEAR_DOWN:
                for pod_uid in sorted(decision.pods):
                    volume.begin(pod_uid, decision.action)
                    self._for_pods.add((volume.record.unique_name, pod_uid))
            case Action.UNMOUNT_DEVICE:
                await self._operations.unmount_device(volume, self._node_name)
            case _:
                assert_never(decision.action)
        return True

    async def _mount_device(self, volume: WantedVolume) -> None:
        volume.mounting = (
            True  # before the live look: what it permits must not be taken back by a status write meanwhile
        )
        try:
            permission = await self._permission(volume)
            if not self._taken_over(volume, permission):
                await self._operations.mount_device(volume, permission)
        finally:
            volume.mounting = False

    def _taken_over(self, volume: WantedVolume, permission: handshake.Permission | None) -> bool:
        """Whether what is mounted belongs to an attachment that is gone."""
        taken = volume.taken_over(permission.attachment_uid if permission else "")
        volume.stale = volume.stale or taken
        return taken

    async def _grow(self, volume: WantedVolume, decision: Decision) -> None:
        volume.to_grow = False
        try:
            size = await self._operations.grow(self._client, volume)
        except Exception:
            volume.to_grow = True
            raise
        if size:
            self._reports.grown(volume, decision.pods, size)

    # --- what is done for one pod

    async def _operate(self, key: tuple[str, str]) -> None:
        """The operation that was begun for a pod. What then is to be done is decided anew, for the volume."""
        unique_name, pod_uid = key
        volume = self._known.volumes[unique_name]  # it is not forgotten while an operation is under way
        operation = volume.operations[pod_uid]
        try:
            if operation.action is Action.SET_UP:
                await self._set_up(volume, pod_uid)
                self._reports.over(volume, pod_uid)
            else:
                await self._tear_down(volume, pod_uid)
        except Exception as error:
            self._failed(volume, pod_uid, operation, error)
        else:
            volume.operations.pop(pod_uid)
        volume.forget_operation(pod_uid)
        self._pod_changed(pod_uid)
        self._queue.add(unique_name)

    async def _set_up(self, volume: WantedVolume, pod_uid: str) -> None:
        permission = await self._permission(volume)
        if not self._taken_over(volume, permission):
            await self._operations.set_up(volume, pod_uid)

    async def _tear_down(self, volume: WantedVolume, pod_uid: str) -> None:
        await self._operations.tear_down(volume, pod_uid)
        if pod_uid not in volume.wants:
            self._forget_pod(pod_uid, volume.record.unique_name)

    def _failed(self, volume: WantedVolume, pod_uid: str, operation: PodOperation, error: Exception) -> None:
        decision = Decision(operation.action, WAITING, frozenset({pod_uid}))
        match error:
            case handshake.NotAttachedYet() | Unreachable() | ServerError():  # not about the volume
                operation.rests(_now() + LOOK_AGAIN_S)
                self._reports.waiting(volume, decision, str(error))
            case OrphanedVolume():
                operation.rests(_now() + orphans.LOOK_AGAIN_S)
                self._tell_orphan(volume, str(error))
            case _:
                delay = operation.failed(_now())
                log.warning(
                    "volume operation failed",
                    volume=volume.record.unique_name,
                    action=operation.action.value,
                    pod_uid=pod_uid,
                    error=str(error),
                    retry_s=delay,
                )
                self._reports.failed(volume, decision, error)

    async def _unpublish(self, volume: WantedVolume) -> None:
        if volume.record.attachable:
            await self._publisher.publish()
        self._known.forget(volume)

    # --- the handshake

    async def _permission(self, volume: WantedVolume) -> handshake.Permission | None:
        if not volume.record.attachable:
            return None
        if self._attaches:
            return await self._operations.attach(volume, self._node_name, self._publisher.uid)
        ours = self._publisher
        return await handshake.look(
            self._client, self._node_name, ours.uid, ours.boot_id, volume.record.unique_name
        )

    async def _verify(self, volume: WantedVolume) -> None:
        """Whether the attachment under which the device was mounted still exists."""
        device = volume.record.device
        if not volume.unverified or device is None:
            return
        try:
            volume.stale = await handshake.is_stale(
                self._client, self._node_name, volume.record.unique_name, device.attachment_uid
            )
            volume.unverified = False
        except KubeError as error:
            log.warning("attachment not verified", volume=volume.record.unique_name, error=str(error))
            self._queue.add_after(volume.record.unique_name, LOOK_AGAIN_S)

    def _listed(self, volume: WantedVolume) -> bool:
        return self._attaches or volume.record.unique_name in _reported(self._publisher.node)

    def _forget_pod(self, pod_uid: str, unique_name: str) -> None:
        self._known.forget_pod(pod_uid, unique_name)
        self._pod_changed(pod_uid)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reported(node: Node | None) -> set[str]:
    return {entry.name for entry in node.status.volumes_attached} if node else set()


def _write_token(node: Node | None) -> str | None:
    """Differs after each un-report: a list that shows the volume again may hide that it was taken away
    meanwhile."""
    return node.metadata.annotations.get(VOLUMES_ATTACHED_WRITE) if node else None
