"""Live watches: each event is encoded once, and goes to all watches that wait for it without waking a task
for each.

A `Broadcaster` follows the history of one resource. A watch that has seen everything joins it with a `Sink`.
Watches that see the same share a channel, for which a piece is made once. A channel is kept under a field
value that all its objects have, so a change touches only the channels that it may concern: of a thousand
watches of one node's pods, one or two. A watch that cannot take a piece leaves the channel, with its cursor
before that piece: no watch waits for another.

It must not know of kinds, encodings or HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import structlog

from mooring.apiserver.message import Sink
from mooring.apiserver.store.history import Change, Cursor, History

log = structlog.get_logger(component="apiserver")

ANY = ("", "")
"""The index of a view that may see any object."""


class View(Protocol):
    """The part of a resource that a watch sees. Equal views give equal events."""

    @property
    def index(self) -> tuple[str, str]:
        """A field and the value that every object in sight has there, or `ANY`."""
        ...

    def event(self, change: Change) -> bytes:
        """Returns the watch event of a change, encoded; nothing if the object is out of sight."""
        ...

    def __hash__(self) -> int: ...


@dataclass(eq=False, slots=True)
class _Member:
    sink: Sink
    cursor: Cursor
    left: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class _Channel:
    view: View
    members: dict[_Member, None] = field(default_factory=dict[_Member, None])


class Broadcaster:
    """Delivers the changes of `history` to the members of its channels, all of which have received everything
    before its cursor."""

    def __init__(self, history: History) -> None:
        self._cursor = Cursor(history, history.end)
        self._channels: dict[tuple[str, str], dict[View, _Channel]] = {}
        history.listen(self._wake)

    async def follow(self, view: View, cursor: Cursor, sink: Sink) -> None:
        """Delivers what `view` sees to `sink` until the sink refuses a piece. `cursor` then stands after the
        last piece that it took.

        Returns at once if there is something to read before.
        """
        self._deliver()
        if not cursor.at_end:
            return
        channel = self._channels.setdefault(view.index, {}).setdefault(view, _Channel(view))
        member = _Member(sink, cursor, asyncio.get_running_loop().create_future())
        channel.members[member] = None
        try:
            await member.left
        finally:
            if member in channel.members:
                self._part(channel, [member], self._cursor.position)

    def _wake(self) -> None:
        # In the next turn of the event loop: the writer gets its answer before the watchers get the event.
        if self._channels:
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        if not self._channels:
            self._cursor.skip()
            return
        before = self._cursor.position
        try:
            pieces = self._pieces()
        except Exception:
            # One change that cannot be encoded must not end every watch of the resource. All members leave
            # the channels and read on by themselves, so the error reaches only the watches that see the
            # change.
            log.exception("a change cannot be sent to watches")
            self._cursor.skip()
            for channel in self.channels():
                self._part(channel, [*channel.members], before)
            return
        for channel, piece in pieces:
            self._part(channel, [member for member in channel.members if not member.sink(piece)], before)

    def _pieces(self) -> list[tuple[_Channel, bytes]]:
        """The new piece for each channel that sees some of the changes."""
        lines_of: dict[_Channel, list[bytes]] = {}
        for change in self._cursor.take():
            for channel in self._concerned(change):
                lines_of.setdefault(channel, []).append(channel.view.event(change))
        return [(channel, piece) for channel, lines in lines_of.items() if (piece := b"".join(lines))]

    def _concerned(self, change: Change) -> Iterator[_Channel]:
        """The channels that may see the object as it is or as it was."""
        values = dict.fromkeys(change.item.fields.items())
        if change.previous is not None:
            values |= dict.fromkeys(change.previous.fields.items())
        nothing: Mapping[View, _Channel] = {}
        for value in chain((ANY,), values):
            yield from self._channels.get(value, nothing).values()

    def channels(self) -> list[_Channel]:
        """One for each view that a watch has now."""
        return [channel for channels in self._channels.values() for channel in channels.values()]

    def _part(self, channel: _Channel, members: Iterable[_Member], position: int) -> None:
        """Removes these members; their watches go on reading from `position` by themselves."""
        for member in members:
            member.cursor.position = position
            del channel.members[member]
            if not member.left.done():
                member.left.set_result(None)
        index = channel.view.index
        if not channel.members and (channels := self._channels.get(index)):
            channels.pop(channel.view, None)
            if not channels:
                del self._channels[index]
