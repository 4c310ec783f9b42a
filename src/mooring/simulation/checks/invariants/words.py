"""S38: what a part tells people of the cluster in Events is so, or was so lately.

Only sentences about what the trace shows are judged; each stands here once, with the fact that it tells.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, VOLUMES, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.out_of_service import TAINT

LATELY_S = 60.0
"""An Event tells what was seen when its work began; one that is told again is gathered for a while."""
NEVER = "never"


class Said(NamedTuple):
    """A sentence, and the kind of fact that it tells of what it names."""

    sentence: re.Pattern[str]
    fact: str


SENTENCES = (
    Said(re.compile(r"\bnode (\S+) does not exist any more"), "no node"),
    Said(re.compile(r"\bNode (\S+) was deleted"), "no node"),
    Said(re.compile(r"^PodGC: node (\S+) no longer exists"), "no node"),
    Said(re.compile(r"\bnode (\S+) does not answer"), "silent"),
    Said(re.compile(r"^Node (\S+) has not renewed its lease"), "silent"),
    Said(re.compile(r"\bnode (\S+) was declared out of service"), "tainted"),
    Said(re.compile(r"^Successfully provisioned volume (\S+)"), "volume"),
    Said(re.compile(r"^AttachVolume.Attach succeeded for volume \"(\S+)\""), "attached"),
    Said(re.compile(r"^volume (\S+) is still attached to node"), "recorded"),
    Said(re.compile(r"^bound claim has lost its volume (\S+)"), "no volume"),
    Said(re.compile(r"(is this really EC2's endpoint)"), NEVER),
)
"""EC2's endpoint always answers as EC2 does here."""


class WhatIsSaidIsSo(Checker):
    """S38: what a part tells people of the cluster in Events is so, or was so lately, as far as the trace
    shows it."""

    name = "S38"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        # Kind of fact, and of what -> the objects that show it now: a volume has a VolumeAttachment per node
        self._there: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._last: dict[tuple[str, str], float] = {}  # until when it was so, where it is not so now
        self._told: set[tuple[str, str]] = set()
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("told.event", lambda event: self._judge(event.fields.get("_message", ""), event))

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource in ("nodes", VOLUMES, ATTACHMENTS):
            for fact, about, holds in _facts(resource, name, object_of(event)):
                self._set((fact, about), name, holds, event.time)

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource in ("nodes", VOLUMES, ATTACHMENTS):
            for fact, about, _ in _facts(resource, name, object_of(event)):
                self._set((fact, about), name, fact.startswith("no "), event.time)

    def _set(self, what: tuple[str, str], shown_by: str, holds: bool, now: float) -> None:
        there = self._there[what]
        if holds:
            there.add(shown_by)
        elif shown_by in there:
            there.discard(shown_by)
            self._last[what] = now

    def _judge(self, message: str, event: Event) -> None:
        for sentence, fact in SENTENCES:
            for about in sentence.findall(message):
                self.guarded += 1
                if not self._was_so(fact, about.rstrip(",;:."), event) and (fact, about) not in self._told:
                    self._told.add((fact, about))
                    self.wrong(f"{event.actor} says what was not so: {message}", event)

    def _was_so(self, fact: str, about: str, event: Event) -> bool:
        if fact == NEVER:
            return False
        if fact.startswith("no ") and (fact, about) not in self._last and not self._there[fact[3:], about]:
            return True
        since = event.time - LATELY_S
        lately = bool(self._there[fact, about]) or self._last.get((fact, about), -math.inf) >= since
        return lately or self._faults.disturbed((event.actor,), since)


def _facts(resource: str, name: str, body: StoredObject) -> Iterator[tuple[str, str, bool]]:
    """What an object that is there shows: kind of fact, of what, and whether it is so."""
    if resource == "nodes":
        yield "node", name, True
        yield "no node", name, False
        yield "silent", name, body.ready == "Unknown"
        yield "tainted", name, any(taint.key == TAINT for taint in body.spec.taints)
    elif resource == VOLUMES:
        yield "volume", name, True
        yield "no volume", name, False
    else:
        yield "attached", body.volume_name, body.status.attached
        yield "recorded", body.volume_name, True
