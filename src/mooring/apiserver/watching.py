"""watch: the changes of a collection as a stream of lines, from a version on.

A watch sees only durable changes, each once and in order, as its selection sees them: an object that leaves the
selection is DELETED for it. Lines that are pending are joined into one piece. A watch holds nothing but a position: a
reader that is too slow is told 410 and ends, and never makes the server wait.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from mooring.apiserver.errors import Expired
from mooring.apiserver.history import Change, ChangeType, Cursor, Item
from mooring.apiserver.message import Request
from mooring.apiserver.negotiation import Accepted, Encoding
from mooring.apiserver.rendering import bookmark, event_line, render
from mooring.apiserver.routes import Route
from mooring.apiserver.selecting import Selection, rows_hold, version_of
from mooring.apiserver.store import Store, encode

BOOKMARK_SECONDS = 60.0
_CHUNK_CHANGES = 1000


class Watch:
    """One watch: what it has to tell first, and then every change that its selection can see.

    Its position is taken when it is made, so nothing that is written from then on is missed, however late it is read.
    """

    def __init__(
        self,
        store: Store,
        route: Route,
        selected: Selection,
        accepted: Accepted,
        now: Callable[[], datetime],
        request: Request,
    ) -> None:
        self._store, self._kind, self._selected, self._now = store, route.kind, selected, now
        self._accepted = accepted
        self._rows_hold = rows_hold(request)
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._initial = request.flag("sendInitialEvents")
        version = version_of(request.parameter("resourceVersion"))
        store.check_not_future(version)
        from_now = self._initial or version == 0
        self._since = store.version if from_now else version
        list_first = self._initial or (from_now and request.parameter("sendInitialEvents") != "false")
        self._listed = store.list(self._kind.storage) if list_first else ()
        self._cursor = store.watch(self._kind.storage, self._since)

    async def lines(self, seconds: float) -> AsyncIterator[bytes]:
        """The watch's lines, some at a time, for `seconds`; ends with an ERROR line if the reader is too slow."""
        try:
            if first := self._first():
                yield first
            async for chunk in self._follow(self._cursor, asyncio.get_running_loop().time() + seconds):
                yield chunk
        except Expired as error:
            yield error_line(error, self._accepted.encoding)

    def _first(self) -> bytes:
        lines = [self._line("ADDED", item) for item in self._listed if self._selected.includes(item)]
        self._listed = ()
        if self._initial and self._bookmarks:
            lines.append(bookmark(self._kind, self._since, self._accepted, initial_end=True))
        return b"".join(lines)

    async def _follow(self, cursor: Cursor, end: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        due = loop.time() + BOOKMARK_SECONDS
        while True:
            changes = cursor.take(_CHUNK_CHANGES)
            if chunk := b"".join(filter(None, map(self._told, changes))):
                yield chunk
            if changes:
                continue
            try:
                async with asyncio.timeout_at(min(due, end)):
                    await cursor.changed()
            except TimeoutError:
                if self._bookmarks and cursor.at_end:
                    yield bookmark(self._kind, self._store.version, self._accepted)
                if loop.time() >= end:
                    return
                due = loop.time() + BOOKMARK_SECONDS

    def _told(self, change: Change) -> bytes | None:
        """The line for a change as this selection sees it: an object that leaves the selection is DELETED for it."""
        before = change.previous is not None and self._selected.includes(change.previous)
        after = change.type != "DELETED" and self._selected.includes(change.item)
        if after:
            return self._line("MODIFIED" if before else "ADDED", change.item)
        return self._line("DELETED", change.item) if before else None

    def _line(self, event: ChangeType, item: Item) -> bytes:
        body = render(self._kind, item, self._accepted.form, self._now(), self._rows_hold)
        return event_line(event, body, self._accepted.encoding)


def error_line(error: Expired, encoding: Encoding) -> bytes:
    """The line that ends a watch whose history is not kept."""
    return event_line("ERROR", encode(error.status()), encoding)
