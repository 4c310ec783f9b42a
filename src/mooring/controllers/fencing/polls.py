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
"""So long is a peer's first answer waited for, once the question stands on its Node: three seconds for one
that hears nothing, the rest for their way."""
LONGEST_S = 3 * PATIENCE_S
"""And so long is it waited for at the most, where the question cannot be written there."""


class _Vote(NamedTuple):
    heard: Heard
    hears_api: bool
    at: float


@dataclass
class _Asked:
    """About one boot of one node. `last`: when it was asked with this nonce."""

    uid: str
    boot_id: str
    last: float = 0.0
    nonce: str = ""
    door: str = ""
    voters: tuple[str, ...] = ()
    since: dict[str, float] = field(default_factory=dict[str, float])
    """Peer -> when it was first asked, or again after a pause: one may have been away meanwhile."""
    stood: dict[str, float] = field(default_factory=dict[str, float])
    """Peer -> since when what it was asked then stands on its Node."""
    answered: set[str] = field(default_factory=set[str])
    """Who has answered this nonce."""
    votes: dict[str, _Vote] = field(default_factory=dict[str, _Vote])


class Polls:
    """By node. Times are seconds of the loop."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._asked: dict[str, _Asked] = {}

    def ask(self, node: Node, nodes: Iterable[Node], now: float, every: float) -> set[str]:
        """Has peers asked about the node, unless all of them were less than `every` seconds ago: half the
        time for which their words count. Returns the nodes whose questions are others now."""
        boot = node.status.node_info.boot_id
        held = self._asked.get(node.name)
        if held is None or (held.uid, held.boot_id) != (node.uid, boot):
            changed = self.forget(node.name)
            held = self._asked[node.name] = _Asked(node.uid, boot)
        else:
            changed = set(held.voters)
        voters = _voters_of(node, nodes)
        if held.nonce and now - held.last < every and changed.issuperset(voters):
            return set()
        if (
            now - held.last >= every + PATIENCE_S
        ):  # something else held the fence, or this process stood still
            held.since, held.stood = {}, {}
        held.last, held.nonce, held.answered = now, f"{self._random.getrandbits(128):032x}", set()
        held.door, held.voters = node.metadata.annotations.get(DOOR, ""), voters
        held.since = dict.fromkeys(voters, now) | held.since
        return changed | set(voters)

    def unheard(self, node: Node) -> tuple[str, ...]:
        """Of whom an answer to what they are asked about the node now is not known; another question would
        make it void."""
        held = self._asked.get(node.name)
        return tuple(each for each in held.voters if each not in held.answered) if held is not None else ()

    def rest(self, node: str) -> set[str]:
        """Nothing is asked about the node while something else holds its fence; what was said counts on until
        it expires. Returns the nodes whose questions are others now."""
        held = self._asked.get(node)
        if held is None:
            return set()
        former, held.voters, held.nonce = set(held.voters), (), ""
        held.since, held.stood = {}, {}
        return former

    def forget(self, node: str) -> set[str]:
        """Nothing more is asked about the node. Returns the nodes whose questions are others now."""
        held = self._asked.pop(node, None)
        return set(held.voters) if held is not None else set()

    def questions_for(self, peer: str) -> tuple[Question, ...]:
        """What is to stand on that Node: about five nodes at the most."""
        mine = sorted(name for name, held in self._asked.items() if peer in held.voters)[:MOST_PEERS]
        found = ((name, self._asked[name]) for name in mine)
        return tuple(Question(name, held.boot_id, held.door, held.nonce) for name, held in found)

    def stand(self, peer: str, now: float) -> None:
        """What it is asked stands on its Node now, or stood there already."""
        for held in self._asked.values():
            if peer in held.voters:
                held.stood.setdefault(peer, now)

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
        return Poll(held.voters, max(_ends(held) - now, 0.0), tuple(votes))


def _ends(held: _Asked) -> float:
    """Until when those that have not answered are waited for."""
    longest = {peer: held.since[peer] + LONGEST_S for peer in held.voters}
    ends = (min(held.stood.get(peer, end) + PATIENCE_S, end) for peer, end in longest.items())
    return max(ends, default=0.0)


def _voters_of(node: Node, nodes: Iterable[Node]) -> tuple[str, ...]:
    if not node.status.node_info.boot_id or door_of(node.metadata.annotations.get(DOOR, "")) is None:
        return ()
    zones = {each.name: each.metadata.labels.get(ZONE, "") for each in nodes if _can_be_asked(each)}
    return voters_of(node.name, zones)


def _can_be_asked(node: Node) -> bool:
    """A Node whose deletion waits is one as well: its machine hears as before, and all others may be such."""
    return node.ready == "True" and DOOR in node.metadata.annotations
