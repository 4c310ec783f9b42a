"""The node's side of its Node object: registration and status.

Guarantees, each a rule of the handshake (docs/protocol.md C5, C6, C11, C13):
- A registration carries `volumesInUse` as reconstructed, in the create.
- Every status write carries the uid and resourceVersion of the Node that it was computed from and always
  changes it (a token; heartbeat times have whole seconds only), so that a write that arrives late is refused.
  It carries Ready, boot ID, and the out-of-service taint that it saw: a taint under which the node has
  reported is spent.
- A volume counts as published only after the write was acknowledged, and only for the Node's present uid.
- Writes are made one after the other. `publish` returns after a write that began after it was called, or that
  carried the same volumes.

It must not know why a volume is in use, nor what pods are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import msgspec
import structlog

from mooring import __version__
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, KubeError, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Node
from mooring.kube.selectors import field_equals
from mooring.kube.times import Now, format_time
from mooring.node.options import AgentOptions
from mooring.volumes.limits import limit_resource
from mooring.volumes.names import AWAITED, CONTROLLER_MANAGED, RECONSTRUCTED, STATUS_WRITE
from mooring.volumes.out_of_service import SEEN, identity, taint_of
from mooring.volumes.peers import DOOR

RETRY_S = 1.0
AGAIN_S = 0.05
"""After a write that another one has overtaken, for each time that this has happened: what was in the way may
be accepted by the API server and not be there to be read yet."""

log = structlog.get_logger("node-agent")


class AttachingKindChanged(Exception):
    """The agent was started with another --enable-controller-attach-detach while volumes are attached."""


def node_body(options: AgentOptions) -> dict[str, Any]:
    """The Node's metadata and what never changes of its status."""
    hardware = options.hardware
    labels = {
        "kubernetes.io/hostname": options.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": hardware.architecture,
    }
    addresses = [
        {"type": "InternalIP", "address": options.address},
        {"type": "Hostname", "address": options.name},
    ]
    return {
        "metadata": {
            "name": options.name,
            "labels": {**labels, **options.labels},
            "annotations": {CONTROLLER_MANAGED: "true"} if options.enable_controller_attach_detach else {},
        },
        **({"spec": {"providerID": options.provider_id}} if options.provider_id else {}),
        "status": {
            "capacity": hardware.capacity(),
            "allocatable": hardware.capacity(),
            "addresses": addresses,
            "nodeInfo": {
                "bootID": options.boot_id,
                "architecture": hardware.architecture,
                "operatingSystem": "linux",
                **({"machineID": options.machine_id} if options.machine_id else {}),
                **({"systemUUID": options.system_uuid} if options.system_uuid else {}),
                "kernelVersion": hardware.kernel,
                "kubeletVersion": "mooring",
                "containerRuntimeVersion": f"mooring://{__version__}",  # pods are processes of the agent
                **({"osImage": hardware.system} if hardware.system else {}),
            },
        },
    }


def ready_condition(node: Node | None, stamp: str, *, ready: bool, message: str) -> dict[str, str]:
    """The Ready condition; its transition time is kept while the status does not change."""
    status = "True" if ready else "False"
    held = next((c for c in node.status.conditions if c.type == "Ready"), None) if node else None
    kept = held is not None and held.status == status and held.last_transition_time
    return {
        "type": "Ready",
        "status": status,
        "reason": "NodeAgentReady" if ready else "NodeAgentNotReady",
        "message": message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": kept or stamp,
    }


def seen_taint(node: Node) -> dict[str, str | None]:
    """The annotation by which this report spends the out-of-service taint that the Node carries."""
    taint = taint_of(node)
    if taint is not None:
        return {SEEN: identity(taint)}
    return {SEEN: None} if SEEN in node.metadata.annotations else {}


async def _nothing() -> None:
    return


