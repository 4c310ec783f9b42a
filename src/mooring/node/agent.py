"""The node agent as a whole: puts its parts together and runs them in the order that the handshake needs.

1. Reconstruct: which pods run, what is mounted. No API server is needed, and nothing is changed.
2. Hold the Lease of the node's name. Another agent that works under it ends this one and what runs here
   (`node_lease`).
3. Register the Node, with `volumesInUse` as reconstructed. No status was written before.
4. List the pods. Only now is it known what is not wanted, so only now may anything be stopped or unmounted.
5. Work until cancelled. Cancelling stops the agent alone: its pods go on, and the next agent finds them.

With `self_fence` a watchdog hangs on the renewals of the Lease. Without an acknowledged one for too long
the agent kills its pods, unmounts, and ends with `LeaseLost`; the watchdog, which it feeds no more, does the
rest. An agent that is told to end withdraws what it has announced of the watchdog, and then disarms it.

`shutdown` is another matter: the node goes. Every pod is terminated with its grace period, everything is
unmounted, and the last status says so: volumesInUse is empty and Ready is False. Nothing is wanted then, so
it needs neither the name nor the list of pods: an agent that waits for these when its node goes ends and
unmounts what it has found, without a word to the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

import structlog

from mooring.kube import metrics
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap, Event, Node, Pod, Secret
from mooring.kube.selectors import field_equals
from mooring.kube.times import Now, format_time
from mooring.mounts.interface import Mounts
from mooring.node.csi.drivers import NodeDrivers
from mooring.node.endpoint.server import Changes, Endpoint
from mooring.node.endpoint.summary import summary
from mooring.node.endpoint.volume_metrics import claim_metrics
from mooring.node.endpoint.volume_stats import VolumeStats
from mooring.node.flexvolume import watch_drivers
from mooring.node.inotify import Inotify, WatchFolders
from mooring.node.network import NodeNetwork
from mooring.node.node_lease import HeldByAnother, NodeLease
from mooring.node.options import AgentOptions
from mooring.node.peers import Open, Peers
from mooring.node.pods.source import PodSource
from mooring.node.pods.worker import PodWorker
from mooring.node.registration import Registration
from mooring.node.runtime import Runtime
from mooring.node.self_fence.ending import end_everything, kill_pods
from mooring.node.self_fence.keeper import LeaseLost, SelfFence
from mooring.node.self_fence.watchdog import Watchdog, WatchdogRefused
from mooring.node.standalone import NoNode
from mooring.node.static.mirrors import Mirrors
from mooring.node.static.pods import StaticPods
from mooring.node.volumes.account_tokens import AccountTokens
from mooring.node.volumes.content import ContentWatches
from mooring.node.volumes.manager import Publisher, VolumeManager
from mooring.node.volumes.volume import WantedVolume
from mooring.this_boot import boottime
from mooring.volumes.host import NodeVolumeHost, VolumeHost
from mooring.volumes.names import CSI_PLUGIN, NAME_HELD
from mooring.volumes.plugin_manager import PluginManager, load_plugins
from mooring.volumes.plugins.csi.plugin import CSIPlugin
from mooring.volumes.plugins.flexvolume.plugin import folder_of

COMPONENT = "mooring-agent"
EVENTS = "default"
"""The namespace of events on objects that have none."""
ANNOUNCE_S = 5.0
"""How long a shutdown waits for the API server to hear of it before it ends the pods."""
LAST_WORD_S = 30.0
"""How long it waits for that afterwards. A node that has let everything go and could not say so keeps its
volumes until its next boot, or a fence; and the API server's machine may have gone before it."""
SHUTDOWN_S = 120.0
"""How long a shutdown may take before its last status is written as things are."""

E = TypeVar("E", bound=Exception)

log = structlog.get_logger("node-agent")


