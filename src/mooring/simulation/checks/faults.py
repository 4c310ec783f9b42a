"""Which faults are in force, on which part, since when and until when: from the trace alone.

A fault lasts from its `plan.step` to its `plan.over`; one whose step is over at once, until all is healed. A
crash begins when the part crashes, and what is off is so until its power comes back. After its end a part is
given time to recover: as long as the fault has lasted, up to the longest backoff, and the time of a few
retries.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from mooring.kube.workqueue import LAST_DELAY_S
from mooring.simulation.checks.settings import Settings
from mooring.simulation.cluster.controllers import VERIFY_S
from mooring.simulation.cluster.plan import ACTIONS
from mooring.simulation.engine.trace import Event, Trace

RETRIES_S = 45.0
"""After the shortest fault: an informer comes back (10 s), requests wait for late answers (30 s)."""
AT_POINT_S = 25.0
"""The longest that a fault at a single point lasts: what is late is so by 20 s."""
STORAGES = ("array", "ec2")
"""What was asked of them while they were slow takes that long."""
UNTOLD = ("array-takes-away",)
"""Kinds of which nothing tells: what they did is found when what is attached is verified, and a mount that
has failed until then is tried again after the longest backoff."""
UNVERIFIED = ("driver-leaves",)
"""Kinds under which a verification leaves a node out: nothing says how its driver knows it."""
VERIFIED_BY = ("attaching", "server", "api", *STORAGES)
"""The process that verifies (when it starts anew, so does its period), what it asks, and where it writes what
it has found: what one of them has kept from it is verified in the next period."""
LASTING_ACTS = ("slow-mount",)
"""Kinds under which what a node has begun takes that long, and, given up, is tried again."""
CLOCK = "clock of "
"""What is wrong with a part's clock is noted apart: its view of the world is right."""
BEYOND = ("crash", "stall", "doze")
"""Kinds that begin some time after their step."""
NO_FAULT = ("slow-stop", "slow-unmount")
"""Kinds that only make single acts slower, by seconds that are known (`slowness`)."""


class _Spell:
    """A time in which faults are in force on a part, one after the other."""

    def __init__(self) -> None:
        self.active = 0
        self.since = -math.inf
        self.over = -math.inf  # with the recovery
        self.last = ""
        self.longest = 0.0  # for so long what was begun meanwhile, or happened unseen, may go on


