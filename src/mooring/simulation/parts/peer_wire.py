"""What agents of a simulated cluster say to one another: words that pass, are lost, or come late.

An agent that is killed answers nothing, and one that is paused answers when it goes on. The links to the API
server are others: a node may be cut off from it and heard by its peers, and the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextvars import Context, copy_context
from random import Random

from mooring.node.peers import Door, Open, Take

LOST = 0.05
"""So many of the words are lost, as those of UDP may be."""
LATEST_S = 0.3
PORT = 7000


class _Door:
    def __init__(self, wire: PeerWire, node: str, where: tuple[str, int], take: Take) -> None:
        self.node, self.address, self.take = node, where, take
        self.where = f"{where[0]}:{where[1]}"
        self.context: Context = copy_context()  # of its agent, and halted with it
        self._wire = wire

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        self._wire.carry(self, data, to)


class PeerWire:
    """All doors. `cut`: nodes that no word reaches or leaves; `lost`: the part of the words that is lost."""

    def __init__(self, random: Random) -> None:
        self.cut: set[str] = set()
        self.lost = LOST
        self._random = random
        self._doors: dict[tuple[str, int], _Door] = {}
        self._numbers: dict[str, int] = {}

    def door(self, node: str) -> Open:
        """For the next agent of the node."""
        number = self._numbers.setdefault(node, len(self._numbers) + 1)
        where = (f"10.0.0.{number}", PORT)

        @contextlib.asynccontextmanager
        async def opened(take: Take) -> AsyncGenerator[Door]:
            door = self._doors[where] = _Door(self, node, where, take)
            try:
                yield door
            finally:
                if self._doors.get(where) is door:
                    del self._doors[where]

        return opened

    def heal(self) -> None:
        """No word is lost any more: what a veto of peers holds stays held."""
        self.lost = 0.0

    def silence(self, node: str) -> None:
        """Its machine has no power: who had that door does not answer any more."""
        for where in [where for where, door in self._doors.items() if door.node == node]:
            del self._doors[where]

    def carry(self, sender: _Door, data: bytes, to: tuple[str, int]) -> None:
        """Takes one word to its door, if that is there."""
        taker, drawn, late = self._doors.get(to), self._random.random(), self._random.random() * LATEST_S
        if taker is None or drawn < self.lost or not self.cut.isdisjoint((sender.node, taker.node)):
            return
        loop = asyncio.get_running_loop()
        loop.call_later(late, taker.take, data, sender.address, context=taker.context)
