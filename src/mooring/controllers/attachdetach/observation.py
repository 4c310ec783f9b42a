"""`--observe`: decides, logs and counts beside the controller in charge, and writes nothing.

A disagreement is counted where the controller in charge did what would not have been done here (a volume
taken from a node that uses it, a second VolumeAttachment of an exclusive volume), or has not done for long
what would have been done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from mooring.controllers.attachdetach import metrics
from mooring.controllers.attachdetach.release import may_release
from mooring.controllers.attachdetach.state import Action, Attachment, VolumeDecision, VolumeState

PATIENCE_S = 60.0
"""Seconds that the other controller may take for what would have been done here at once."""
AWAITED = (Action.ATTACH, Action.DETACH, Action.REPORT)


class Observation:
    """What was seen of each volume, and the actions that the controller in charge has not carried out yet."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._attachments: dict[str, dict[str, Attachment]] = {}
        self._awaited: dict[tuple[str, str, Action], float] = {}  # since when; infinite: it was counted

    def note(self, state: VolumeState, decisions: Iterable[VolumeDecision]) -> float:
        """Compares with what the other controller did. Returns the seconds until the volume
        is to be looked at again, or 0."""
        self._compare(state)
        now, again = asyncio.get_running_loop().time(), 0.0
        wanted = {
            (state.volume, each.node, each.action): each for each in decisions if each.action in AWAITED
        }
        for key in [key for key in self._awaited if key[0] == state.volume and key not in wanted]:
            del self._awaited[key]
        for key, decision in wanted.items():
            if key not in self._awaited:
                self._awaited[key] = now
                metrics.observed(decision)
                self._log.info(
                    "would", action=key[2].value, volume=key[0], node=key[1], reason=decision.reason.message
                )
            elif now - self._awaited[key] >= PATIENCE_S:
                self._awaited[key] = float("inf")
                self._disagree(
                    f"not-done-{key[2].value.lower()}", state.volume, key[1], decision.reason.message
                )
            again = PATIENCE_S
        return again

    def _compare(self, state: VolumeState) -> None:
        before = self._attachments.get(state.volume, {})
        held = {each.name: each for each in state.attachments}
        self._attachments[state.volume] = held
        if not held:
            del self._attachments[state.volume]
        for name, former in before.items():
            ended = name not in held or (held[name].deleting and not former.deleting)
            verdict = may_release(state.nodes.get(former.node), former, state.terms)
            if ended and not former.deleting and not verdict.allowed:
                self._disagree("unsafe-detach", state.volume, former.node, verdict.reason.message)
        fresh = [each for name, each in held.items() if name not in before]
        if before and fresh and not state.several_nodes and any(name in held for name in before):
            self._disagree(
                "second-attachment", state.volume, fresh[0].node, "another node has the exclusive volume"
            )

    def _disagree(self, kind: str, volume: str, node: str, reason: str) -> None:
        metrics.disagreed(kind)
        self._log.warning("Disagreement", kind=kind, volume=volume, node=node, reason=reason)