class Faults:
    """The account of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._spells: defaultdict[str, _Spell] = defaultdict(_Spell)
        self._begun: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._lasting: list[str] = []
        self._untold: set[str] = set()  # nodes of which something may be found only by a verification
        self._slow: dict[str, tuple[float, float]] = {}  # node -> seconds, until when
        self._skews: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self._nodes = Settings.of(trace).nodes
        trace.listen("plan.step", self._step)
        trace.listen("plan.over", self._over)
        trace.listen("plan.crashed", lambda event: self._begin(event.actor, "crash", event.time))
        trace.listen("plan.stalled", lambda event: self._begin(event.actor, "stall", event.time))
        trace.listen("plan.point", self._point)
        trace.listen("plan.healed", self._healed)
        trace.listen("truth.power", self._power)

    @classmethod
    def of(cls, trace: Trace) -> Faults:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def explained_until(self, nodes: Iterable[str], now: float) -> tuple[float, str]:
        """Until when faults explain that something which concerns these nodes, and the control plane, is
        late; and the fault. `inf` while one is in force."""
        latest, cause = -math.inf, ""
        for part, spell in self._spells.items():
            until = math.inf if spell.active else spell.over
            whose = part.removeprefix(CLOCK)
            if until > latest and (whose not in self._nodes or whose in nodes):
                latest, cause = until, spell.last
        return latest, cause

    def slowness(self, nodes: Iterable[str], now: float) -> float:
        """By how many seconds single acts on these nodes take longer."""
        slow = (self._slow.get(node, (0.0, 0.0)) for node in nodes)
        return max((seconds for seconds, until in slow if now <= until), default=0.0)

    def disturbed(self, parts: Iterable[str], since: float) -> bool:
        """Whether a fault was in force on one of the parts, or on the API server, at any time since then, so
        that its view of the world may have been old. A wrong clock is none (`skew`)."""
        until = self.disturbed_until(parts)
        return until >= since and until > -math.inf

    def disturbed_until(self, parts: Iterable[str]) -> float:
        """Until when, at last, a fault was in force on one of them, or on the API server, with the time to
        recover; `inf` while one is."""
        spells = (self._spells[part] for part in {*parts, "server", "api"} if part in self._spells)
        return max((math.inf if each.active else each.over for each in spells), default=-math.inf)

    def in_force(self, what: str, part: str) -> bool:
        """Whether a fault of that kind has begun on the part, and is not over."""
        return bool(self._begun.get((what, part)))

    def skew(self, part: str, since: float) -> float:
        """By how many seconds the part's clock may have jumped since then."""
        told = self._skews[part]
        before = [value for at, value in told if at < since][-1:]
        values = [0.0, *before, *(value for at, value in told if at >= since)]
        return max(values) - min(values)

    def _step(self, event: Event) -> None:
        what, on = event.fields["what"], event.fields["on"]
        if what in ACTIONS or what in BEYOND:
            return
        if what == "skew":
            self._skews[on].append((event.time, event.fields["value"]))
            on = CLOCK + on
        if what in NO_FAULT:
            self._slow[on] = max(self._slow.get(on, (0.0, 0.0))[0], event.fields["value"]), math.inf
            return
        self._begun[what, on].append(event.time)
        self._begin(on, what, event.time)
        if what in UNTOLD:
            self._untold.add(on)
        spell = self._spells[on]
        lasts = event.fields["value"] if on in STORAGES or what in LASTING_ACTS else 0.0
        spell.longest = max(spell.longest, VERIFY_S + LAST_DELAY_S if what in UNTOLD else lasts)

    def _over(self, event: Event) -> None:
        what, on = event.fields["what"], event.fields["on"]
        on = CLOCK + on if what == "skew" else on
        begun = self._begun[what, on]
        if what in BEYOND:
            self._end(on, event.time)
        elif begun and begun[-1] == event.time:
            begun.pop()
            self._lasting.append(on)
        elif begun:
            begun.pop(0)
            self._end(on, event.time)
            if what in UNVERIFIED:
                self._verified_later(event.time, {on})

    def _point(self, event: Event) -> None:
        part = event.fields["part"]
        self._begin(part, event.fields["what"], event.time)
        self._end(part, event.time + AT_POINT_S)

    def _power(self, event: Event) -> None:
        node = event.actor
        if event.fields["on"]:
            self._end(node, event.time)
        else:
            self._begin(node, "power-off", event.time)

    def _healed(self, event: Event) -> None:
        """All that is lasting ends. Steps that are not over yet have no effect any more."""
        for part in self._lasting:
            self._end(part, event.time)
        for (_, part), begun in self._begun.items():
            for _ in begun:
                self._end(part, event.time)
            begun.clear()
        self._lasting.clear()
        for node, (seconds, _) in self._slow.items():  # what has begun takes its time
            self._slow[node] = seconds, event.time + seconds + RETRIES_S

    def _begin(self, part: str, what: str, now: float) -> None:
        spell = self._spells[part]
        if not spell.active and now > spell.over:
            spell.since = now
        spell.active += 1
        spell.last = f"{what} of {part} since {now:.0f} s"

    def _end(self, part: str, now: float) -> None:
        spell = self._spells[part]
        spell.active = max(spell.active - 1, 0)
        if not spell.active:
            lasts = max(min(now - spell.since, LAST_DELAY_S), spell.longest)
            spell.over, spell.longest = max(spell.over, now + RETRIES_S + lasts), 0.0
        if part in VERIFIED_BY:
            self._verified_later(now, self._untold)

    def _verified_later(self, now: float, nodes: Iterable[str]) -> None:
        for node in self._untold.intersection(nodes):
            spell = self._spells[node]
            if not spell.active and now > spell.over:
                self._untold.discard(node)
            else:
                spell.over = max(spell.over, now + RETRIES_S + VERIFY_S + LAST_DELAY_S)