class Agent:
    """The parts of one node agent."""

    def __init__(
        self,
        options: AgentOptions,
        client: Client,
        *,
        runtime: Runtime,
        mounts: Mounts,
        now: Now,
        random: Random,
        make_plugins: Callable[[VolumeHost], PluginManager] = load_plugins,
        network: NodeNetwork | None = None,
        network_problem: str = "",
        csi_registrations: Path | None = None,
        watch_folders: WatchFolders = Inotify,
        watchdog: Watchdog | None = None,
        clock: Callable[[], float] = boottime,
        peer_door: Open | None = None,
    ) -> None:
        """`csi_registrations`: the folder in which CSI drivers register; `watch_folders`: reports changes of
        the folders of manifests and of FlexVolume drivers. `watchdog`: resets this machine; `clock`: its
        seconds, which count on while it sleeps. `peer_door`: where it answers its peers; None: nowhere."""
        self._watch_folders = watch_folders
        self._network_problem = network_problem
        self._now = now
        self._options = options
        self._client = client
        self._runtime = runtime
        self._mounts = mounts
        self._recorder = Recorder(client, COMPONENT, now=now, random=random, host=options.name)
        host = NodeVolumeHost(
            node_name=options.name,
            root=options.root_dir,
            mounts=mounts,
            now=now,
            fetch_config_map=lambda namespace, name: client.find(ConfigMap, name, namespace),
            fetch_secret=lambda namespace, name: client.find(Secret, name, namespace),
            plugin_settings=options.plugin_settings,
            allocatable=options.hardware.capacity(),
            reader=client,
            fetch_token=AccountTokens(client, clock).get,
        )
        plugins = make_plugins(host)
        self.csi_drivers = _csi_drivers(plugins, client, options, csi_registrations, self._recorder, random)
        """Those of this node; None if there is no CSI plugin."""
        self._flex_drivers = folder_of(plugins.plugins)
        self._content = ContentWatches(client, self._content_changed, random=random)
        self._volumes = VolumeManager(
            client,
            options.name,
            options.root_dir,
            plugins,
            mounts,
            report=self._recorder.event,
            pod_changed=self._pod_changed,
            content=self._content,
            attaches=not options.enable_controller_attach_detach,
            alone=options.standalone,
        )
        self._fenced_itself = False
        self._alone = options.standalone
        """There is no API server, or none was found before the node went."""
        self._nothing_wanted = asyncio.Event()
        """The node goes, and the pods are told."""
        self._self_fence = _self_fence(watchdog, options, clock, self._watchdog_refused)
        self._lease = NodeLease(client, options, now=now, heartbeat=self._self_fence)
        self._registration = Registration(
            client,
            options,
            self._volumes.volumes_in_use,
            volumes_awaited=self._volumes.volumes_awaited,
            volume_limits=plugins.volume_limits(),
            before_create=self._vouch_for_pods,
            confirm_name=self._lease.confirm,
            now=now,
            random=random,
        )
        door = None if options.standalone else peer_door
        self._peers = Peers(door, options.boot_id, self._lease.is_heard, self._lease.tell)
        self._registration.nodes.add_handler(self._peers.node_changed)
        self._registration.nodes.add_handler(self._volumes.node_changed)
        if self.csi_drivers is not None:
            self._registration.nodes.add_handler(self.csi_drivers.node_changed)
            self.csi_drivers.tell_of_writes(self._registration.nodes.accept)
            self.csi_drivers.tell_of_changes(lambda: self._volumes.plugin_changed(CSI_PLUGIN))
        self._pods = Informer(
            client,
            Pod,
            random=random,
            field_selector=field_equals("spec.nodeName", options.name),
            indexers={"uid": lambda pod: (pod.uid,)},
        )
        self._pods.add_handler(self._volumes.pod_updated)
        self._static = StaticPods(options.manifests_dir, options.name, now, watch=watch_folders)
        self._mirrors = Mirrors(client, self._static, self._pods, lambda: self._registration.node)
        self._source = PodSource(self._pods, self._static, self._mirrors)
        self._worker = PodWorker(
            client,
            options,
            self._source,
            runtime,
            self._volumes,
            self._recorder,
            now=now,
            random=random,
            network=network,
        )
        self._registration.nodes.add_handler(self._worker.node_changed)

        self._stats = VolumeStats()
        self._changes = Changes()
        self._endpoint = Endpoint(
            options.address,
            options.endpoint_token,
            runtime=runtime,
            find=self._find_pod,
            summary=self._summary,
            changes=self._changes,
            now=now,
        )

    @property
    def caches(self) -> tuple[Informer[Pod], Informer[Node]]:
        """What it knows of its pods and of its Node."""
        return self._pods, self._registration.nodes

    def remembered(self) -> Mapping[str, WantedVolume] | None:
        """What it knows of each volume of its node, by its unique name; None: it has not looked yet, or has
        fenced its node itself, without a word in a record."""
        return None if self._fenced_itself else self._volumes.remembered()

    def _content_changed(self, pod_uid: str, unique_name: str) -> None:
        self._volumes.content_changed(pod_uid, unique_name)

    def _pod_changed(self, uid: str) -> None:
        self._worker.changed(uid)
        self._changes.notify(uid)

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._source.named(namespace, name)

    async def _summary(self) -> dict[str, Any]:
        return await summary(self._options.name, self._volumes.mounted(), self._stats, self._now)

    @contextlib.asynccontextmanager
    async def _serving_metrics(self) -> AsyncGenerator[None]:
        if (port := self._options.metrics_port) is None:
            yield
            return
        address = self._options.metrics_address

        async def of_claims() -> bytes:
            return await claim_metrics(self._volumes.mounted(), self._stats)

        async with metrics.serving(address, port, also=of_claims) as taken:
            log.info("metrics are served", host=address, port=taken)
            yield

    async def _vouch_for_pods(self) -> None:
        """Writes each pod that runs here before the Node, which is absent, is made. If the
        pod garbage collector has decided by the absence of the Node that they are lost, it has not read them
        since: its writes are refused from now on, and it looks again."""
        running = {uid for uid, sandbox in self._runtime.sandboxes().items() if sandbox.running}
        if not running:
            return
        here = await self._client.list(Pod, field_selector=field_equals("spec.nodeName", self._options.name))
        for pod in here.items:
            if pod.uid in running and not pod.finished:
                try:
                    self._pods.accept(await self._vouch_for(pod))
                except (NotFound, Conflict):
                    pass  # it is gone, and another one may have its name
                except (
                    Forbidden,
                    Invalid,
                ) as error:  # without a Node all of its pods would be lost for this one
                    log.warning("pod not vouched for", pod=pod.key, error=str(error))

    async def _vouch_for(self, pod: Pod) -> Pod:
        status = {"conditions": [{"type": "Ready", "lastProbeTime": format_time(self._now())}]}
        patch = {"status": status}
        return await self._client.revise(
            pod, patch, subresource="status", any_version=True, strategy="strategic"
        )

    async def run(self, shutdown: asyncio.Event) -> None:
        """Works until cancelled, or until `shutdown` was set and is done."""
        log.info(
            "starting",
            node=self._options.name,
            root=str(self._options.root_dir),
            boot_id=self._options.boot_id,
        )
        await self._runtime.recover(self._pod_changed)
        if self._flex_drivers is not None:  # what is mounted may be theirs
            await self._flex_drivers.scan()
        await self._volumes.reconstruct()
        held: ExceptionGroup[HeldByAnother] | None = None
        lost: ExceptionGroup[LeaseLost] | None = None
        try:
            async with self._serving_metrics(), self._endpoint.serving(), self._peers.serving():
                await self._run(shutdown)
        except* HeldByAnother as found:
            held = found
        except* LeaseLost as found:
            lost = found
        if lost is not None:
            await self._end_here(_first_of(lost))
        if held is not None:
            await self._leave_to(_first_of(held))

    async def _end_here(self, lost: LeaseLost) -> None:
        """Nothing of this node may write soon: what runs is killed, what is mounted goes. Raises `lost`."""
        log.error("this node fences itself", node=self._options.name, why=str(lost))
        self._fenced_itself = True
        await end_everything(self._runtime, self._mounts, self._options.root_dir)
        raise lost

    async def _watch_the_limit(self, fence: SelfFence) -> None:
        """Raises LeaseLost. The pods are killed before: the parts that end with this may hang on a volume."""
        try:
            await fence.run()
        except LeaseLost:
            await kill_pods(self._runtime)
            raise

    def _watchdog_refused(self, why: str) -> None:
        if (node := self._registration.node) is not None:
            self._recorder.event(
                node, "Warning", "SelfFenceRefused", f"this node does not fence itself: {why}"
            )

    async def _stand_down(self) -> None:
        """This agent goes, and nothing is to be fed for a while: the announcement is withdrawn first."""
        fence = self._self_fence
        if fence is None or fence.armed is None:
            return
        fence.withdraw()
        try:
            async with asyncio.timeout(ANNOUNCE_S):
                await self._lease.renew(self._registration.uid)
                await fence.disarm()
        except (KubeError, HeldByAnother, WatchdogRefused, OSError) as error:  # TimeoutError is one
            log.error(
                "the watchdog stays armed: it resets this machine unless an agent is back in time",
                why=str(error),
            )

    async def _leave_to(self, held: HeldByAnother) -> None:
        """Another agent has this node's name: what runs here is ended, for its pods are the other one's.
        Nothing is written but an event. Raises `held`."""
        log.error("this node's name is another agent's", node=self._options.name, error=str(held))
        for uid, sandbox in self._runtime.sandboxes().items():
            if sandbox.running:
                await self._runtime.kill_sandbox(uid)
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(ANNOUNCE_S):
                await self._record_holder(held)
        raise held

    async def _record_holder(self, held: HeldByAnother) -> None:
        """One event for each boot of a second agent, however often that is started again."""
        node = await self._client.find(Node, self._options.name)
        if node is None:
            return
        own, stamp = self._lease.own, format_time(self._now())
        digest = hashlib.sha256(f"{own.boot_id} {own.agent_id}".encode()).hexdigest()[:16]
        name = f"{node.name[:200]}.held-{digest}"
        body = {
            "metadata": {"name": name},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
            "type": "Warning",
            "reason": NAME_HELD,
            "message": f"a second agent, of {own}, was refused: {held}",
            "source": {"component": COMPONENT, "host": node.name},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            await self._client.create(Event, body, EVENTS)
        except AlreadyExists:
            await self._client.patch(Event, name, {"lastTimestamp": stamp}, EVENTS)

    async def _run(self, shutdown: asyncio.Event) -> None:
        self._registration.endpoint_port = self._endpoint.port
        self._registration.peer_door = self._peers.where
        if not self._alone:
            self._alone = not await _before(_later(shutdown, ANNOUNCE_S), self._take_the_name())
        self._static.reload()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part) for part in self._parts()]
                await shutdown.wait()
                await self._shut_down()
                for task in tasks:
                    task.cancel()
        except asyncio.CancelledError:
            await self._stand_down()
            raise

    async def _take_the_name(self) -> None:
        await self._lease.acquire()
        await self._registration.register()

    def _parts(self) -> list[Coroutine[None, None, None]]:
        return [
            *self._parts_with_api(),
            self._recorder.run(),
            self._static.run(),
            self._content.run(),
            *([self._flex_drivers.run(watch_drivers(self._watch_folders))] if self._flex_drivers else []),
            self._work(lambda: self._volumes.run(self._publisher())),
            self._work(self._worker.run),
            self._work(self._warn_of_network),
        ]

    def _publisher(self) -> Publisher:
        return NoNode(self._options.boot_id) if self._alone else self._registration

    def _parts_with_api(self) -> list[Coroutine[None, None, None]]:
        if self._alone:
            return []
        return [
            self._registration.nodes.run(),
            self._registration.run(),
            self._lease.run(lambda: self._registration.uid),
            self._peers.run(),
            *([self._watch_the_limit(self._self_fence)] if self._self_fence is not None else []),
            self._pods.run(),
            self._work(self._mirrors.run),
            *([self.csi_drivers.run()] if self.csi_drivers is not None else []),
        ]

    async def _warn_of_network(self) -> None:
        """Once, if pods have no networks of their own."""
        if not self._network_problem:
            return
        log.warning("no network for pods", node=self._options.name, why=self._network_problem)
        if (node := self._registration.node) is not None:
            text = f"pods share the network of this machine: {self._network_problem}"
            self._recorder.event(node, "Warning", "NoPodNetwork", text)

    async def _work(self, part: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begins when it is known what is wanted, or that nothing is."""
        if not self._alone:
            await _before(self._nothing_wanted.wait(), self._synced())
        await part()

    async def _synced(self) -> None:
        await self._registration.nodes.synced()
        await self._pods.synced()
        if self.csi_drivers is not None:
            await self.csi_drivers.synced()

    async def _shut_down(self) -> None:
        log.info("shutting down", node=self._options.name)
        # First the word that this node takes no pods, or what ends here is scheduled here again.
        await _within(ANNOUNCE_S, self._announce("the node is shutting down"))
        self._worker.shut_down()
        self._nothing_wanted.set()
        await _within(SHUTDOWN_S, self._let_go())
        await _within(LAST_WORD_S, self._announce("the node was shut down"))
        await self._stand_down()  # before the Lease is given back, which is not renewed after
        await _within(ANNOUNCE_S, self._leave())
        log.info("shut down", node=self._options.name, volumes_in_use=self._volumes.volumes_in_use())

    async def _let_go(self) -> None:
        await self._worker.idle()
        await self._volumes.drained()

    async def _leave(self) -> None:
        if not self._alone and not self._volumes.volumes_in_use():
            with contextlib.suppress(KubeError):
                await self._lease.give_back()
        await self._recorder.flush()

    async def _announce(self, message: str) -> None:
        if not self._alone:
            await self._registration.shut_down(message)


async def _within(seconds: float, what: Awaitable[None]) -> None:
    """Waits for it so long at the most: a node that is switched off waits for nothing for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await what


async def _later(event: asyncio.Event, seconds: float) -> None:
    await event.wait()
    await asyncio.sleep(seconds)


async def _before(end: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, None]) -> bool:
    """Whether `work` was done before `end`, which it is given up for. Raises what it raises."""
    working, ending = asyncio.create_task(work), asyncio.create_task(end)
    try:
        await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
        return working.done()
    finally:
        working.cancel()
        ending.cancel()
        await asyncio.gather(working, ending, return_exceptions=True)


def _first_of(found: ExceptionGroup[E]) -> E:
    """The error that the group is about, however deep it is."""
    return cast("E", next(_leaves(found)))


def _leaves(found: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for each in found.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[Any]", each))
        else:
            yield each


def _self_fence(
    watchdog: Watchdog | None,
    options: AgentOptions,
    clock: Callable[[], float],
    refused: Callable[[str], None],
) -> SelfFence | None:
    if watchdog is None or options.standalone:
        return None
    return SelfFence(watchdog, options.boot_id, options.self_fence_after_s, clock=clock, refused=refused)


def _csi_drivers(
    plugins: PluginManager,
    client: Client,
    options: AgentOptions,
    folder: Path | None,
    recorder: Recorder,
    random: Random,
) -> NodeDrivers | None:
    plugin = next((each for each in plugins.plugins if isinstance(each, CSIPlugin)), None)
    if plugin is None or options.standalone:
        return None
    return NodeDrivers(client, options.name, folder, plugin, recorder, random=random)
