"""Invariants of fences: whom they may strike, and what they may release.

Whether a boot is over, or shut out of a volume, is the checkers' own account, of the machines' true power and
of the storage; which fence there is, and what it says of itself, is never believed.
"""

from __future__ import annotations

import math

import msgspec

from mooring.controllers.fencing.names import TAINT_VALUE
from mooring.fence.interface import Outcome, Scope
from mooring.kube.objects.fencing import FenceAttempt, FenceTarget, NodeFence
from mooring.simulation.checks.invariants.asked_fences import AskedFences
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Releases
from mooring.simulation.checks.invariants.node_reports import NodeReports
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.checks.invariants.power import Boots
from mooring.simulation.checks.invariants.statements import Removed, Statements
from mooring.simulation.checks.invariants.told_counts import ToldCounts
from mooring.simulation.checks.invariants.vetoes import Vetoes
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import NODE_UID
from mooring.volumes.out_of_service import TAINT

FENCES = "nodefences.fencing.mooring.dev"
VIEW_S = 25.0
"""For so long an order may be on its way, and go by a state that is over."""
OVER = ("Unfenced", "Cancelled", "Refused")

_decode = msgspec.json.Decoder(NodeFence).decode


class BlastRadius(Checker):
    """S17: fences strike no more nodes at once than the policy's budget allows, none in a storm, none that
    answers, and none that a peer hears whose word is a veto, unless a user has asked for it; none that its
    storage has told to read or write; no fence says that it was asked for, and was not; and no order is given
    that was not written before, or about a boot in whose place another one reports. What an order could know
    is what was so when it was sent: a process that is paused after that sends it on its way when it goes
    on."""

    name = "S17"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._settings = Settings.of(trace)
        self._reports = NodeReports.of(trace)
        self._dead = Statements.of(trace)
        self._asked = AskedFences(trace, VIEW_S)
        self._vetoes = Vetoes(trace, self._settings.veto_expires_s, VIEW_S)
        self._told = ToldCounts(trace, self._settings.vetoing_storages)
        self._struck: dict[str, float] = {}
        """Node -> when it was ordered off first by the policy, and has not come back, nor been let in. What
        users ask for may come at any time, and does not count."""
        self._by_hand: dict[str, float] = {}
        """The same of what users asked for: such a node is no part of a storm."""
        self._written: dict[str, tuple[str, str]] = {}  # token -> node and boot
        self._written_at: dict[str, float] = {}
        """Token -> when its order was written down: then it was decided upon, and may happen from then on."""
        self._begun: set[str] = set()  # names of fences of which an order was given
        self._under_way: dict[str, str] = {}  # fence -> its node, if it has begun and is not over
        self._fence_of: dict[str, str] = {}  # token -> the name of its fence
        self._shown: dict[str, tuple[str, float]] = {}  # node -> the boot that its Node shows, and since when
        self._shut: set[str] = set()
        """Nodes that a storage shuts out: to order that once more changes nothing."""
        self._off: set[str] = set()
        """Those whose machine is off, likewise."""
        trace.listen("truth.power", self._switched)
        trace.listen("truth.shut-out", lambda event: self._shut.add(event.fields["node"]))
        trace.listen("truth.ordered", self._ordered)
        trace.listen("truth.let-in", self._let_in)
        trace.listen("store.written", self._note)

    def _note(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self._note_boot(event)
            self._forget_those_back(event.time)
        if event.fields["resource"] != FENCES:
            return
        fence, name = _decode(event.fields["_body"]), event.fields["name"]
        if not self._asked.is_true(name, fence, event.time):
            self.wrong(f"NodeFence {name} says that it was asked for: {fence.spec.requested_by}", event)
        if storage := self._told.against(name, fence, event.time):
            self.wrong(f"{fence.spec.node_name} is fenced although {storage} tells that it works", event)
        target = fence.status.target
        begun = bool(fence.status.attempts) and fence.status.phase not in OVER
        self._under_way[name] = fence.spec.node_name if begun else ""
        self._fence_of |= {each.token: name for each in fence.status.attempts}
        if target is not None:
            for each in fence.status.attempts:
                self._written[each.token] = target.node_name, target.boot_id
                self._written_at.setdefault(each.token, event.time)

    def _note_boot(self, event: Event) -> None:
        node, boot = event.fields["name"], object_of(event).status.node_info.boot_id
        if self._shown.get(node, ("", 0.0))[0] != boot:
            self._shown[node] = boot, event.time

    def _switched(self, event: Event) -> None:
        (self._off.discard if event.fields["on"] else self._off.add)(event.actor)

    def _let_in(self, event: Event) -> None:
        for struck in (self._struck, self._by_hand):
            struck.pop(event.fields["node"], None)
        self._shut.discard(event.fields["node"])

    def _ordered(self, event: Event) -> None:
        node, token, now = event.fields["node"], event.fields["token"], event.time
        sent = event.fields.get("sent", now)
        paused = now - sent > VIEW_S
        self.guarded += 1
        self._forget_those_back(now)
        if self._written.get(token) != (node, event.fields["boot"]):
            self.wrong(f"{event.actor} is ordered to cut {node} off, which was not written before", event)
        shown, since = self._shown.get(node, ("", now))
        if shown != event.fields["boot"] and sent - since > VIEW_S and node not in self._shut:
            self.wrong(
                f"{event.actor} is ordered to cut an earlier boot of {node} off, which shows {shown}", event
            )
        fence = self._fence_of.get(token, "")
        by_hand = self._asked.has(fence)
        first = node not in self._struck and not (by_hand and fence in self._begun)
        self._begun.add(fence)
        struck = {**self._by_hand, **self._struck}
        others = sorted(each for each, at in struck.items() if each != node and not (paused and at > sent))
        (self._by_hand if by_hand else self._struck).setdefault(node, now)
        if not by_hand and node not in self._shut | self._off:
            self._check_silent(node, sent, event)
        most = self._settings.fence_budget
        if first and most and len(others) >= most:
            self.wrong(f"{node} is fenced beside {', '.join(others)}: at most {most} may be", event)
        if first:
            self._storm(node, min(sent, self._written_at.get(token, sent)), event)
        if first and (peer := self._vetoes.of(node, event.fields["boot"], sent)):
            self.wrong(f"{node} is fenced although {peer} hears it", event)

    def _check_silent(self, node: str, sent: float, event: Event) -> None:
        report = self._reports[node]
        silent_until = max(report.unknown_until, report.absent_until)
        if report.silent_since == math.inf and sent - silent_until > VIEW_S:
            self.wrong(f"{event.actor} is ordered to cut {node} off, which answers", event)

    def _storm(self, node: str, decided: float, event: Event) -> None:
        lost = {
            name
            for name, each in self._reports.items()
            if decided - each.unknown_since > VIEW_S and name not in self._dead
        }
        lost -= (self._struck.keys() - {node}) | self._by_hand.keys()
        lost -= set(self._under_way.values()) - {node}  # one that is shut out may answer, and be lost then
        limit = self._settings.fence_storm
        if limit and len(lost) >= limit:
            self.wrong(f"{node} is fenced while {', '.join(sorted(lost))} are lost at once", event)

    def _forget_those_back(self, now: float) -> None:
        for struck in (self._struck, self._by_hand):
            for node in [each for each, at in struck.items() if self._is_back(each, at, now)]:
                del struck[node]

    def _is_back(self, node: str, since: float, now: float) -> bool:
        """Whether it has answered since, or its Node is gone."""
        report = self._reports[node]
        return report.node is None or (report.sign > since and report.silent_since > now)


class ReleasedByFences(Checker):
    """S18: what is released because of a fence, a VolumeAttachment or a pod, is that of a boot that is truly
    over, or a VolumeAttachment of a volume that its storage truly shuts the node out of, and the statement of
    a fence is true when it is made, also that one of its orders has cut its node off; a fence ends when
    another boot reports, or its storage lets its boot in, and its record stays until then."""

    name = "S18"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._boots = Boots.of(trace)
        self._reports = NodeReports.of(trace)
        self._releases = Releases.of(trace)
        self._dead = Statements.of(trace)
        self._removed = Removed.of(trace)
        self._stated: dict[str, str] = {}  # VolumeAttachment -> the evidence on it
        self._going: set[str] = set()
        self._tainted: set[str] = set()
        self._fences: dict[str, NodeFence] = {}
        self._let_in: set[tuple[str, str]] = set()  # node and boot: S18' judges whether it may be
        self._proved: set[str] = set()  # tokens
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.let-in", self._is_let_in)

    def _is_let_in(self, event: Event) -> None:
        self._let_in.add((event.fields["node"], event.fields.get("boot", "")))

    def _written(self, event: Event) -> None:
        match event.fields["resource"]:
            case "nodes":
                self._node(event.fields["name"], object_of(event), event)
            case resource if resource == ATTACHMENTS:
                self._record(event.fields["name"], object_of(event), event)
            case resource if resource == FENCES:
                self._fence(event.fields["name"], _decode(event.fields["_body"]), event)
            case _:
                pass

    def _deleted(self, event: Event) -> None:
        name, resource = event.fields["name"], event.fields["resource"]
        if resource == ATTACHMENTS:
            self._record(name, object_of(event), event, deleted=True)
            self._going.discard(name)
            self._stated.pop(name, None)
        elif resource == "nodes":
            self._tainted.discard(name)
        elif resource == "pods":
            self._pod(name, object_of(event), event)
        elif resource == FENCES:
            fence = self._fences.pop(name, None)
            if fence is not None and fence.status.attempts and fence.status.phase not in OVER:
                self.wrong(f"NodeFence {name} is gone, and is not over: {fence.status.phase}", event)

    # --- statements

    def _node(self, name: str, node: StoredObject, event: Event) -> None:
        tainted = is_fenced(node)
        if tainted and name not in self._tainted:
            self._stated_of(name, node.status.node_info.boot_id, event)
        (self._tainted.add if tainted else self._tainted.discard)(name)

    def _record(self, name: str, record: StoredObject, event: Event, *, deleted: bool = False) -> None:
        evidence, node = self._boots.evidence(record), record.spec.node_name
        said = f"{evidence.node_uid}/{evidence.boot_id}" if evidence is not None else ""
        if evidence is not None and self._stated.get(name, "") != said:
            self.guarded += 1
            if not self._boots.has_lost(node, evidence.boot_id, record.volume_name):
                boot = evidence.boot_id or "(none)"
                self.wrong(f"{name} says that {node} is fenced, whose boot {boot} may write to it", event)
            noted = record.metadata.annotations.get(NODE_UID, "")
            if noted not in ("", evidence.node_uid):
                self.wrong(f"{name} is of Node {noted}, and has evidence about {evidence.node_uid}", event)
        self._stated[name] = said
        if (record.going or deleted) and name not in self._going:
            self._going.add(name)
            self._begins(name, record, event)

    def _stated_of(self, node: str, boot: str, event: Event) -> None:
        self.guarded += 1
        if not self._boots.is_over(node, boot):
            self.wrong(f"its taint says that {node} is fenced, whose boot {boot or '(none)'} runs", event)

    # --- releases

    def _begins(self, name: str, record: StoredObject, event: Event) -> None:
        node = record.spec.node_name
        if self._boots.evidence(record) is None or node in self._dead:
            return
        if self._reports[node].has_let_go(record, event.time) or not self._releases.by_timer(
            name, record, event.time
        ):
            return
        self.guarded += 1
        if not self._boots.fenced(record):
            self.wrong(f"{record.volume_name} is taken from {node} for a fence of another boot", event)

    def _pod(self, name: str, pod: StoredObject, event: Event) -> None:
        node = self._reports[pod.spec.node_name].node
        if node is None or not is_fenced(node) or node.ready != "Unknown":
            return
        if pod.metadata.uid in self._removed or pod.spec.node_name in self._dead:
            return
        self.guarded += 1
        boot = node.status.node_info.boot_id
        if not self._boots.is_over(pod.spec.node_name, boot):
            self.wrong(f"pod {name} is removed by a fence, and boot {boot} of its machine runs", event)

    def _fence(self, name: str, fence: NodeFence, event: Event) -> None:
        former, self._fences[name] = self._fences.get(name), fence
        target, status = fence.status.target, fence.status
        if target is None:
            return
        self._orders(name, target, status.attempts, event)
        if status.phase != "Unfenced" or not status.released_at:
            return
        if former is not None and former.status.phase == "Unfenced":
            return
        node = self._reports[target.node_name].node
        if node is None or node.metadata.uid != target.node_uid:
            return
        if (target.node_name, target.boot_id) in self._let_in:
            return
        if node.status.node_info.boot_id == target.boot_id:
            self.wrong(f"NodeFence {name} is over, and no other boot has reported", event)

    def _orders(
        self, name: str, target: FenceTarget, attempts: tuple[FenceAttempt, ...], event: Event
    ) -> None:
        """What is said of an order when its answer is written: what came of it later is another matter."""
        for each in attempts:
            if each.outcome != Outcome.FENCED or each.token in self._proved:
                continue
            self._proved.add(each.token)
            self.guarded += 1
            if not self._holds(target, each):
                where = f"{target.node_name}, whose boot {target.boot_id or '(none)'} is not"
                self.wrong(f"NodeFence {name} says that {each.mechanism} has cut off {where}", event)

    def _holds(self, target: FenceTarget, attempt: FenceAttempt) -> bool:
        """Whether what the order was for is so: the boot is over, or shut out of each volume that it
        names."""
        if attempt.scope == Scope.STORAGE:
            return all(
                self._boots.has_lost(target.node_name, target.boot_id, volume)
                for volume in attempt.volumes.values()
            )
        return self._boots.is_over(target.node_name, target.boot_id)


def is_fenced(node: StoredObject) -> bool:
    """Whether a fence has set its taint."""
    return any(each.key == TAINT and each.value == TAINT_VALUE for each in node.spec.taints)
