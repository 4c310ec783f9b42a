"""The attach/detach controller: decides about one volume at a time, and writes what was decided.

A key is a volume, by its unique name. Changes of pods, claims, volumes, nodes and VolumeAttachments mark the
volumes that they touch, and only those are decided again; timers wake single volumes. A slow sweep decides
about everything once more and counts what it had to correct: nothing, if no change was missed.

Nothing is remembered that could not be read again. The storage is the attacher's: this controller does
not know any. What is decided is in `decide` and `release`; what is written, and under which
preconditions, in `handshake`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from msgspec.structs import replace

from mooring.controllers.attachdetach import events, metrics
from mooring.controllers.attachdetach.adoption import defined_by, is_unknown
from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.foreign_writes import ForeignWrites
from mooring.controllers.attachdetach.handshake import Handshake, Released
from mooring.controllers.attachdetach.index import VolumeIndex
from mooring.controllers.attachdetach.observation import Observation
from mooring.controllers.attachdetach.release import Release
from mooring.controllers.attachdetach.resource_versions import versions_comparable
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    NodeState,
    Policy,
    Terms,
    VolumeDecision,
    VolumeState,
    demands_of,
)
from mooring.controllers.attachdetach.sweep import SWEEP, SWEEP_S, Sweep, SweepKey
from mooring.controllers.attachdetach.timer_ages import TimerAges
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, is_refusal
from mooring.kube.objects import Node, Object, PersistentVolume, Pod, VolumeAttachment
from mooring.kube.rests import Rests
from mooring.kube.times import Now
from mooring.volumes.attachment_lock import Lock, lock_of
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import RECONSTRUCTED, volume_of
from mooring.volumes.plugin_manager import PluginManager

Key = str | SweepKey
"""A volume, by its unique name; or the sweep over all of them."""

_Since = tuple[tuple[str, ...], float]
"""What was told, or who waits, and since when (the loop's time)."""
SOON_S = 0.05
OF_SEVERAL_WRITES = (Action.ATTACH, Action.GRANT, Action.RESTAMP, Action.DETACH)
"""Actions that write more than once: if a later write is refused, an earlier one has woken the volume."""
SETTLES_S = 1.0
"""Between one and two times so long stands a lock before it is granted anew to the node that has it."""
WRITING = (
    Action.ATTACH,
    Action.GRANT,
    Action.RESTORE,
    Action.RESTAMP,
    Action.NOTE,
    Action.REPORT,
    Action.DETACH,
)
"""Actions that write something."""
WITHOUT_EVENT = (Action.ATTACH, Action.SETTLED)
"""Actions that users get no event about."""


@dataclass(frozen=True)
class AttachDetachOptions:
    """What the operator has set. `revokes`: for a driver or plugin, whether its detach revokes the node's
    access for good, in place of what is known of it. `left_out`: drivers whose volumes another controller
    attaches. `observe`: decide, log and count, and write nothing. `swept` is told of each volume that the
    full sweep has looked at, and of what nothing but the sweep has found (expected: None)."""

    policy: Policy = Policy()  # noqa: RUF009 - immutable
    revokes: Mapping[str, bool] = field(default_factory=dict[str, bool])
    left_out: frozenset[str] = frozenset()
    observe: bool = False
    swept: Callable[[str, VolumeDecision | None], None] = lambda volume, missed: None


class AttachDetachController(Controller[Key]):
    """Creates and deletes VolumeAttachments and derives `node.status.volumesAttached` from them."""

    name = "attachdetach-controller"
    workers = 512  # nearly all of them wait: for answers, and for the common write of their node

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
            writing=(foreign_writes := ForeignWrites(self._report_foreign_write)).writing,
            locked=self._index.persistent_volumes.accept,
        )
        self._foreign_writes = foreign_writes
        self._index.nodes.add_handler(foreign_writes.node_changed)
        self._index.records.add_handler(foreign_writes.record_changed)
        self._volumes = metrics.Volumes()
        self._observation = Observation(self.log) if options.observe else None
        self._sweep = Sweep(self._index)
        self._timers = TimerAges(now)
        # Deletions that were requested and that the cache does not show yet: VolumeAttachment name -> uid.
        self._deleted: dict[str, str] = {}
        self._index.records.add_handler(self._forget_deleted)
        # volume -> node -> the last events about it, with their objects, and when they were sent (the loop's
        # time)
        self._last_events: dict[str, dict[str, _Since]] = {}
        # The same -> the pods that wait for it to leave another node, and since when
        self._waiting_since: dict[str, dict[str, _Since]] = {}
        # volume -> the epoch of a lock that is ahead of its VolumeAttachment, and until when (the loop's
        # time) another controller may still write it there
        self._settling: dict[str, tuple[int, float]] = {}
        # volume -> node and what was tried in vain there: what was read live, or the API server, refused what
        # the caches ask for, which may hide why for long. Most tries wake the volume themselves.
        self._in_vain: dict[str, Rests[tuple[str, Action]]] = {}

    async def started(self) -> None:
        self._foreign_writes.active = not self._options.observe
        try:
            self._handshake.lists.versions_comparable = await versions_comparable(self.client)
        except KubeError as error:  # then each report reads the VolumeAttachment live
            self.log.warning("ResourceVersionsNotCompared", error=str(error))
        self.queue.add_after(SWEEP, SWEEP_S)

    async def lead(self) -> None:
        try:
            await super().lead()
        finally:
            self._volumes.clear()

    # --- one volume

    async def reconcile(self, key: Key) -> None:
        """Decides about one volume and carries the decisions out; or looks at the next slice of the sweep."""
        if isinstance(key, SweepKey):
            self.queue.add_after(SWEEP, self._sweep.next(self._correct))
            return
        state = self._state(key)
        decisions = decide(state)
        self._volumes.note(state, decisions)
        if self._observation is not None:
            again = self._observation.note(state, decisions)
            self.queue.add_after(key, again) if again else None
            return
        await one_by_one(decisions, lambda decision: self._act(key, decision, state))
        if all(decision.action is not Action.GRANT for decision in decisions):
            self._settling.pop(key, None)
        if (rests := self._in_vain.get(key)) is not None:
            rests.end_others({(decision.node, decision.action) for decision in decisions})
            if not rests:
                self._in_vain.pop(key)
        for told in (self._last_events, self._waiting_since):
            _keep_only(told, key, {decision.node for decision in decisions})

    async def _act(self, volume: str, decision: VolumeDecision, state: VolumeState) -> None:
        """What is refused about one node keeps no other that wants or has the volume waiting."""
        self._send_events(decision, state)
        try:
            await self._try(volume, decision, state)
        except ApiError as error:
            if is_refusal(error):
                self._tell_refused(volume, decision, error)
            raise
        if decision.after:
            self.look_again(volume, decision.after + SOON_S)

    def missed(self, volume: str) -> VolumeDecision | None:
        """What is to be written about the volume though no change and no timer has said so; None: nothing."""
        if volume in self.queue:
            return None
        return next((each for each in decide(self._state(volume)) if each.action in WRITING), None)

    def volumes(self) -> set[str]:
        """The unique names of all volumes that are wanted or attached."""
        return {name for names in self._sweep.volumes() for name in names}

    def _correct(self, volume: str) -> None:
        """Marks the volume if something was missed."""
        missed = self.missed(volume)
        self._options.swept(volume, missed)
        if missed is not None:
            metrics.corrected(missed.action)
            self.log.warning("MissedByEvents", volume=volume, node=missed.node, action=missed.action.value)
            self.queue.add(volume)

    def _state(self, volume: str) -> VolumeState:
        records = [record for record in self._index.records_of(volume) if not self._vanished(record)]
        demands = demands_of(self._index.users(volume))
        concerned = {demand.node for demand in demands} | {record.spec.node_name for record in records}
        found = [node for name in sorted(concerned) if (node := self._index.nodes.get(name))]
        spec = self._index.spec_of(volume)
        revokes = bool(records) and self._attachability.revokes(volume, spec)
        attachments = tuple(self._attachment(record) for record in records)
        return VolumeState(
            volume=volume,
            several_nodes=spec is not None and self._attachability.several_nodes(spec),
            demands=demands,
            attachments=attachments,
            nodes={node.name: NodeState.of(node, volume) for node in found},
            terms=Terms(self._options.policy, self.now(), revokes, self._timers.of(volume, attachments)),
            locked=spec is not None and self._attachability.needs_lock(spec),
            lock=_lock(spec.persistent_volume if spec is not None else None),
        )

    def _forget_deleted(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is None:
            self._deleted.pop(old.name, None)
            self._in_vain.pop(volume_of(old), None)

    def _try_again(self, volume: str, decision: VolumeDecision) -> None:
        """It was in vain. The caches will show why, and wake the volume; a watch that is cut off may take
        minutes, so that tries without anything new come ever more seldom."""
        self._note_in_vain(volume, decision)
        self.queue.add_after(volume, max(SOON_S, self._rest_s(volume, decision)))

    def _note_in_vain(self, volume: str, decision: VolumeDecision) -> None:
        now = asyncio.get_running_loop().time()
        self._in_vain.setdefault(volume, Rests()).note((decision.node, decision.action), now)

    def _is_too_early(self, volume: str, decision: VolumeDecision) -> bool:
        """Whether the last try in vain is not long enough ago. If so, the volume is looked at in time."""
        left = self._rest_s(volume, decision)
        if left > 0:
            self.queue.add_after(volume, left)
        return left > 0

    def _rest_s(self, volume: str, decision: VolumeDecision) -> float:
        rests, tried = self._in_vain.get(volume), (decision.node, decision.action)
        return rests.left((tried,), asyncio.get_running_loop().time()) if rests is not None else 0.0

    def _vanished(self, record: VolumeAttachment) -> bool:
        """Whether the VolumeAttachment is deleted although the stale cache shows it: no finalizer held it."""
        return self._deleted.get(record.name) == record.uid and not record.metadata.finalizers

    def _attachment(self, record: VolumeAttachment) -> Attachment:
        requested = self._deleted.get(record.name) == record.uid
        if record.deleting or not requested:
            self._deleted.pop(record.name, None)
        attachment = Attachment.of(record)
        return replace(attachment, deleting=True) if requested else attachment

    # --- carrying out

    async def _try(self, volume: str, decision: VolumeDecision, state: VolumeState) -> None:
        """Carries a decision out, unless that was in vain a moment ago. Its own writes wake the volume, which
        must not end the backoff of what has failed: the API server would be asked without a pause. What was
        decided on something old is decided again soon in any case."""
        several = decision.action in OF_SEVERAL_WRITES
        if several and self._is_too_early(volume, decision):
            return
        if decision.action in WRITING:
            self._check_registration(decision.node, state)
        try:
            await self._carry_out(volume, decision, state)
        except KubeError as error:
            if several and not isinstance(error, (Conflict, NotFound)):
                self._note_in_vain(volume, decision)
            raise

    async def _carry_out(self, volume: str, decision: VolumeDecision, state: VolumeState) -> None:
        match decision.action:
            case Action.WAIT | Action.BLOCKED | Action.SETTLED:
                return
            case Action.ATTACH:
                await self._attach(volume, decision, state)
            case Action.GRANT:
                await self._grant(volume, decision, state.lock)
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
                    self._try_again(volume, decision)
            case Action.DETACH:
                await self._detach(volume, decision, state)
            case _:
                assert_never(decision.action)
        self.log.info(
            decision.action.value, volume=volume, node=decision.node, reason=decision.reason.message
        )

    async def _grant(self, volume: str, decision: VolumeDecision, lock: Lock | None) -> None:
        """Of two controllers that work at once, each would see the other's epoch before that stands on the
        VolumeAttachment, and raise it by turns. So an epoch that the node has got has its time."""
        if lock is not None and lock.node == decision.node:
            now = asyncio.get_running_loop().time()
            seen = self._settling.get(volume)
            if seen is None or seen[0] != lock.epoch:
                seen = self._settling[volume] = lock.epoch, now + SETTLES_S * (1 + self.random.random())
            if now < seen[1]:
                self.queue.add_after(volume, seen[1] - now)
                return
        node = self._node(decision.node)
        await self._handshake.grant(self._record(volume, decision.node), node, decision.pods[0])

    async def _attach(self, volume: str, decision: VolumeDecision, state: VolumeState) -> None:
        spec, node = self._index.spec_of(volume), self._node(decision.node)
        assert spec is not None, f"volume {volume} is wanted, but nothing defines it"
        try:
            await self._handshake.attach(volume, node, spec, locked=state.locked, pod=decision.pods[0])
        except AlreadyExists:  # an older one of the same name is still being deleted
            self._try_again(volume, decision)
            return
        if (
            state.locked
            and RECONSTRUCTED not in node.metadata.annotations
            and spec.persistent_volume is not None
        ):
            message = (
                f"volume {spec.name} is locked for node {node.name}, whose kubelet does not compare the lock"
            )
            risk = "nothing keeps it from mounting a volume that another node has"
            self.recorder.event(spec.persistent_volume, "Warning", "LockIsAdvisory", f"{message}: {risk}")

    async def _detach(self, volume: str, decision: VolumeDecision, state: VolumeState) -> None:
        if is_unknown(volume) and await self._is_defined(self._record(volume, decision.node)):
            self.queue.add_after(volume, 1.0)  # the cache is stale: it will tell which volume this is
            return
        record = self._record(volume, decision.node)  # as it is by now: that look took time
        released = await self._handshake.detach(record, state.terms, exclusive=not state.several_nodes)
        if released.verdict.action is Release.KEEP:
            self._try_again(volume, decision)
            return
        if released.verdict.allowed:
            held = self._index.records.get(released.record.name)
            if held is not None and held.uid == released.record.uid:  # else the watch was faster
                self._deleted[held.name] = held.uid
            if released.verdict.forced:
                self._report_force_detach(volume, decision, released)
        self.queue.add_after(volume, SOON_S)

    async def _is_defined(self, record: VolumeAttachment) -> bool:
        source = record.spec.source.persistent_volume_name
        found = await self.client.find(PersistentVolume, source) if source else None
        return found is not None and defined_by(record, found) is not None

    def _record(self, volume: str, node: str) -> VolumeAttachment:
        """Returns the VolumeAttachment that was decided about. Raises NotFound, so that the volume is decided
        about again, if it was deleted while an earlier decision was carried out."""
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

    def _check_registration(self, name: str, state: VolumeState) -> None:
        """Raises NotFound, so that the volume is decided about again, if another Node has the name by now, or
        none, than was decided about: an earlier decision may have taken seconds to carry out. What one Node
        says of its mounts must not be written down for the next."""
        known, now = state.nodes.get(name), self._index.nodes.get(name)
        if (known and known.uid) != (now and now.uid):
            raise NotFound(f"node {name} is another one than was decided about", status=404)

    # --- events

    def _report_force_detach(self, volume: str, decision: VolumeDecision, released: Released) -> None:
        """Every force detach is an event with its evidence: on the Node, or on the
        VolumeAttachment if there is no Node."""
        reason = released.verdict.reason
        metrics.forced(reason.code)
        self.log.warning("forced detach", volume=volume, node=decision.node, reason=reason.message)
        about: Object = self._index.nodes.get(decision.node) or released.record
        self.recorder.event(about, "Warning", "ForcedDetach", f"volume {volume}: {reason.message}")

    def _report_foreign_write(self, name: str, message: str) -> None:
        self.log.warning("AnotherAttachDetachController", node=name, reason=message)
        node = self._index.nodes.get(name)
        if node is not None:
            self.recorder.event(node, "Warning", "AnotherAttachDetachController", message)

    def _send_events(self, decision: VolumeDecision, state: VolumeState) -> None:
        """Sends the events about a decision: once for each change of them, and again while a
        warning lasts."""
        waits = decision.action is Action.BLOCKED and decision.reason.code == "MultiAttach"
        leaves = waits and events.is_leaving(decision, state)
        if not leaves:
            self._waiting_since.get(state.volume, {}).pop(decision.node, None)
        if decision.action in WITHOUT_EVENT:
            self._send(state.volume, decision.node, [])
            return
        volume, record = state.volume, self._find_record(state.volume, decision.node)
        spec = self._index.spec_of(volume)
        name = spec.name if spec is not None else volume
        pods = [pod for key in decision.pods if (pod := self._index.pods.get(key)) is not None]
        found: list[tuple[Object, events.EventText]] = []
        if leaves and not self._have_waited(volume, decision.node, pods):
            return
        if waits:
            found = [(pod, events.multi_attach(name, pod.key, decision, state)) for pod in pods]
        elif text := events.about_pods(name, decision, record):
            found = [(pod, text) for pod in pods]
        elif (text := events.about_node(name, record)) and (node := self._index.nodes.get(decision.node)):
            found = [(node, text)]
        self._send(volume, decision.node, found)

    def _tell_refused(self, volume: str, decision: VolumeDecision, error: ApiError) -> None:
        """Tells the pods that wait for the volume there what the API server refuses; if none wants it there,
        the Node, or the VolumeAttachment if there is no Node. A pod that runs is not concerned."""
        spec = self._index.spec_of(volume)
        _, code, message = events.refused(spec.name if spec is not None else volume, decision, error)
        told: list[Object | None] = [self._index.pods.get(key) for key in decision.pods]
        if not decision.pods:
            record = self._find_record(volume, decision.node)
            told = [self._index.nodes.get(decision.node) or record]
        for about in told:
            if about is not None and not (isinstance(about, Pod) and about.status.phase == "Running"):
                self.recorder.event(about, "Warning", code, message)

    def _have_waited(self, volume: str, node: str, pods: Sequence[Pod]) -> bool:
        """Whether it is news for these pods by now that their volume is on its way; if not, it is looked at
        again in time."""
        now, who = asyncio.get_running_loop().time(), tuple(pod.uid for pod in pods)
        waiting = self._waiting_since.setdefault(volume, {})
        before, since = waiting.get(node, ((), now))
        since = since if before == who else now
        waiting[node] = (who, since)
        if since + events.LEAVES_S > now:
            self.queue.add_after(volume, since + events.LEAVES_S - now)
            return False
        return True

    def _send(self, volume: str, node: str, found: list[tuple[Object, events.EventText]]) -> None:
        told = self._last_events.setdefault(volume, {})
        if not found:
            told.pop(node, None)
            return
        content = tuple(word for about, text in found for word in (about.uid, *text))
        before, when = told.get(node, ((), 0.0))
        now, lasts = asyncio.get_running_loop().time(), found[0][1].type == "Warning"
        if content != before or (lasts and when + events.REPEAT_S <= now):
            told[node] = (content, when := now)
            for about, text in found:
                self.recorder.event(about, "Warning" if text.type == "Warning" else "Normal", *text[1:])
        if lasts:
            self.queue.add_after(volume, when + events.REPEAT_S - now)


def _keep_only(told: dict[str, dict[str, _Since]], volume: str, nodes: set[str]) -> None:
    """Forgets what was told of a volume on nodes that have nothing to do with it any more."""
    rest = {node: since for node, since in told.pop(volume, {}).items() if node in nodes}
    if rest:
        told[volume] = rest


def _lock(persistent_volume: PersistentVolume | None) -> Lock | None:
    try:
        return lock_of(persistent_volume)
    except VolumeError:
        return None
