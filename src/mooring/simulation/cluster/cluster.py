"""One simulated cluster: an API server, the controllers in their processes, node agents on machines, storage,
a user.

All of them are production code on played seams. Each part is an `Actor`: it can be killed at any await,
paused, and started anew; it has its own clock, its own link to the API server and its own chance.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextvars import copy_context
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from mooring.apiserver import Server
from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.store.log import Record
from mooring.apiserver.store.object_store import WINDOW_BYTES, WINDOW_CHANGES, Store
from mooring.fence.interface import Scope
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, KubeError, NotFound
from mooring.kube.informer import Informer
from mooring.kube.leaderelection import LeaderElector, Timing
from mooring.kube.objects import Object, StorageClass
from mooring.kube.transport import Request
from mooring.node.agent import Agent
from mooring.node.self_fence.keeper import LeaseLost
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.cluster.attribute_classes import create_attribute_classes
from mooring.simulation.cluster.cloud_faults import cloud_settings
from mooring.simulation.cluster.controllers import (
    ATTACHING,
    BY_NAME,
    ONLY_FOR,
    PLACING,
    UNDER_LEASE,
    WATCHING,
    make_controller,
)
from mooring.simulation.cluster.disk_classes import CLASSES
from mooring.simulation.cluster.fencing import PROCESS as FENCING
from mooring.simulation.cluster.fencing import asks_peers, create_fencing, fences_itself, make_devices
from mooring.simulation.cluster.part import Part
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.snapshot_class import create_snapshot_classes
from mooring.simulation.cluster.workloads import (
    GROWING,
    KEPT,
    MANIFESTS,
    NAMED,
    NAMED_CLASS,
    RETAINED,
    RETAINING_CLASS,
    STATIC_CLASS,
    TUNED,
)
from mooring.simulation.engine.event_loop import START, Actor, current_actor
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.array_plugin import Array
from mooring.simulation.parts.ebs_driver import PROCESS as EBS
from mooring.simulation.parts.ebs_driver import EbsProcess
from mooring.simulation.parts.ec2 import Ec2
from mooring.simulation.parts.failed_requests import tell_of_failures
from mooring.simulation.parts.fence_device import FenceDevice, Power, uuid_of
from mooring.simulation.parts.machine import CLOCK_DRIFT, Machine
from mooring.simulation.parts.network import Link, Network
from mooring.simulation.parts.node_service import PlayedNodeService
from mooring.simulation.parts.peer_wire import PeerWire
from mooring.simulation.parts.plugins import DRIVERS, array_plugins, node_service
from mooring.simulation.parts.request_trace import ASKING_CONTROLLER, TERM
from mooring.simulation.parts.storage import KINDS
from mooring.simulation.parts.store_log import VolatileLog
from mooring.simulation.parts.watchdog import SimulatedWatchdog
from mooring.volumes.matching import NO_PROVISIONER


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _NamedObject(msgspec.Struct, frozen=True):
    metadata: _Name


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    involved_object: _Name = _Name()


GROUPS = {"attaching": ATTACHING, "placing": PLACING, "watching": (*WATCHING, "cleanup")}
"""Which controllers share a process."""
WATCH_S, BOOKMARK_S = 3600.0, 900.0
"""How long a watch lives, and how often it hears of silence: else that would be most of what a quiet cluster
does."""
READY_S = (0.0, 0.0, 2.0, 20.0)
"""So long after the storage has taken a snapshot that can be used."""
RESET_S = 5.0
"""From the bite of a watchdog until the machine boots."""
LEASE = Timing(lease_duration=30.0, renew_deadline=20.0, retry_period=8.0)
"""Renewed a quarter as often as usual: that would be most of what is written."""
FOR_A_WHILE, AS_LONG_AS_IT_TAKES = 30, 5_000
"""How often users try what fails, two seconds after one another: a minute, or to the end of the run."""


class SimulatedCluster:
    """Everything there is. `root` is a directory for what node agents write down."""

    def __init__(self, root: Path, seed: int, scenario: Scenario) -> None:
        self.seed, self.scenario = seed, scenario
        self.actors: list[Actor] = []
        self._controllers: list[tuple[Actor | None, Controller[Any]]] = []
        loop = asyncio.get_running_loop()
        self.trace = Trace(loop.time)
        self.trace.stop = loop.stop
        self.network = Network()
        self.network.on_event, self.network.on_late = self._event_sent, self._late_create
        self.context = self.network.context
        self.array = Array(KINDS[scenario.storage])
        self.array.short_paths, self.array.validity_s = True, self.array.kind.validity_s
        self.array.grows = not GROWING.isdisjoint(scenario.workloads.values())
        self.array.keeps = not KEPT.isdisjoint(scenario.workloads.values())
        self.array.modifies = not TUNED.isdisjoint(scenario.workloads.values())
        self.array.snapshots.ready_s = stream(seed, "snapshots").choice(READY_S)
        self.array.take_its_time()
        self.array.asked_by = self.asker
        self.array.life = lambda node: self.nodes[node].life
        self.array.journal = self.trace
        self._backend = self.actor("array")
        self.array.carry_out, self.array.leave_it = self._carry_out, self._backend.start
        self.log = VolatileLog(stream(seed, "log"), journal=self._committed)
        self.tokens = Tokens(b"simulation")
        self.server = Part(self, "apiserver", "", self._serve)
        self.store: Store | None = None  # of the life of the API server that began last
        self.ec2 = self._make_ec2() if scenario.driver == "ebs" else None
        self.ebs = EbsProcess(self.ec2, CLASSES[scenario.disks].flags) if self.ec2 is not None else None
        self.services = self._node_services()
        processes = {name: service.process for name, service in self.services.items()}
        self.make_plugins = array_plugins(self.array, scenario.driver, self.ebs, processes)
        self.processes = {name: self._process(name, names) for name, names in GROUPS.items()}
        if self.ebs is not None:
            self.processes[EBS] = self._driver(self.ebs)
        self.devices: dict[str, FenceDevice] = {}
        if scenario.fencing:
            power = Power(lambda node: node in self.powered, self._switch)
            self.devices = make_devices(
                scenario, power, self.array.targets, self.trace, self.seed, self.context
            )
            self.processes[FENCING] = self._process(FENCING, (FENCING,))
        self.peers = PeerWire(stream(seed, "peers")) if asks_peers(scenario) else None
        self.agents: dict[str, Agent] = {}  # of each machine the newest
        self._lives: dict[
            str, tuple[Actor | None, Agent]
        ] = {}  # of each machine the newest that has an agent
        self.machines = {name: self._machine(name, root) for name in scenario.node_names}
        self.nodes = {name: self._node(machine) for name, machine in self.machines.items()}
        self.editions: dict[tuple[str, str], int] = {}  # node and static pod -> the edition of its manifest
        self.powered = set(self.machines)
        self.lost: set[str] = set()  # machines that never come back
        self.silent: set[str] = set()  # those of them that no operator declares dead
        self.user = self.actor("user")
        self.api = Client(Link(self.network, "user", self.tokens.admin(), stream(seed, "link user")))

    def actor(self, name: str) -> Actor:
        """A new one; all of them are ended with the run."""
        self.actors.append(Actor(name))
        return self.actors[-1]

    def asker(self) -> str:
        """The part that asks, and which of its lives, and terms of office: two of them may be at work at
        once."""
        actor, term = current_actor(), TERM.get()
        of_term = f".{term}" if term > 1 else ""
        return f"{actor.name} {self.actors.index(actor)}{of_term}" if actor in self.actors else ""

    def living(self) -> Iterator[Controller[Any]]:
        """The controllers of all processes that run."""
        self._controllers = [each for each in self._controllers if each[0] is None or not each[0].halted]
        for _, controller in self._controllers:
            yield controller

    def caches(self) -> Iterator[tuple[str, Informer[Any]]]:
        """The caches of all controllers and agents that run, each with its owner's name."""
        for controller in self.living():
            yield from ((controller.name, cache) for cache in controller.caches)
        for name, agent in self.agents.items():
            actor = self.nodes[name].actor
            if actor is not None and not actor.halted:
                yield from ((name, cache) for cache in agent.caches)

    def remembered(self, node: str) -> Mapping[str, WantedVolume] | None:
        """What the agent that runs there knows of each volume, by its unique name; None: there is none, or it
        has not looked yet."""
        actor = self.nodes[node].actor
        life, agent = self._lives.get(node, (None, None))
        lives = agent is not None and actor is not None and actor is life and not actor.halted
        return agent.remembered() if agent is not None and lives else None

    def parts(self) -> list[Part]:
        """All but the API server."""
        return [*self.processes.values(), *self.nodes.values()]

    # --- the parts

    def _process(self, name: str, names: Iterable[str]) -> Part:
        async def run(part: Part) -> None:
            client = Client(part.link, watch_s=WATCH_S)
            async with asyncio.TaskGroup() as group:
                for each in filter(self._of_use, names):
                    context = copy_context()
                    context.run(ASKING_CONTROLLER.set, BY_NAME[each].name)
                    group.create_task(self._control(part, each, client), context=context)

        return Part(self, name, self.tokens.admin(), run)

    async def _control(self, part: Part, name: str, client: Client) -> None:
        """Runs one controller; those that attach under a Lease, if the scenario has those."""
        actor = part.actor  # a successor may be the part's when this one, paused for a while, makes another
        now = actor.now if actor is not None else self.user.now

        def make(client: Client) -> Controller[Any]:
            TERM.set(TERM.get() + 1)
            made = make_controller(
                name,
                client,
                make_plugins=self.make_plugins,
                now=now,
                random=stream(self.seed, f"{name} {part.life}"),
                scenario=self.scenario,
                trace=self.trace,
                mechanisms=self.devices,
            )
            tell_of_failures(made, self.trace, part.name)
            former = [each for each in self._controllers if each[0] is actor and each[1].name == made.name]
            for each in former:  # it has lost its Lease
                self._controllers.remove(each)
            self._controllers.append((actor, made))
            return made

        if not (name in UNDER_LEASE or (self.scenario.leases and name in ATTACHING)):
            await make(client).run()
            return
        identity, chance = f"{name} {part.life}", stream(self.seed, f"lease of {name} {part.life}")
        elector = LeaderElector(
            client,
            name,
            identity=identity,
            now=now,
            random=chance,
            timing=LEASE,
            clock=asyncio.get_running_loop().time,
        )
        await elector.run_candidate(make)

    def _make_ec2(self) -> Ec2:
        clock, began = asyncio.get_running_loop().time, START.timestamp()
        return Ec2(
            self.array,
            self.scenario.node_names,
            cloud_settings(self.scenario, stream(self.seed, "cloud settings")),
            clock=lambda: began + clock(),
            random=stream(self.seed, "cloud"),
            host=self.actor("ec2"),
        )

    def _driver(self, ebs: EbsProcess) -> Part:
        async def run(part: Part) -> None:
            assert part.actor is not None
            chance = stream(self.seed, f"{EBS} {part.life}")
            await ebs.serve(part.actor, part.link, chance, self.asker)

        part = Part(self, EBS, self.tokens.admin(), run)
        part.on_kill = ebs.lose
        return part

    def _node_services(self) -> dict[str, PlayedNodeService]:
        """One on each machine, where there is a CSI driver."""
        made: dict[str, PlayedNodeService] = {}
        for name in self.scenario.node_names if self.scenario.driver != "plugin" else ():
            service = made[name] = PlayedNodeService(
                name,
                DRIVERS[self.scenario.driver],
                lambda node=name: node_service(self.array, node, self.ec2),
                lambda node=name: self.actor(f"service {node}"),
            )
            service.on_change = lambda there, node=name: self.trace(node, "truth.driver", registered=there)
        return made

    def _of_use(self, controller: str) -> bool:
        kinds = ONLY_FOR.get(controller)
        return kinds is None or not kinds.isdisjoint(self.scenario.workloads.values())

    def _machine(self, name: str, root: Path) -> Machine:
        machine = Machine(
            name,
            self.array,
            root / name,
            now=lambda: self._clock(name),
            random=stream(self.seed, name),
            make_plugins=self.make_plugins,
        )
        machine.has_manifests = not MANIFESTS.isdisjoint(self.scenario.workloads.values())
        machine.system_uuid = uuid_of(name) if self.scenario.fencing else ""
        if fences_itself(self.scenario):
            drift = stream(self.seed, f"drift {name}").uniform(-CLOCK_DRIFT, CLOCK_DRIFT)
            machine.clock_rate = 1 + drift
            machine.watchdog = SimulatedWatchdog(lambda: self._bitten(name), self.context)
        machine.peers = self.peers
        machine.lease_duration_s, machine.status_period_s, machine.watch_s = 144.0, 300.0, WATCH_S
        return machine

    def _clock(self, node: str) -> datetime:
        """The clock of the agent that runs there now."""
        actor = self.nodes[node].actor
        return actor.now() if actor is not None else self.user.now()

    def _node(self, machine: Machine) -> Part:
        async def run(part: Part) -> None:
            agent, service = machine.agent(part.link), self.services.get(machine.name)
            self.agents[machine.name] = agent
            self._lives[machine.name] = part.actor, agent
            if service is None or agent.csi_drivers is None:
                await self._run_agent(machine, agent)
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_agent(machine, agent))
                group.create_task(service.keep_known(agent.csi_drivers))

        part = Part(self, machine.name, self.tokens.node(machine.name), run)
        if machine.watchdog is not None:
            part.on_kill = machine.watchdog.closed
            part.trace_renewals()
        return part

    async def _run_agent(self, machine: Machine, agent: Agent) -> None:
        try:
            await agent.run(asyncio.Event())
        except LeaseLost:
            self.trace(machine.name, "truth.self-fenced")
        if machine.watchdog is not None:
            machine.watchdog.closed()

    def _bitten(self, node: str) -> None:
        """Its watchdog resets the machine."""
        self.trace(node, "truth.bitten")
        self.power_off(node)
        asyncio.get_running_loop().call_later(RESET_S, self.power_on, node, context=self.context)

    async def _serve(self, part: Part) -> None:
        assert part.actor is not None
        chance = stream(self.seed, f"server {part.life}")
        server = Server(self.log, self.tokens, now=part.actor.now, random=chance, bookmark_s=BOOKMARK_S)
        self.store = server.store
        self.keep_history()
        if self.network.acknowledged:
            self.trace(
                "apiserver", "truth.recovered", had=self.network.acknowledged, has=server.store.version
            )
        await server.start()
        self.network.serve(server, part.actor)
        await asyncio.Event().wait()

    def keep_history(self, changes: int = 0) -> None:
        """From the next change on, the API server keeps so many for watches; 0: as the scenario says."""
        kept = changes or self.scenario.history
        if self.store is not None:
            self.store.window = kept or WINDOW_CHANGES
            self.store.window_bytes = self.scenario.history_bytes or WINDOW_BYTES

    def kill_server(self) -> None:
        """Kills the API server, and loses what it had not synced."""
        self.server.kill()
        self.network.lose_server()
        self.log.crash()

    def _committed(self, record: Record) -> None:
        self.network.committed(record.version)
        name = f"{record.namespace}/{record.name}" if record.namespace else record.name
        self.trace(
            "store",
            "store.deleted" if record.deleted else "store.written",
            resource=record.resource,
            name=name,
            version=record.version,
            crc=f"{zlib.crc32(record.body):08x}",
            _body=record.body,
        )

    def _event_sent(self, name: str, request: Request) -> None:
        event = msgspec.json.decode(request.body, type=_Event)
        about, message = event.involved_object.name, event.message
        self.trace(name, "told.event", about=about, reason=event.reason, _message=message)

    def _late_create(self, name: str, request: Request) -> None:
        if request.path.endswith("/volumeattachments"):
            made = msgspec.json.decode(request.body, type=_NamedObject)
            self.trace(name, "asked.late", name=made.metadata.name)

    async def _carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.shield(self._backend.start(work))

    # --- the beginning

    async def start(self) -> None:
        """Starts everything; returns when the API server answers."""
        self.server.start()
        await self.network.reachable.wait()
        body: dict[str, Any] = {
            "metadata": {"name": "disk"},
            "provisioner": DRIVERS[self.scenario.driver],
            "reclaimPolicy": "Delete",
        }
        if self.array.grows:
            body["allowVolumeExpansion"] = True
        if self.ec2 is not None:
            self.ec2.start()
            # or a volume could be where no node has room for its pod
            body["volumeBindingMode"] = "WaitForFirstConsumer"
            asked = CLASSES[self.scenario.disks]
            body |= {"parameters": asked.parameters, "mountOptions": asked.mount_options}
        await self.api.create(StorageClass, body)
        if not RETAINED.isdisjoint(self.scenario.workloads.values()):
            keeps = {"metadata": {"name": RETAINING_CLASS}, "reclaimPolicy": "Retain"}
            await self.api.create(StorageClass, body | keeps)
        by_hand = {"metadata": {"name": STATIC_CLASS}, "provisioner": NO_PROVISIONER}
        await self.api.create(StorageClass, by_hand)
        if not NAMED.isdisjoint(self.scenario.workloads.values()):
            await self.api.create(StorageClass, by_hand | {"metadata": {"name": NAMED_CLASS}})
        if self.array.keeps:
            await create_snapshot_classes(self.api, DRIVERS[self.scenario.driver])
        if self.array.modifies:
            await create_attribute_classes(self.api, DRIVERS[self.scenario.driver])
        if self.scenario.fencing:
            await create_fencing(self.api, self.scenario)
        for service in self.services.values():
            service.start()
        for part in self.parts():
            part.start()

    async def make(self, kind: type[Object], body: dict[str, Any], namespace: str = "") -> None:
        """Done by the user, however long the API server does not answer: nothing else would make it."""
        await self.as_user(lambda: self.api.create(kind, body, namespace), AS_LONG_AS_IT_TAKES)

    async def as_user(self, work: Callable[[], Awaitable[Any]], tries: int = FOR_A_WHILE) -> None:
        """Done by the user, who tries again for a while if the API server does not answer or refuses."""
        for _ in range(tries):
            try:
                await work()
            except (NotFound, AlreadyExists):
                return
            except KubeError:
                await asyncio.sleep(2)
            else:
                return

    @property
    def left_s(self) -> float:
        """Seconds until the last fault is over."""
        return max(self.scenario.heal_s - asyncio.get_running_loop().time(), 0.0)

    @property
    def shuts_out(self) -> bool:
        """Whether a fence may shut a node out of its storage."""
        return any(each.scope == Scope.STORAGE for each in self.devices.values())

    def has_disk(self, handle: str) -> bool:
        """Whether the storage has the disk of that handle."""
        return (self.ec2.disk(handle) if self.ec2 is not None else handle) in self.array.disks

    def has_neighbour(self, node: str) -> bool:
        """Whether another machine can have the volumes of this one: in a cloud one of its zone."""
        others = [name for name in self.machines if name != node and name not in self.lost]
        return any(self.ec2 is None or self.ec2.zone(each) == self.ec2.zone(node) for each in others)

    def _switch(self, node: str, on: bool) -> None:
        (self.power_on if on else self.power_off)(node)

    def power_off(self, node: str) -> None:
        """The machine is dead at once."""
        if node in self.powered:
            self.powered.discard(node)
            self.nodes[node].kill()
            if node in self.services:
                self.services[node].kill()
            self.machines[node].lose_power()
            self.trace(node, "truth.power", on=False)

    def power_on(self, node: str) -> None:
        """It boots, and its agent starts. What is lost stays off."""
        if node in self.lost:
            return
        if node not in self.powered:
            self.powered.add(node)
            if node in self.services:
                self.services[node].start()
            self.trace(node, "truth.power", on=True)
        self.nodes[node].start()
