"""The attach/detach controller: what is decided for a volume is done through the API, and nothing is remembered.

The unit of work is a volume, by its unique name. Changes of pods, claims, volumes, nodes and VolumeAttachments mark the
volumes that they touch, and only those are decided again; timers wake single volumes. A slow sweep looks at everything
once more and counts what it had to correct: nothing, if no change was missed. Attaching and detaching itself is the
attacher's work; this controller knows no storage. What it writes, and on what condition, is in `handshake`; what it
decides, in `decide`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from mooring.controllers.attachdetach import events, metrics
from mooring.controllers.attachdetach.adoption import is_unknown
from mooring.controllers.attachdetach.clock import one_clock
from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.handshake import Handshake, Released
from mooring.controllers.attachdetach.index import VolumeIndex
from mooring.controllers.attachdetach.observation import Observation
from mooring.controllers.attachdetach.rivals import Rivals
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    Decision,
    NodeState,
    Policy,
    Terms,
    VolumeState,
    demands_of,
)
from mooring.controllers.attachdetach.sweep import SWEEP, SWEEP_S, Sweep
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, KubeError, NotFound
from mooring.kube.objects import Node, Object, PersistentVolume, VolumeAttachment
from mooring.kube.times import Now
from mooring.volumes.attachment_lock import Lock, lock_of
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import RECONSTRUCTED
from mooring.volumes.plugin_manager import PluginManager

SOON_S = 0.05
DOING = (Action.ATTACH, Action.GRANT, Action.RESTORE, Action.RESTAMP, Action.NOTE, Action.REPORT, Action.DETACH)
SILENT = (Action.ATTACH, Action.SETTLED)
"""What nobody is told of."""


@dataclass(frozen=True)
class AttachDetachOptions:
    """What an operator can say. `revokes`: driver or plugin to whether its detach cuts a node off for good, against
    what is known of it. `left_out`: drivers whose volumes somebody else attaches. `observe`: nothing is written."""

    policy: Policy = Policy()  # noqa: RUF009 - immutable
    revokes: Mapping[str, bool] = field(default_factory=dict[str, bool])
    left_out: frozenset[str] = frozenset()
    observe: bool = False


class AttachDetachController(Controller):
    """Creates and deletes VolumeAttachments and derives `node.status.volumesAttached` from them."""

    name = "attachdetach-controller"
    workers = 512  # nearly all wait: for answers, and for what else changes about their nodes

    def __init__(
        self,
        client: Client,
        plugins: PluginManager,
        *,
        now: Now,
        random: Random,
        options: AttachDetachOptions = AttachDetachOptions(),
    ) -> None:
        super().__init__(client, now=now, random=random)
        self._options = options
        self._index = VolumeIndex(self, plugins, revokes=options.revokes, left_out=options.left_out)
        self._attachability = self._index.attachability
        self._handshake = Handshake(
            client,
            self._index.records,
            self._index.nodes,
            now=now,
            random=random,
            answers_for=self._attachability.answers_for,
            named=self._index.adoption.volume,
            writing=(rivals := Rivals(self._tell_of_rival)).writing,
        )
        self._rivals = rivals
        self._index.nodes.add_handler(rivals.node_changed)
        self._index.records.add_handler(rivals.record_changed)
        self._volumes = metrics.Volumes()
        self._observation = Observation(self.log) if options.observe else None
        self._sweep = Sweep(self._index)
        # Deletions that were asked for and that the cache does not show yet: VolumeAttachment name -> uid.
        self._deleted: dict[str, str] = {}
        self._index.records.add_handler(self._forget_deleted)
        # (volume, node) -> what events said, to whom, and when (the loop's time)
        self._told: dict[tuple[str, str], tuple[tuple[str, ...], float]] = {}

    async def started(self) -> None:
        self._rivals.active = not self._options.observe
        try:
            self._handshake.one_clock = await one_clock(self.client)
        except KubeError as error:  # not known: then every report reads what it lists
            self.log.warning("ClockNotKnown", error=str(error))
        self.queue.add_after(SWEEP, SWEEP_S)

    async def lead(self) -> None:
        try:
            await super().lead()
        finally:
            self._volumes.clear()

    # --- one volume ----------------------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> None:
        """Decides about one volume and does what was decided."""
        if key == SWEEP:
            self.queue.add_after(SWEEP, self._sweep.next(self._correct))
            return
        state = self._state(key)
        decisions = decide(state)
        self._volumes.note(state, decisions)
        if self._observation is not None:
            again = self._observation.note(state, decisions)
            self.queue.add_after(key, again) if again else None
            return
        for decision in decisions:
            self._tell(decision, state)
            await self._do(key, decision, state)
            if decision.after:
                self.queue.add_after(key, decision.after + SOON_S)

    def _correct(self, volume: str) -> None:
        """Looks whether something is to be done about the volume that no change and no timer would have brought up."""
        if volume in self.queue:
            return
        missed = next((each for each in decide(self._state(volume)) if each.action in DOING), None)
        if missed is not None:
            metrics.corrected(missed.action)
            self.log.warning("missed", volume=volume, node=missed.node, action=missed.action.value)
            self.queue.add(volume)

    def _state(self, volume: str) -> VolumeState:
        records = [record for record in self._index.records_of(volume) if not self._vanished(record)]
        demands = demands_of(self._index.users(volume))
        concerned = {demand.node for demand in demands} | {record.spec.node_name for record in records}
        found = [node for name in sorted(concerned) if (node := self._index.nodes.get(name))]
        spec = self._index.spec_of(volume)
        revokes = bool(records) and self._attachability.revokes(volume, spec)
        return VolumeState(
            volume=volume,
            several_nodes=spec is not None and self._attachability.several_nodes(spec),
            demands=demands,
            attachments=tuple(self._attachment(record) for record in records),
            nodes={node.name: NodeState.of(node, volume) for node in found},
            terms=Terms(self._options.policy, self.now(), revokes),
            locked=spec is not None and self._attachability.needs_lock(spec),
            lock=_lock(spec.persistent_volume if spec is not None else None),
        )

    def _forget_deleted(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is None:
            self._deleted.pop(old.name, None)

    def _vanished(self, record: VolumeAttachment) -> bool:
        """Its deletion was asked for, and nothing held it: the cache is late."""
        return self._deleted.get(record.name) == record.uid and not record.metadata.finalizers

    def _attachment(self, record: VolumeAttachment) -> Attachment:
        asked = self._deleted.get(record.name) == record.uid
        if record.deleting or not asked:
            self._deleted.pop(record.name, None)
        attachment = Attachment.of(record)
        return replace(attachment, deleting=True) if asked else attachment

    # --- doing ---------------------------------------------------------------------------------------------------

    async def _do(self, volume: str, decision: Decision, state: VolumeState) -> None:
        if decision.action not in DOING:
            return
        match decision.action:
            case Action.ATTACH:
                await self._attach(volume, decision, state)
            case Action.GRANT:
                node = self._node(decision.node)
                await self._handshake.grant(self._record(volume, decision.node), node, decision.pods[0])
            case Action.RESTORE:
                await self._handshake.restore(self._record(volume, decision.node))
            case Action.RESTAMP:
                await self._handshake.restamp(self._record(volume, decision.node), self._node(decision.node))
            case Action.NOTE:
                await self._handshake.note(self._record(volume, decision.node), decision.notes)
            case Action.REPORT:
                record = self._record(volume, decision.node)
                locked = state.locked or (state.lock or Lock()).epoch > 0
                if not await self._handshake.report(record, locked=locked):
                    self.queue.add_after(volume, SOON_S)
            case _:
                await self._detach(volume, decision, state)
        self.log.info(decision.action.value, volume=volume, node=decision.node, reason=decision.reason.message)

    async def _attach(self, volume: str, decision: Decision, state: VolumeState) -> None:
        spec, node = self._index.spec_of(volume), self._node(decision.node)
        assert spec is not None, f"volume {volume} is wanted, but nothing defines it"
        try:
            await self._handshake.attach(volume, node, spec, locked=state.locked, pod=decision.pods[0])
        except AlreadyExists:
            self.queue.add_after(volume, SOON_S)  # an older one of the same name is still going
            return
        if state.locked and RECONSTRUCTED not in node.metadata.annotations and spec.persistent_volume is not None:
            said = f"volume {spec.name} is locked for node {node.name}, whose kubelet does not look at the lock"
            advice = "nothing keeps it from mounting a volume that another node has"
            self.recorder.event(spec.persistent_volume, "Warning", "LockIsAdvisory", f"{said}: {advice}")

    async def _detach(self, volume: str, decision: Decision, state: VolumeState) -> None:
        record = self._record(volume, decision.node)
        if is_unknown(volume) and await self._persistent_volume_exists(record):
            self.queue.add_after(volume, 1.0)  # it is not in the cache yet
            return
        released = await self._handshake.detach(record, state.terms, exclusive=not state.several_nodes)
        if released.verdict.allowed:
            self._deleted[released.record.name] = released.record.uid
            if released.verdict.forced:
                self._tell_forced(volume, decision, released)
        self.queue.add_after(volume, SOON_S)

    async def _persistent_volume_exists(self, record: VolumeAttachment) -> bool:
        name = record.spec.source.persistent_volume_name or ""
        return await self.client.find(PersistentVolume, name) is not None

    def _record(self, volume: str, node: str) -> VolumeAttachment:
        """What was decided about; NotFound if it went while an earlier decision was carried out: decide again."""
        record = self._find_record(volume, node)
        if record is None:
            raise NotFound(f"volume {volume} has no VolumeAttachment on node {node} any more", status=404)
        return record

    def _find_record(self, volume: str, node: str) -> VolumeAttachment | None:
        return next((each for each in self._index.records_of(volume) if each.spec.node_name == node), None)

    def _node(self, name: str) -> Node:
        node = self._index.nodes.get(name)
        if node is None:
            raise NotFound(f"node {name} does not exist any more", status=404)
        return node

    # --- telling -------------------------------------------------------------------------------------------------

    def _tell_forced(self, volume: str, decision: Decision, released: Released) -> None:
        """Every forced release is an event with its evidence: on the Node, or on the VolumeAttachment if it is gone."""
        reason = released.verdict.reason
        metrics.forced(reason.code)
        self.log.warning("forced detach", volume=volume, node=decision.node, reason=reason.message)
        about: Object = self._index.nodes.get(decision.node) or released.record
        self.recorder.event(about, "Warning", "ForcedDetach", f"volume {volume}: {reason.message}")

    def _tell_of_rival(self, name: str, message: str) -> None:
        self.log.warning("AnotherAttachDetachController", node=name, reason=message)
        node = self._index.nodes.get(name)
        if node is not None:
            self.recorder.event(node, "Warning", "AnotherAttachDetachController", message)

    def _tell(self, decision: Decision, state: VolumeState) -> None:
        """Says what users must know: once for each change of it, and again while it lasts."""
        if decision.action in SILENT:
            self._say((state.volume, decision.node), [])
            return
        volume, record = state.volume, self._find_record(state.volume, decision.node)
        spec = self._index.spec_of(volume)
        name = spec.name if spec is not None else volume
        pods = [pod for key in decision.pods if (pod := self._index.pods.get(key)) is not None]
        said: list[tuple[Object, events.Told]] = []
        if decision.action is Action.BLOCKED and decision.reason.code == "MultiAttach":
            said = [(pod, events.multi_attach(name, pod.key, decision, state)) for pod in pods]
        elif told := events.about_pods(name, decision, record):
            said = [(pod, told) for pod in pods]
        elif (told := events.about_node(name, record)) and (node := self._index.nodes.get(decision.node)):
            said = [(node, told)]
        self._say((volume, decision.node), said)

    def _say(self, key: tuple[str, str], said: list[tuple[Object, events.Told]]) -> None:
        if not said:
            self._told.pop(key, None)
            return
        told = tuple(word for about, words in said for word in (about.uid, *words))
        before, when = self._told.get(key, ((), 0.0))
        now, lasts = asyncio.get_running_loop().time(), said[0][1].type == "Warning"
        if told != before or (lasts and when + events.REPEAT_S <= now):
            self._told[key] = (told, when := now)
            for about, words in said:
                self.recorder.event(about, "Warning" if words.type == "Warning" else "Normal", *words[1:])
        if lasts:
            self.queue.add_after(key[0], when + events.REPEAT_S - now)


def _lock(persistent_volume: PersistentVolume | None) -> Lock | None:
    try:
        return lock_of(persistent_volume)
    except VolumeError:
        return None
