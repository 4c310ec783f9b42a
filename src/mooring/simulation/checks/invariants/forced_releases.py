"""What may be taken from a node against what it says: by an operator's word, or by a policy's timer.

How long a node has been silent, how long a timer has run, and which words are in force is measured here, by
the clock of the run. What the record says of a timer only tells that the controller has begun one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mooring.controllers.attachdetach.release import ABSENCE_S
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.node_reports import ON_ITS_WAY_S, NodeReports
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.checks.invariants.power import Boots
from mooring.simulation.checks.invariants.standing_words import StandingWords
from mooring.simulation.checks.invariants.statements import Statements
from mooring.simulation.checks.invariants.volume_users import Users
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import FORCE_DETACH_SINCE

Place = tuple[str, str]
"""Volume and node."""
ROUNDING_S = 1.5
"""A time in a record has no fractions, or is that of the request, not of the commit."""
CONTROLLER = "attaching"
"""The process whose clock the timers run by."""


def place(event: Event) -> Place:
    return event.fields["volume"], event.fields["node"]


class Releases:
    """Which attachments were ended against what their nodes said, by a policy or an operator's word: their
    VolumeAttachment began to be deleted while such a word was in force, or when the timer had run out. The
    policy's timer counts for what no pod wants: not while a pod uses the volume there that did so already
    when the timer began."""

    def __init__(self, trace: Trace) -> None:
        self._settings = Settings.of(trace)
        self._faults = Faults.of(trace)
        self._reports = NodeReports.of(trace)
        self._dead, self._boots = Statements.of(trace), Boots.of(trace)
        self._words = StandingWords.of(trace)
        self._users = Users.of(trace)
        self._forced: dict[str, Place] = {}  # VolumeAttachment -> place
        self._going: set[str] = set()
        self._timers: dict[str, tuple[float, frozenset[str]]] = {}
        """VolumeAttachment -> when its timer began, and who used the volume then."""
        self._stood_still = math.inf, -math.inf
        """From when till when the controller did so last, in the midst of its work."""
        self.on_begin: Callable[[StoredObject, str, Event], None] = lambda record, problem, event: None
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._written)
        trace.listen("truth.attached", self._attached)
        trace.listen("plan.stalled", self._stalled)
        trace.listen("plan.over", self._goes_on)

    @classmethod
    def of(cls, trace: Trace) -> Releases:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def __contains__(self, where: object) -> bool:
        return where in self._forced.values()

    def _stalled(self, event: Event) -> None:
        if event.actor == CONTROLLER:
            self._stood_still = event.time, math.inf

    def _goes_on(self, event: Event) -> None:
        if (event.fields["what"], event.fields["on"]) == ("stall", CONTROLLER):
            self._stood_still = self._stood_still[0], event.time

    def _decided(self, now: float) -> float:
        """When it may have been decided to send what arrives now: a process that stood still, with its last
        look behind it, sends it when it goes on. Nothing is lost: the storage revokes, and the mark keeps
        the node from mounting."""
        began, over = self._stood_still
        return began if 0 <= now - over <= ON_ITS_WAY_S else now

    def _attached(self, event: Event) -> None:
        self._forced = {name: where for name, where in self._forced.items() if where != place(event)}

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != ATTACHMENTS:
            return
        record, name, deleted = object_of(event), event.fields["name"], event.kind == "store.deleted"
        self._note_timer(name, record, event.time)
        if (record.going or deleted) and name not in self._going:
            self._going.add(name)
            self.on_begin(record, self._judge(name, record, event), event)
        if deleted or not record.going:
            self._going.discard(name)

    def _note_timer(self, name: str, record: StoredObject, now: float) -> None:
        if FORCE_DETACH_SINCE not in record.metadata.annotations:
            self._timers.pop(name, None)
        elif name not in self._timers:
            self._timers[name] = now, self._users.at(record.volume_name, record.spec.node_name)

    def _judge(self, name: str, record: StoredObject, event: Event) -> str:
        """It begins to go: with its node's consent, by force, or without any right; then what is wrong."""
        node, report, now = record.spec.node_name, self._reports[record.spec.node_name], event.time
        if report.has_let_go(record, now):
            return ""
        decided = self._decided(now)
        stated = self._dead.held_lately(node, decided) or self._words.free(name, record, decided)
        problem = "" if stated or self._boots.fenced(record) else self.by_timer(name, record, decided)
        if not problem:
            self._forced[name] = record.volume_name, node
        return problem

    def by_timer(self, name: str, record: StoredObject, now: float) -> str:
        """What keeps the policy's timers from ending this attachment; "" if nothing does."""
        settings, report = self._settings, self._reports[record.spec.node_name]
        absent_since, silent_since = report.just_before(now)
        silent = max(now - silent_since, 0.0)
        if settings.deletion_confirms and now - absent_since >= ABSENCE_S - ROUNDING_S:
            return ""
        began, then = self._timers.get(name, (now, frozenset[str]()))
        if not settings.force_detach_after_s or name not in self._timers or not silent:
            return f"has not let it go, and {'is silent' if silent else 'answers'}"
        if wanted := then & self._users.at(record.volume_name, record.spec.node_name):
            return f"has not let it go, and pod {min(wanted)} uses it"
        answered = silent_since > began and not self._faults.disturbed((CONTROLLER,), began)
        counts = silent if answered else now - began
        if counts + ROUNDING_S + self._faults.skew(CONTROLLER, began) < settings.force_detach_after_s:
            return f"has been silent for {silent:.0f} s, and the timer has run for {now - began:.0f} s"
        return ""


class ReleasedWithRight(Checker):
    """S23: a VolumeAttachment begins to go only when its node has been seen without the volume in its lists,
    while an operator's word about the node is in force, or has freed the volume for good (`StandingWords`);
    when the policy's timer has run out: for the whole of its time the node was silent; or because of a fence
    of the boot that its Node shows, which is truly over (S18)."""

    name = "S23"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        Releases.of(trace).on_begin = self._begins

    def _begins(self, record: StoredObject, problem: str, event: Event) -> None:
        self.guarded += 1
        if problem:
            where = f"{record.volume_name} begins to be taken from {record.spec.node_name}"
            self.wrong(f"{where}, which {problem}", event)
