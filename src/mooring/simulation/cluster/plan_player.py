"""Carries out the steps of a plan on a cluster, and heals it afterwards. One small function for each kind of
step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.kube.errors import KubeError
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.simulation.cluster.array_faults import ArrayFaults
from mooring.simulation.cluster.attribute_users import AttributeUsers
from mooring.simulation.cluster.careless_users import CarelessUsers
from mooring.simulation.cluster.class_users import ClassUsers
from mooring.simulation.cluster.cloud_faults import CloudFaults
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.content_users import ContentUsers
from mooring.simulation.cluster.fences import FenceFaults, FencingUsers, shows
from mooring.simulation.cluster.fencing import PROCESS as FENCING
from mooring.simulation.cluster.manifest_users import ManifestUsers
from mooring.simulation.cluster.mistaken_users import MistakenUsers
from mooring.simulation.cluster.other_parties import OtherParties
from mooring.simulation.cluster.part import Part
from mooring.simulation.cluster.plan import (
    ACTIONS,
    EC2_FAULTS,
    FENCE_ACTIONS,
    FENCE_FAULTS,
    KEEPING,
    Plan,
    PlanStep,
    workloads_of,
)
from mooring.simulation.cluster.readers import Readers
from mooring.simulation.cluster.snapshot_users import SnapshotUsers
from mooring.simulation.cluster.upstream import Upstream
from mooring.simulation.cluster.users import UNDEFINED_S, Users, rival
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.engine.trace import Event
from mooring.simulation.parts import webhook
from mooring.simulation.parts.link_conditions import REPLICA_LAG_S
from mooring.simulation.parts.rare_requests import RareRequests
from mooring.simulation.parts.store_log import SYNC_S

MUST_STAY = 2
"""So many machines are never lost for good."""
UNDEFINING = ("strip-volume", "restore-volume", "delete-unbound")
"""Steps that take a PersistentVolume away which may be attached."""
SOON_S = 1.0
KEPT = 4
"""So few changes the API server keeps while what a watch misses is forgotten."""
LATE_KINDS = (
    *("volumeattachments", "nodes", "persistentvolumes"),
    *("persistentvolumeclaims", "pods", "csinodes"),
)
LATE_S = 15.0
"""By so many seconds the watches of one of these kinds are late, or by four times as many."""
PATIENCE_S = 300.0
"""So long a fault waits for the moment in which it strikes."""
FLAPS_OFF_S, FLAPS_ON_S = (5.0, 45.0, 70.0), (15.0, 60.0)
"""For how long a machine that flaps is off, often long enough to be lost, and on."""
DECLARE_AFTER_S = 60.0
"""A user who declares a machine out of service does so when it has been off for this time."""


class PlanPlayer:
    """Plays plans on one cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.users = Users(cluster)
        self.careless = CarelessUsers(self.users)
        self.manifests, self.classes = ManifestUsers(cluster), ClassUsers(self.users)
        self.others, self.readers = OtherParties(self.users), Readers(cluster)
        self.mistaken, self.contents = MistakenUsers(self.users), ContentUsers(self.users)
        self.copying, self.modifying = SnapshotUsers(self.users), AttributeUsers(self.users)
        self.array = ArrayFaults(cluster)
        self.cloud = CloudFaults(cluster.ec2) if cluster.ec2 is not None else None
        self.fences, self.fencing_users = FenceFaults(cluster), FencingUsers(cluster)
        self._leaders: list[Actor] = []  # paused, and their successors work
        self._frozen: list[Actor] = []

    async def play(self, plan: Plan) -> None:
        """Begins each step at its time, and does not wait for its end."""
        for step in plan:
            await asyncio.sleep(max(step.at - asyncio.get_running_loop().time(), 0))
            if self._too_late(step):
                continue
            self.cluster.trace(
                "plan", "plan.step", what=step.what, on=step.on, value=step.value, how=step.how
            )
            work = self.cluster.user.start(self._run(step, self._act(step.what)(step)))
            work.add_done_callback(check)

    def _act(self, what: str) -> Callable[[PlanStep], Awaitable[None]]:
        if what in EC2_FAULTS:
            return getattr(self.cloud, what.removeprefix("ec2-").replace("-", "_"))
        name = what.replace("-", "_")
        if what in FENCE_FAULTS:
            return self.fences.strike
        if what in FENCE_ACTIONS:
            return getattr(self.fencing_users, name)
        if what in ACTIONS:
            known = (
                *(self.manifests, self.others, self.readers, self.classes, self.mistaken),
                *(self.contents, self.copying, self.modifying, self.careless, self.users),
            )
            return next(getattr(each, name) for each in known if hasattr(each, name))
        return getattr(self.array, name, None) or getattr(self, f"_{name}")

    def _too_late(self, step: PlanStep) -> bool:
        """What is drained when all is healed stays so: in a cloud with zones its pods could run nowhere
        else. What nothing defines any more may stay attached for long."""
        now, scenario = asyncio.get_running_loop().time(), self.cluster.scenario
        if step.what in UNDEFINING:
            return now + UNDEFINED_S > scenario.end_s
        return now >= scenario.heal_s and step.what == "drain" and self.cluster.ec2 is not None

    async def _run(self, step: PlanStep, work: Awaitable[None]) -> None:
        await work
        if step.what not in ACTIONS:
            self.cluster.trace("plan", "plan.over", what=step.what, on=step.on)

    async def heal(self) -> None:
        """No fault is in force any more, all machines are on, users have taken back what they set aside."""
        cluster = self.cluster
        for actor in (*self._leaders, *self._frozen):
            actor.halted = True
        self.array.heal()
        self.fences.heal()
        if self.cluster.peers is not None:
            self.cluster.peers.heal()
        if self.cloud is not None:
            self.cloud.heal()
        cluster.log.sync_s, cluster.log.broken, cluster.network.webhook = SYNC_S, False, None
        cluster.keep_history()
        if cluster.network.server is None:
            cluster.server.start()
        for part in cluster.parts():
            part.link.clear()
            part.link.rare = None
            if part.actor is not None and part.actor in self._frozen:
                part.kill()
        for name, service in cluster.services.items():
            service.register(True)
            if name in cluster.powered:
                service.start()
        for name in cluster.machines:
            cluster.machines[name].runtime.stop_s = 0.0
            if name not in cluster.lost:
                cluster.power_on(name)
        for part in cluster.parts():
            if part.name in cluster.lost:
                continue
            part.start()
            assert part.actor is not None
            part.actor.skew = 0.0
            part.spare()
        for name in cluster.machines:
            if name not in cluster.lost:
                await self.users.take_back(name)
                await self.users.declare(name, False)
        for name in sorted(cluster.lost - cluster.silent):
            cluster.user.start(self._say_again(name))
        if cluster.scenario.has_fencing:
            cluster.user.start(self.fencing_users.look_after())
        await self.users.tidy_up()
        cluster.trace("plan", "plan.healed")

    def _part(self, name: str) -> Part:
        return self.cluster.processes.get(name) or self.cluster.nodes[name]

    def _may_start(self, name: str) -> bool:
        return name in self.cluster.processes or name in self.cluster.powered  # what is lost has no power

    def _restart(self, name: str) -> None:
        if self._may_start(name):
            self._part(name).start()

    # --- faults

    async def _kill(self, step: PlanStep) -> None:
        self._part(step.on).kill()
        await asyncio.sleep(step.value)
        self._restart(step.on)

    async def _crash(self, step: PlanStep) -> None:
        await self._part(step.on).crash_at(step.how).wait()
        await asyncio.sleep(step.value + 15)
        self._restart(step.on)

    async def _freeze(self, step: PlanStep) -> None:
        part = self._part(step.on)
        actor = part.actor
        if actor is None or actor.halted:
            return
        actor.halted = True
        await self._until_resumed(part, actor, step.value)

    async def _stall(self, step: PlanStep) -> None:
        part = self._part(step.on)
        await part.stall_at(step.how).wait()
        if (actor := part.actor) is not None:
            await self._until_resumed(part, actor, step.value)

    async def _doze(self, step: PlanStep) -> None:
        """Where it works under a Lease, that is over meanwhile."""
        part = self._part(step.on)
        await part.doze_at(step.how % 3).wait()
        if (actor := part.actor) is not None:
            await self._until_resumed(part, actor, step.value)

    async def _until_resumed(self, part: Part, actor: Actor, seconds: float) -> None:
        """A part that is paused goes on after so long, unless it was killed meanwhile."""
        self._frozen.append(actor)
        await asyncio.sleep(seconds)
        if part.actor is actor:
            actor.resume()
            self._frozen.remove(actor)

    async def _two_leaders(self, step: PlanStep) -> None:
        part = self._part(step.on)
        old = part.abandon()
        if old is None:
            return
        self._leaders.append(old)
        part.start()
        await asyncio.sleep(step.value)
        if asyncio.get_running_loop().time() < self.cluster.scenario.heal_s:
            old.resume()
            await asyncio.sleep(20)
            old.halted = True

    async def _power_off(self, step: PlanStep) -> None:
        self.cluster.power_off(step.on)
        declared = step.how == 1 and step.value > DECLARE_AFTER_S
        if declared:
            await asyncio.sleep(DECLARE_AFTER_S)
            if step.on in self.cluster.powered:
                return
            await self.users.confirm_dead(step.on)
        await asyncio.sleep(max(step.value - DECLARE_AFTER_S, 0) if declared else step.value)
        self.cluster.power_on(step.on)
        if declared:
            await asyncio.sleep(10)
            await self._take_back(step.on)

    async def _flaps(self, step: PlanStep) -> None:
        until = min(asyncio.get_running_loop().time() + step.value, self.cluster.scenario.heal_s)
        off_s, on_s = FLAPS_OFF_S[step.how % 3], FLAPS_ON_S[step.how // 3 % 2]
        while asyncio.get_running_loop().time() < until:
            self.cluster.power_off(step.on)
            await asyncio.sleep(off_s)
            self.cluster.power_on(step.on)
            await asyncio.sleep(on_s)

    async def _lose_machine(self, step: PlanStep) -> None:
        """It never comes back. An operator declares it dead, or (how odd) none does; but users may delete its
        pods by force."""
        service = self.cluster.services.get(step.on)
        if service is not None and not service.registered:
            return  # what was begun for it could not be asked for again until a user deletes its Node
        if not self._lost(step.on):
            return
        if step.how % 2:
            self.cluster.silent.add(step.on)
            if step.how % 4 == 3:
                await asyncio.sleep(DECLARE_AFTER_S)
                await self.users.force_delete_pods_of(step.on)
            return
        await asyncio.sleep(DECLARE_AFTER_S)
        await self.users.confirm_dead(step.on)

    async def _say_again(self, node: str) -> None:
        """What a controller with a late cache has attached to the machine since is not what the operator
        spoke of."""
        await asyncio.sleep(DECLARE_AFTER_S)
        await self.users.confirm_dead(node)

    async def _remove_machine(self, step: PlanStep) -> None:
        """It never comes back, and a user deletes its Node."""
        if self._lost(step.on):
            await asyncio.sleep(DECLARE_AFTER_S)
            await self.users.delete_node(step)

    def _lost(self, node: str) -> bool:
        """Loses a machine, if it may be lost: all but two may, and the last of a zone not."""
        lost = self.cluster.lost
        if (
            len(self.cluster.machines) - len(lost)
            <= (MUST_STAY if not (self.cluster.devices and lost) else len(self.cluster.machines))
            or node in lost
            or not self.cluster.has_neighbour(node)
        ):
            return False
        lost.add(node)
        self.cluster.power_off(node)
        return True

    async def _replace_machine(self, step: PlanStep) -> None:
        """It is off, its Node is deleted, and another boot registers the name anew."""
        self.cluster.power_off(step.on)
        await asyncio.sleep(step.value / 2)
        if step.on not in self.cluster.powered:
            await self.users.delete_node(step)
            await asyncio.sleep(step.value / 2)
        self.cluster.power_on(step.on)

    async def _absent_machine(self, step: PlanStep) -> None:
        """It is off for long, without a Node, and another boot registers the name anew."""
        self.cluster.power_off(step.on)
        await asyncio.sleep(SOON_S)
        if step.on not in self.cluster.powered:
            await self.users.delete_node(step)
            await asyncio.sleep(step.value)
        self.cluster.power_on(step.on)

    async def _back_in_attach(self, step: PlanStep) -> None:
        """As soon as the storage begins to attach a volume to it, if it does before all is healed: it is off,
        its Node is deleted, it is on again."""
        begun = asyncio.Event()

        def listen(event: Event) -> None:
            early = event.time < self.cluster.scenario.heal_s
            if early and (event.fields["act"], event.fields["node"]) == ("attach", step.on):
                begun.set()

        self.cluster.trace.listen("truth.begin", listen)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await begun.wait()
        except TimeoutError:
            return
        self.cluster.power_off(step.on)
        if step.on not in self.cluster.powered:
            await self.users.delete_node(step)
            await asyncio.sleep(step.value)
        self.cluster.power_on(step.on)

    async def _back_in_fence(self, step: PlanStep) -> None:
        """As soon as a fence says that it has cut the node off, or (how odd) states so on a VolumeAttachment:
        its controller stands still, the machine is started by hand, and the controller goes on with what it
        knows."""
        part, shown = self._part(FENCING), asyncio.Event()
        paused: list[Actor] = []

        def listen(event: Event) -> None:
            early = event.time < self.cluster.scenario.heal_s
            if (
                early
                and not shown.is_set()
                and part.alive
                and shows(event, step.on, on_record=bool(step.how % 2))
            ):
                assert part.actor is not None
                part.actor.halted = True
                paused.append(part.actor)
                self.cluster.trace(FENCING, "plan.stalled", request=event.fields["name"])
                shown.set()

        self.cluster.trace.listen("store.written", listen)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await shown.wait()
        except TimeoutError:
            shown.set()
            return
        self.cluster.power_off(step.on)
        self.cluster.power_on(step.on)
        await self._until_resumed(part, paused[0], step.value)
        self.cluster.trace("plan", "plan.over", what="stall", on=FENCING)

    async def _kill_service(self, step: PlanStep) -> None:
        """The process of a driver's node service; it starts anew while its machine is on."""
        service = self.cluster.services[step.on]
        service.kill()
        await asyncio.sleep(step.value)
        if step.on in self.cluster.powered:
            service.start()

    async def _driver_leaves(self, step: PlanStep) -> None:
        """It unregisters, as when it is upgraded (how odd: its process ends, too), and comes back."""
        service = self.cluster.services[step.on]
        service.register(False)
        if step.how % 2:
            await self._kill_service(step)
        else:
            await asyncio.sleep(step.value)
        service.register(True)

    async def _wrong_taint(self, step: PlanStep) -> None:
        """An operator's mistake: a machine that runs is declared out of service, or the taint is left over.
        Of a machine that does not answer, that is the word that counts: where a storage neither revokes nor
        refuses, nothing survives such a lie, and the mistake is made of nodes that answer, for a moment."""
        kind, seconds = self.cluster.array.kind, step.value
        if not (kind.revokes or kind.keeps):
            seconds = min(seconds, 2.0)
            if not await self.users.is_shown_to_answer(step.on):
                return
        await self.users.declare(step.on, True)
        await asyncio.sleep(seconds)
        await self._take_back(step.on)

    async def _take_back(self, node: str) -> None:
        """Takes the out-of-service taint away, unless the machine was lost since."""
        if node not in self.cluster.lost:
            await self.users.declare(node, False)

    async def _upstream_attaches(self, step: PlanStep) -> None:
        """Upstream's controller makes the VolumeAttachments of a workload; then ours takes over."""
        sets = [name for name, kind in workloads_of(self.cluster.scenario).items() if kind in KEEPING]
        name = sets[step.how % len(sets)]
        replicas = float(self.cluster.scenario.sets[name])
        try:
            await Upstream(self.users).attach(name, replicas)
        finally:
            await self.users.scale(PlanStep(0, "scale", name, replicas))
            self._restart(step.on)

    async def _conflicts(self, step: PlanStep) -> None:
        """Another client writes to the same objects, again and again."""
        kinds = ((Node,), (VolumeAttachment,), (PersistentVolumeClaim, PersistentVolume, Pod))[step.how % 3]
        await rival(self.cluster, kinds, step.value)

    async def _kill_server(self, step: PlanStep) -> None:
        self.cluster.kill_server()
        await asyncio.sleep(step.value)
        self.cluster.server.start()

    async def _cut_store(self, step: PlanStep) -> None:
        log = self.cluster.log
        log.sync_s = step.value
        await asyncio.sleep(step.value)
        log.sync_s = SYNC_S

    async def _fail_store(self, step: PlanStep) -> None:
        """The API server's disk fails: what is being written is there or not, and nothing else is accepted
        until it works again."""
        self.cluster.log.broken = True
        await asyncio.sleep(step.value)
        self.cluster.log.broken = False

    async def _webhook_fails(self, step: PlanStep) -> None:
        self.cluster.network.webhook = webhook.drawn(step.how)
        await asyncio.sleep(step.value)
        self.cluster.network.webhook = None

    async def _cut(self, step: PlanStep) -> None:
        """In half of the cases its peers do not hear it, either."""
        wire, name = self.cluster.peers, self._part(step.on).name
        if wire is not None and step.how % 2:
            wire.cut.add(name)
        await self._disturb(step, lambda part: part.link.cut())
        if wire is not None:
            wire.cut.discard(name)

    async def _cut_requests(self, step: PlanStep) -> None:
        await self._disturb(step, lambda part: part.link.cut(replies=False))

    async def _cut_replies(self, step: PlanStep) -> None:
        await self._disturb(step, lambda part: part.link.cut(requests=False))

    async def _storm(self, step: PlanStep) -> None:
        def begin(part: Part) -> None:
            conditions = part.link.conditions
            conditions.lost = conditions.unanswered = conditions.late = conditions.repeated = 0.1

        await self._disturb(step, begin)

    async def _lose_rare(self, step: PlanStep) -> None:
        """Whatever else happens to the link meanwhile, and ends."""
        link, rare = self._part(step.on).link, RareRequests()
        link.rare = rare
        await asyncio.sleep(step.value)
        if link.rare is rare:
            link.rare = None

    async def _watch_lag(self, step: PlanStep) -> None:
        def begin(part: Part) -> None:
            part.link.conditions.watch_lag = 1.0 + step.how * 3

        await self._disturb(step, begin)

    async def _late_kind(self, step: PlanStep) -> None:
        """Each watch is a stream of its own: of one kind a part knows less than of all others."""

        def begin(part: Part) -> None:
            conditions = part.link.conditions
            conditions.late_kind = LATE_KINDS[step.how % len(LATE_KINDS)]
            conditions.late_by = LATE_S * (1 + 3 * (step.how // len(LATE_KINDS)))

        await self._disturb(step, begin)

    async def _expire_watch(self, step: PlanStep) -> None:
        """It reads nothing of its watches. Then it goes on where it was, or (how odd) that is forgotten: the
        API server keeps the last changes alone."""

        def begin(part: Part) -> None:
            conditions = part.link.conditions
            conditions.unread = conditions.unread or asyncio.Event()
            if step.how % 2:
                self.cluster.keep_history(KEPT)

        await self._disturb(step, begin)
        self.cluster.keep_history()

    async def _old_lists(self, step: PlanStep) -> None:
        def begin(part: Part) -> None:
            part.link.conditions.replica_lag = REPLICA_LAG_S * (1 + step.how % 4)

        await self._disturb(step, begin)

    async def _disturb(self, step: PlanStep, begin: Callable[[Part], None]) -> None:
        part = self._part(step.on)
        begin(part)
        await asyncio.sleep(step.value)
        part.link.clear()

    async def _skew(self, step: PlanStep) -> None:
        """A clock that is wrong; for some it jumps back to what is right later."""
        actor = self._part(step.on).actor
        if actor is not None:
            actor.skew = step.value
            if step.how % 2:
                await asyncio.sleep(step.how * 15)
                actor.skew = 0.0

    async def _slow_stop(self, step: PlanStep) -> None:
        self.cluster.machines[step.on].runtime.stop_s = step.value


def check(step: asyncio.Task[None]) -> None:
    """A step may fail because the API server does not answer; any other failure is a mistake of the played
    world, and ends the run."""
    error = None if step.cancelled() else step.exception()
    assert error is None or isinstance(error, KubeError), f"a step of the plan failed: {error!r}"
