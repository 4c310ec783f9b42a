"""Writes that only tell that what must be looked at again was looked at: they end no calm (L7), and are no
work that was left (D3).

- A fence in force was seen to hold still, or its machine, which does not come back, was switched on again.
- The ladder of a fence that a person has to end was begun again.
- A fence that peers hold told which of them hear the node now: words are lost on their way; or the budget
  held it, until a node reported, as each does every few minutes, and now peers do. And nothing else.
- A FenceMechanism was asked again about nodes of which it had no word, or has none now; and nothing else.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mooring.controllers.fencing.detection import BUDGET_EXHAUSTED, HEARD_BY_PEERS, PEERS_ASKED
from mooring.controllers.fencing.ladder import SECOND_SOURCE
from mooring.fence.interface import State
from mooring.kube.objects.fencing import FenceMechanism, MechanismNode, NodeFence
from mooring.simulation.checks.invariants.fences import FENCES
from mooring.simulation.engine.trace import Event, Trace

MECHANISMS = "fencemechanisms.fencing.mooring.dev"

_fence = msgspec.json.Decoder(NodeFence).decode
_mechanism = msgspec.json.Decoder(FenceMechanism).decode


class LooksAgain:
    """The account of one trace, from its beginning: what a mechanism or a fence has said is compared with
    what it said before."""

    def __init__(self, trace: Trace) -> None:
        self._said: dict[str, dict[str, MechanismNode]] = {}  # mechanism -> node -> what it said
        self._fences: dict[str, NodeFence] = {}
        self._last = 0  # the event that was such a write last
        trace.listen("store.written", self._note)

    @classmethod
    def of(cls, trace: Trace) -> LooksAgain:
        """The one of that trace."""
        return trace.shared(cls)

    def __contains__(self, event: Event) -> bool:
        """Whether the event that is told just now is such a write."""
        return event.number == self._last

    def _note(self, event: Event) -> None:
        resource = event.fields["resource"]
        if resource == FENCES:
            self._of_fence(_fence(event.fields["_body"]), event)
        elif resource == MECHANISMS:
            self._of_mechanism(_mechanism(event.fields["_body"]), event)

    def _of_fence(self, fence: NodeFence, event: Event) -> None:
        before, self._fences[fence.name] = self._fences.get(fence.name), fence
        if _holds_still(fence) or (before is not None and _is_held_by_others(before, fence)):
            self._last = event.number

    def _of_mechanism(self, record: FenceMechanism, event: Event) -> None:
        now = {each.name: each for each in record.status.nodes}
        before, self._said[record.name] = self._said.get(record.name, {}), now
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        if changed and all(_has_no_word(before.get(name)) or _has_no_word(now.get(name)) for name in changed):
            self._last = event.number


def _has_no_word(said: MechanismNode | None) -> bool:
    return said is not None and said.state == State.UNKNOWN


def _holds_still(fence: NodeFence) -> bool:
    status = fence.status
    in_vain = status.phase in ("Fencing", "AwaitingPerson") and status.round > 0
    again = in_vain or any(each.reason == SECOND_SOURCE for each in status.attempts)
    return again or (status.phase == "Fenced" and bool(status.proof and status.verified_at))


def _is_held_by_others(before: NodeFence, now: NodeFence) -> bool:
    """Whether the fence is held by peers as before, and by others of them, or instead of by the budget, and
    nothing else is new."""
    held, was = now.status.reason, before.status.reason
    others = held == was == HEARD_BY_PEERS and before.status.message != now.status.message
    instead = was in _BEFORE.get(held, ())
    return (
        (others or instead) and before.uid == now.uid and _apart_from_words(before) == _apart_from_words(now)
    )


_BEFORE = {PEERS_ASKED: (BUDGET_EXHAUSTED,), HEARD_BY_PEERS: (BUDGET_EXHAUSTED, PEERS_ASKED)}
"""By what a fence waits for: what it waited for before."""


def _apart_from_words(fence: NodeFence) -> tuple[object, ...]:
    status = replace(fence.status, reason="", message="", waits_until="", conditions=())
    return fence.spec, fence.deleting, status
