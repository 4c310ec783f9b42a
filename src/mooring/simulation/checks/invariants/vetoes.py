"""The checkers' own account of what peers have stated, as it was stored: whether a word that the leader of
the fencing controller has certainly seen keeps a node from being fenced.

It counts a statement only where nothing excuses that it was not heard: its nonce stands still on the Node of
its peer, the leader is the one that asked, and the statement was stored longer ago than a view may be late.
"""

from __future__ import annotations

import msgspec

from mooring.simulation.checks.invariants.node_reports import LEASES, OF_NODES
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.peers import QUESTIONS, STATEMENTS, Heard, questions_of, statements_of

LEADER = "/fencing"
"""Ends the name of the Lease of the controller's leader."""
EXPIRES_EARLY_S = 10.0


class _LeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str = ""


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


_decode = msgspec.json.Decoder(_Lease).decode


class Vetoes:
    """`expires`: for so many seconds the policy has a statement count; 0: peers have no veto."""

    def __init__(self, trace: Trace, expires: float, late: float) -> None:
        self._expires, self._late = expires, late
        self._leader, self._led_since = "", 0.0
        self._asked: dict[str, set[str]] = {}  # peer -> the nonces on its Node
        self._said: dict[str, tuple[str, str, str, float]] = {}
        """Nonce and peer -> the node, its boot, the peer, and when it was stored that it is heard."""
        if expires:
            trace.listen("store.written", self._written)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == "nodes":
            text = object_of(event).metadata.annotations.get(QUESTIONS, "")
            self._asked[name] = {each.nonce for each in questions_of(text)}
        elif resource == LEASES and name.startswith(OF_NODES):
            self._stated(name.removeprefix(OF_NODES), event)
        elif resource == LEASES and name.endswith(LEADER):
            holder = _decode(event.fields["_body"]).spec.holder_identity
            if holder != self._leader:
                self._leader, self._led_since = holder, event.time

    def _stated(self, peer: str, event: Event) -> None:
        text = object_of(event).metadata.annotations.get(STATEMENTS, "")
        for each in statements_of(text):
            if each.heard is Heard.YES:
                key = f"{each.nonce} {peer}"
                self._said.setdefault(key, (each.node, each.boot_id, peer, event.time))

    def of(self, node: str, boot: str, now: float) -> str:
        """A peer whose word keeps this boot of the node from being fenced now; "" if there is none."""
        for key, (about, its, peer, at) in self._said.items():
            held = self._late < now - at < self._expires - EXPIRES_EARLY_S and at > self._led_since
            if held and (about, its) == (node, boot) and key.split()[0] in self._asked.get(peer, ()):
                return peer
        return ""
