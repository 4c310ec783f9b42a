"""The checkers' own account of what peers have stated, as it was stored: whether a word that the leader of
the fencing controller has certainly seen keeps a node from being fenced.

It counts a statement only where nothing excuses that it was not heard: the leader is the one that asked, the
statement was stored longer ago than a view may be late, and its peer has stated nothing else since. It was
asked since the node became ready, or ceased to be: what was said before that was no answer to this doubt.

A statement expires. But a peer that answers, and has said that it hears the node, has to be asked again and
given its time before that counts for nothing: a question that never stood on its Node was not asked.
"""

from __future__ import annotations

import msgspec

from mooring.controllers.fencing.polls import PATIENCE_S
from mooring.simulation.checks.invariants.node_reports import LEASES, OF_NODES
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.peers import QUESTIONS, STATEMENTS, Heard, questions_of, statements_of

LEADER = "/fencing"
"""Ends the name of the Lease of the controller's leader."""
CONTROLLER = " fencing-controller"
"""Ends the name of who asks, before which are the life of its process and its term."""
EXPIRES_EARLY_S = 10.0
GIVES_UP = 0.5
"""After so much of its Lease's duration without a renewal a leader may have given up."""
SHORT_S = PATIENCE_S - 3.0
"""So long a question has stood at least if its answer was waited for."""


class _LeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: float = 0.0


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


_decode = msgspec.json.Decoder(_Lease).decode


class Vetoes:
    """`expires`: for so many seconds the policy has a statement count; 0: peers have no veto."""

    def __init__(self, trace: Trace, expires: float, late: float) -> None:
        self._expires, self._late = expires, late
        self._leader, self._led_since, self._led_until = "", 0.0, 0.0
        self._acting = ""  # the term that has written last
        self._asked: dict[str, float] = {}  # nonce -> when it stood on a Node first
        self._unready_since: dict[str, float] = {}
        self._ready_since: dict[str, float] = {}
        self._said: dict[tuple[str, str, str], list[tuple[float, str, Heard]]] = {}
        """Node, its boot, and peer -> when it stated what first, by the question's nonce."""
        self._open: dict[tuple[str, str, str], tuple[str, float]] = {}
        """The same -> the question that stands there, and since when one does that was not answered."""
        if expires:
            trace.listen("store.written", self._written)
            trace.listen("store.deleted", self._deleted)
            trace.listen("truth.raised", self._raised)
            trace.listen("asked.write", self._acted)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == "nodes":
            node = object_of(event)
            now, other = self._ready_since, self._unready_since
            if node.ready != "True":
                now, other = other, now
            now.setdefault(name, event.time)
            other.pop(name, None)
            text = node.metadata.annotations.get(QUESTIONS, "")
            stands = {(each.node, each.boot_id, name): each.nonce for each in questions_of(text)}
            for who, nonce in stands.items():
                self._asked.setdefault(nonce, event.time)
                self._opened(who, nonce)
            self._open = {who: it for who, it in self._open.items() if who[2] != name or who in stands}
        elif resource == LEASES and name.startswith(OF_NODES):
            self._stated(name.removeprefix(OF_NODES), event)
        elif resource == LEASES and name.endswith(LEADER):
            self._renewed(_decode(event.fields["_body"]).spec, event.time)

    def _renewed(self, lease: _LeaseSpec, now: float) -> None:
        """One that has not renewed it for so long has ended its work, and begins anew under its old name."""
        gave_up = now - self._led_until > GIVES_UP * lease.lease_duration_seconds
        if lease.holder_identity != self._leader or gave_up:
            self._leader, self._led_since = lease.holder_identity, now
        self._led_until = now

    def _raised(self, event: Event) -> None:
        """A leader that has lost its Lease begins anew, also where it has it again soon, under its old
        name."""
        if event.fields["where"] == "lease lost":
            self._leader = ""

    def _acted(self, event: Event) -> None:
        """One that has its Lease again may learn of that much later: its term begins when it writes."""
        term = event.fields["life"]
        if term.endswith(CONTROLLER) and term != self._acting:
            self._acting, self._led_since = term, max(self._led_since, event.time)

    def _opened(self, who: tuple[str, str, str], nonce: str) -> None:
        before, since = self._open.get(who, ("", 0.0))
        answered = not before or any(before == known for _, known, _ in self._said.get(who, ()))
        if nonce != before:
            self._open[who] = nonce, self._asked[nonce] if answered else since

    def _deleted(self, event: Event) -> None:
        """Of a Node that is gone no peer is asked: its deletion is a person's word. Nor is that asked."""
        if event.fields["resource"] == "nodes":
            self._said = {who: said for who, said in self._said.items() if who[0] != event.fields["name"]}
            self._ready_since.pop(event.fields["name"], None)

    def _stated(self, peer: str, event: Event) -> None:
        text = object_of(event).metadata.annotations.get(STATEMENTS, "")
        for each in statements_of(text):
            said = self._said.setdefault((each.node, each.boot_id, peer), [])
            if each.nonce not in (nonce for _, nonce, _ in said):
                said.append((event.time, each.nonce, each.heard))

    def of(self, node: str, boot: str, now: float) -> str:
        """A peer whose word keeps this boot of the node from being fenced now; "" if there is none."""
        changed = self._unready_since.get(node, self._ready_since.get(node, 0.0))
        since = max(self._led_since, changed)
        found = (
            peer
            for (about, its, peer), said in self._said.items()
            if (about, its) == (node, boot)
            and (self._holds(said, since, now) or self._was_not_asked((about, its, peer), said, since, now))
        )
        return next(found, "")

    def _was_not_asked(
        self, who: tuple[str, str, str], said: list[tuple[float, str, Heard]], since: float, now: float
    ) -> bool:
        """Whether the last that a peer which answers has said, to a question since then, is that it hears the
        node, and it was given no time to say so again. That it answers has to be known for a while."""
        (at, last, heard), (nonce, asked) = said[-1], self._open.get(who, ("", 0.0))
        if heard is not Heard.YES or self._asked.get(last, 0.0) <= since:
            return False
        known = now - max(at, self._ready_since.get(who[2], now)) > self._late
        return known and not (nonce != last and now - asked >= SHORT_S)

    def _holds(self, said: list[tuple[float, str, Heard]], since: float, now: float) -> bool:
        """Whether a word that was asked since then, and certainly seen, says that it is heard, and no later
        one otherwise."""
        for number, (at, nonce, _) in enumerate(said):
            seen = self._late < now - at < self._expires - EXPIRES_EARLY_S
            asked = self._asked.get(nonce, 0.0) > since
            if seen and asked and all(heard is Heard.YES for _, _, heard in said[number:]):
                return True
        return False
