"""watch: the changes of a collection as a stream of lines, from a version on.

A watch sees only durable changes, each once and in order, as its selection sees them: an object that leaves
the selection appears as DELETED. Pending lines are joined into one piece. A watch holds nothing but a
position: a reader that is too slow gets 410 and ends, and the server never waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from mooring.apiserver.encodings.negotiation import Accepted, Encoding
from mooring.apiserver.errors import Expired
from mooring.apiserver.message import Request
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.requests.list_options import Selection, version_of
from mooring.apiserver.requests.rendering import bookmark, event_line, render
from mooring.apiserver.requests.watch_broadcast import ANY, Broadcaster
from mooring.apiserver.store.history import Change, ChangeType, Cursor, Item
from mooring.apiserver.store.object_store import Store, decode, encode

BOOKMARK_S = 60.0
_CHUNK_CHANGES = 100
_CHUNK_LISTED = 5000
"""The most stored objects in one piece."""


@dataclass(frozen=True, slots=True)
class View:
    """The objects of a kind that a watch sees, and their form. `rows_hold` and `now` are for tables."""

    kind: Kind
    selected: Selection
    accepted: Accepted
    rows_hold: str
    now: Callable[[], datetime]

    @property
    def index(self) -> tuple[str, str]:
        """A field and the value that every object in sight has there."""
        return next(self.selected.values(), ANY)

    def event(self, change: Change) -> bytes:
        """The line for a change as the selection sees it.

        An object that leaves the selection appears as DELETED, in its state before.
        """
        if not self.selected.is_narrow:
            return self.line(change.type, change.item) if self.selected.includes(change.item) else b""
        before = change.previous is not None and self.selected.includes(change.previous)
        after = change.type != "DELETED" and self.selected.includes(change.item)
        if after:
            return self.line("MODIFIED" if before else "ADDED", change.item)
        return self.line("DELETED", _last_seen(change)) if before else b""

    def line(self, event: ChangeType, item: Item) -> bytes:
        """The line for an object."""
        body = render(self.kind, item, self.accepted.form, self.now(), self.rows_hold)
        return event_line(event, body, self.accepted.encoding)

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """The line that says how far the watch has seen."""
        return bookmark(self.kind, version, self.accepted, initial_end=initial_end)


def _last_seen(change: Change) -> Item:
    """What a selection that the object has left saw of it last, under the version of the change."""
    if change.type == "DELETED" or change.previous is None:
        return change.item
    obj = decode(change.previous.body)
    obj["metadata"]["resourceVersion"] = str(change.item.version)
    return msgspec.structs.replace(change.previous, version=change.item.version, body=encode(obj))


class Watch:
    """One watch: its initial events, and then every change that its view shows.

    The position is taken at construction, so the watch misses no later write, however late it is read.
    """

    def __init__(
        self, store: Store, broadcaster: Broadcaster, view: View, request: Request, bookmark_s: float
    ) -> None:
        self._store, self._broadcaster, self._view, self._sink = store, broadcaster, view, request.sink
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._bookmark_s = bookmark_s
        self._initial = request.flag("sendInitialEvents")
        version = version_of(request.parameter("resourceVersion"))
        store.check_not_future(version)
        from_now = self._initial or version == 0
        self._since = store.version if from_now else version
        list_first = self._initial or (from_now and request.parameter("sendInitialEvents") != "false")
        self._listed = store.list(view.kind.storage) if list_first else ()
        self._cursor = store.watch(view.kind.storage, self._since)

    async def lines(self, seconds: float) -> AsyncIterator[bytes]:
        """The watch's lines, some at a time, for `seconds`; ends with an ERROR line if the reader is too
        slow.

        While the reader waits, new events go directly to the request's sink, if it has one.
        """
        try:
            async for first in self._first():
                yield first
            async for chunk in self._follow(self._cursor, asyncio.get_running_loop().time() + seconds):
                yield chunk
        except Expired as error:
            yield error_line(error, self._view.accepted.encoding)

    async def _first(self) -> AsyncIterator[bytes]:
        """The initial events piece by piece, so that other requests are served between."""
        view, listed = self._view, self._listed
        self._listed = ()
        last = [view.bookmark(self._since, initial_end=True)] if self._initial and self._bookmarks else []
        size = (
            _CHUNK_LISTED if view.accepted == Accepted() and view.kind.conversion is None else _CHUNK_CHANGES
        )
        for start in range(0, len(listed) or 1, size):
            if start:
                await asyncio.sleep(0)
            part = listed[start : start + size]
            lines = [view.line("ADDED", item) for item in part if view.selected.includes(item)]
            if joined := b"".join(lines + last if start + size >= len(listed) else lines):
                yield joined

    async def _follow(self, cursor: Cursor, end: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._bookmark_s
        while True:
            changes = cursor.take(_CHUNK_CHANGES)
            if chunk := b"".join(map(self._view.event, changes)):
                yield chunk
            if changes:
                if len(changes) == _CHUNK_CHANGES:
                    await asyncio.sleep(0)
                continue
            until = min(due, end)
            try:
                async with asyncio.timeout_at(until):
                    await self._news(cursor)
            except TimeoutError:
                if self._bookmarks and cursor.at_end:
                    yield self._view.bookmark(self._store.version)
                if until >= end:  # not by the clock: a timer may fire a little before its time
                    return
                due = loop.time() + self._bookmark_s

    async def _news(self, cursor: Cursor) -> None:
        """Returns as soon as there may be something to take."""
        if self._sink is None:
            await cursor.changed()
        else:
            await self._broadcaster.follow(self._view, cursor, self._sink)


def error_line(error: Expired, encoding: Encoding) -> bytes:
    """The ERROR line that ends a watch whose history has been evicted."""
    return event_line("ERROR", encode(error.status()), encoding)
