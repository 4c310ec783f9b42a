"""What peers are asked about nodes that are lost, and what they have stated: remembered by this process
alone.

All times are this process's own (the loop's). A statement counts if it answers the question that is open,
with its nonce, about its boot, by a peer that was asked; and once, however often its Lease is seen. It is as
old as its arrival. After a restart all is asked anew, and meanwhile a fence waits as if nothing had been
said. It reads no API: it is told of Leases, and tells what stands on which Node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from mooring.controllers.fencing.detection import ZONE, Poll, Vote
from mooring.controllers.fencing.voters import voters_of
from mooring.kube.objects import Node
from mooring.volumes.peers import DOOR, MOST_PEERS, Heard, Question, Statement, door_of

PATIENCE_S = 8.0
"""So long are the first answers waited for: three seconds for a peer that hears nothing, the rest for their
way."""


class _Vote(NamedTuple):
    heard: Heard
    hears_api: bool
    at: float


@dataclass
class _Asked:
    """About one boot of one node. `first`: when it was first asked, or again after a pause in which what had
    been said grew old; `last`: when with this nonce."""

    uid: str
    boot_id: str
    first: float
    last: float = 0.0
    nonce: str = ""
    door: str = ""
    voters: tuple[str, ...] = ()
    answered: set[str] = field(default_factory=set[str])
    """Who has answered this nonce."""
    votes: dict[str, _Vote] = field(default_factory=dict[str, _Vote])


class Polls:
    """By node. Times are seconds of the loop."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._asked: dict[str, _Asked] = {}

    def ask(self, node: Node, nodes: Iterable[Node], now: float, every: float) -> set[str]:
        """Has peers asked about the node, unless that was so less than `every` seconds ago, half the time for
        which their words count. Returns the nodes whose questions are others now."""
        boot = node.status.node_info.boot_id
        held = self._asked.get(node.name)
        if held is None or (held.uid, held.boot_id) != (node.uid, boot):
            changed = self.forget(node.name)
            held = self._asked[node.name] = _Asked(node.uid, boot, first=now)
        elif now - held.last < every:
            return set()
        else:
            changed = set(held.voters)
            if now - held.last >= 2 * every:
                held.first = now
        held.last, held.nonce, held.answered = now, f"{self._random.getrandbits(128):032x}", set()
        held.door = node.metadata.annotations.get(DOOR, "")
        zones = {each.name: each.metadata.labels.get(ZONE, "") for each in nodes if _can_be_asked(each)}
        held.voters = voters_of(node.name, zones) if door_of(held.door) and boot else ()
        return changed | set(held.voters)

    def forget(self, node: str) -> set[str]:
        """Nothing more is asked about the node. Returns the nodes whose questions are others now."""
        held = self._asked.pop(node, None)
        return set(held.voters) if held is not None else set()

    def questions_for(self, peer: str) -> tuple[Question, ...]:
        """What is to stand on that Node: about five nodes at the most."""
        mine = sorted(name for name, held in self._asked.items() if peer in held.voters)[:MOST_PEERS]
        found = ((name, self._asked[name]) for name in mine)
        return tuple(Question(name, held.boot_id, held.door, held.nonce) for name, held in found)

    def stated(self, peer: str, statements: Iterable[Statement], now: float) -> set[str]:
        """Takes what the peer's Lease states. Returns the nodes about which that is new."""
        found: set[str] = set()
        for each in statements:
            if self._counts(peer, each):
                found.add(each.node)
                held = self._asked[each.node]
                held.answered.add(peer)
                held.votes[peer] = _Vote(each.heard, each.hears_api, now)
        return found

    def _counts(self, peer: str, said: Statement) -> bool:
        held = self._asked.get(said.node)
        return (
            held is not None
            and peer in held.voters
            and peer not in held.answered
            and (said.nonce, said.boot_id) == (held.nonce, held.boot_id)
        )

    def about(self, node: Node, now: float) -> Poll:
        """What is said of the node as it shows itself now."""
        held = self._asked.get(node.name)
        if held is None or (held.uid, held.boot_id) != (node.uid, node.status.node_info.boot_id):
            return Poll()
        votes = (
            Vote(peer, each.heard, max(now - each.at, 0.0), each.hears_api)
            for peer, each in sorted(held.votes.items())
        )
        return Poll(held.voters, max(held.first + PATIENCE_S - now, 0.0), tuple(votes))


def _can_be_asked(node: Node) -> bool:
    """A Node whose deletion waits is one as well: its machine hears as before, and all others may be such."""
    return node.ready == "True" and DOOR in node.metadata.annotations