class Registration:
    """The Node of this agent. `volumes_in_use` is called at the moment of each write, `before_create` is done
    before a Node is made, `confirm_name` before anything is written over what was written meanwhile: it
    raises if another agent has this node's name."""

    def __init__(
        self,
        client: Client,
        options: AgentOptions,
        volumes_in_use: Callable[[], tuple[str, ...]],
        *,
        volumes_awaited: Callable[[], Mapping[str, int]] = dict[str, int],
        volume_limits: Mapping[str, int],
        before_create: Callable[[], Awaitable[None]] = _nothing,
        confirm_name: Callable[[], Awaitable[None]] = _nothing,
        now: Now,
        random: Random,
    ) -> None:
        self._client = client
        self._before_create = before_create
        self._confirm_name = confirm_name
        self._options = options
        self._volumes_in_use = volumes_in_use
        self._volumes_awaited = volumes_awaited
        self._limits = {limit_resource(plugin): str(limit) for plugin, limit in volume_limits.items()}
        self._now = now
        self._random = random
        self._lock = asyncio.Lock()
        self._failure: tuple[KubeError, float] | None = None
        """How and when the last try failed, by the loop's time."""
        self._wake = asyncio.Event()
        self._ready = (True, "the node agent runs")
        self._acknowledged: frozenset[str] | None = None
        self._acknowledged_awaited: Mapping[str, int] = {}
        self._taken_over: Node | None = None
        """The Node that is being taken over: the watch may show it late, and the rest of it may fail."""
        self.endpoint_port = 0
        """Where the agent answers the API server; 0: nowhere. Set before `register`."""
        self.peer_door = ""
        """Where it answers its peers; "": nowhere. Set before `register`."""
        self.uid = ""
        """The uid under which this node is registered; "" before the first registration."""
        self.nodes = Informer(
            client, Node, random=random, field_selector=field_equals("metadata.name", options.name)
        )
        self.nodes.add_handler(self._node_changed)

    @property
    def node(self) -> Node | None:
        """Our Node as the cache knows it; None if it does not exist."""
        return self.nodes.get(self._options.name)

    @property
    def boot_id(self) -> str:
        """The boot that this agent writes on its Node."""
        return self._options.boot_id

    def published(self, volume: str) -> bool:
        """Whether the API server has acknowledged that `volume` is in our volumesInUse, under our present
        uid."""
        return self._acknowledged is not None and volume in self._acknowledged

    async def register(self) -> None:
        """Creates the Node, or takes over the one that exists. Only after reconstruction. Repeats until it is
        done."""
        while True:
            try:
                async with self._lock:
                    await self._try()
                return
            except KubeError as error:
                log.warning("registration failed", node=self._options.name, error=str(error), retry_s=RETRY_S)
                await asyncio.sleep(RETRY_S)

    async def publish(self) -> None:
        """Makes volumesInUse known. Raises `KubeError` if that is not sure."""
        async with self._lock:
            if self._has_news():
                self._refuse_at_once()
                await self._try()

    async def shut_down(self, message: str) -> None:
        """The last word of an agent that goes: Ready is False, with volumesInUse as they are now."""
        self._ready = (False, message)
        await self.register()

    async def run(self) -> None:
        """Keeps the status current, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._options.status_period_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self.register()

    # --- tries

    def _has_news(self) -> bool:
        volumes, awaited = frozenset(self._volumes_in_use()), self._volumes_awaited()
        return self._acknowledged != volumes or self._acknowledged_awaited != awaited

    async def _try(self) -> None:
        self._failure = None
        try:
            await self._write()
        except KubeError as error:
            self._failure = (error, asyncio.get_running_loop().time())
            raise

    def _refuse_at_once(self) -> None:
        """A try that has just failed has failed for all volumes that wait: else each of them would write."""
        if self._failure is not None:
            error, failed = self._failure
            if asyncio.get_running_loop().time() - failed < RETRY_S:
                raise error

    # --- the Node

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or new.uid != self.uid:
            self._acknowledged = None
            self._wake.set()
        elif new.ready != ("True" if self._ready[0] else "False") or self._unseen(new):
            self._wake.set()

    @staticmethod
    def _unseen(node: Node) -> bool:
        """There is a taint that no report has spent yet, or a report about one that is gone."""
        return any(node.metadata.annotations.get(key) != value for key, value in seen_taint(node).items())

    async def _write(self) -> None:
        # An agent that starts has no cache yet. Pods are vouched for only where there is no Node.
        base = self._taken_over or self.node or await self._client.find(Node, self._options.name)
        self._acknowledged, previous = None, self._acknowledged
        overtaken = 0
        while True:
            try:
                volumes, awaited = self._volumes_in_use(), self._volumes_awaited()
                answer = await self._send(base, volumes, awaited)
                break
            except (
                Conflict
            ):  # AlreadyExists too: another writer was first; compute again from what is there now
                await self._confirm_name()
                if overtaken:  # what is in flight can be neither read nor repeated yet
                    await asyncio.sleep(min(AGAIN_S * (overtaken + 1), RETRY_S))
                base = await self._client.find(Node, self._options.name)
                if base is None and not overtaken:
                    await asyncio.sleep(AGAIN_S)
                overtaken += 1
            except NotFound:
                base = None
        if self.uid != answer.uid:
            log.info("registered", node=answer.name, uid=answer.uid, volumes_in_use=len(volumes))
        elif previous != frozenset(volumes):
            log.info("volumesInUse published", node=answer.name, volumes=volumes)
        self.uid, self._taken_over = answer.uid, None
        self._acknowledged, self._acknowledged_awaited = frozenset(volumes), awaited
        self.nodes.accept(answer)

    async def _send(self, base: Node | None, volumes: tuple[str, ...], awaited: Mapping[str, int]) -> Node:
        body = self._body(base, volumes, awaited)
        if base is None:
            await self._before_create()
            return await self._client.create(Node, body)
        if base.uid != self.uid:  # not our creation, or another agent's before us
            self._refuse_change(base, volumes)
            metadata = node_body(self._options)["metadata"]
            if not self._options.enable_controller_attach_detach:
                metadata["annotations"] = {CONTROLLER_MANAGED: None}
            base = await self._client.revise(base, {"metadata": metadata}, any_version=True)
            self._taken_over = base
        body["metadata"] = {"annotations": body["metadata"]["annotations"]}
        return await self._client.revise(base, body, subresource="status", strategy="strategic")

    def _refuse_change(self, node: Node, volumes: tuple[str, ...]) -> None:
        """Who attaches this node's volumes must not change while it has any: a Node that an agent of this
        machine has written shows how that one did it. Raises AttachingKindChanged."""
        if self.uid or RECONSTRUCTED not in node.metadata.annotations:
            return
        by_controller = CONTROLLER_MANAGED in node.metadata.annotations
        wanted = self._options.enable_controller_attach_detach
        listed = [entry.name for entry in node.status.volumes_attached]
        held = sorted({*volumes, *node.status.volumes_in_use, *listed})
        if by_controller != wanted and held:
            whose = "the attach/detach controller" if by_controller else "its node agent"
            raise AttachingKindChanged(
                f"node {node.name} has volumes that {whose} attached ({', '.join(held)}): drain it before the node "
                f"agent is started with --enable-controller-attach-detach={str(wanted).lower()}"
            )

    def _body(
        self, base: Node | None, volumes: tuple[str, ...], awaited: Mapping[str, int]
    ) -> dict[str, Any]:
        body = node_body(self._options)
        for amount in ("capacity", "allocatable"):
            body["status"][amount] = body["status"][amount] | self._limits
        stamp = format_time(self._now())
        annotations: dict[str, str | None] = {
            RECONSTRUCTED: self._options.boot_id,
            STATUS_WRITE: f"{stamp}.{self._random.getrandbits(32):08x}",
        }
        if self.peer_door:
            annotations[DOOR] = self.peer_door
        if awaited:
            annotations[AWAITED] = msgspec.json.encode(awaited).decode()
        if base is not None:
            body.pop("spec", None)  # of a Node that is there it is others' to say
            annotations |= seen_taint(base)
            if not awaited and AWAITED in base.metadata.annotations:
                annotations[AWAITED] = None
            if not self.peer_door and DOOR in base.metadata.annotations:
                annotations[DOOR] = None
        body["metadata"]["annotations"] |= annotations
        ready, message = self._ready
        body["status"]["conditions"] = [ready_condition(base, stamp, ready=ready, message=message)]
        body["status"]["volumesInUse"] = list(volumes)
        if self.endpoint_port:
            body["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.endpoint_port}}
        return body
