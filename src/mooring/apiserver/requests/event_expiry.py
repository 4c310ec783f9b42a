"""Forgets Events an hour after they were last written, as upstream's server does (`--event-ttl`).

Nothing else deletes them but their namespace's end, and the whole store is in memory. Upstream's etcd does
this by itself; here the request that writes an Event forgets a few that are due, so that there are never more
than an hour brings. How old one is goes by the event loop's clock, which does not jump; after a restart all
count as just written.
"""

from __future__ import annotations

import asyncio
from itertools import islice, takewhile

from mooring.apiserver.errors import Expired
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Change, Cursor, Key
from mooring.apiserver.store.object_store import Store, decode

STORAGE = "events"
KEPT_S = 3600.0
"""Upstream's default."""
AT_ONCE = 16
"""So many go with one write at the most: more than come, and no burst of an hour ago delays an answer."""
_WRITES = frozenset({"create", "update", "patch"})


class EventExpiry:
    """The Events of one store, in the order of their last writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursor: Cursor | None = None
        self._written: dict[Key, float] = {}  # when (the loop's time)

    def is_due(self, route: Route) -> bool:
        """Whether a request that has ended has written an Event."""
        return route.kind.storage == STORAGE and route.verb in _WRITES

    def run(self) -> None:
        """Forgets some that are due. Their end is durable with the next commit, and is not waited for."""
        now = asyncio.get_running_loop().time()
        self._catch_up(now)
        due = takewhile(lambda key: self._written[key] + KEPT_S <= now, self._written)
        for key in [] if self._store.trouble else [*islice(due, AT_ONCE)]:
            item = self._store.head(STORAGE, key)
            if item is not None and item is self._store.get(STORAGE, key):  # else it is being written
                self._store.remove(STORAGE, key, decode(item.body))

    def _catch_up(self, now: float) -> None:
        try:
            changes = self._cursor.take() if self._cursor is not None else self._all_anew(now)
        except Expired:
            changes = self._all_anew(now)
        for each in changes:
            self._written.pop(each.item.key, None)  # so that they stay in the order of their times
            if each.type != "DELETED":
                self._written[each.item.key] = now

    def _all_anew(self, now: float) -> list[Change]:
        """At the start, or when more has changed than the history keeps."""
        collection = self._store.collection(STORAGE)
        self._cursor = Cursor(collection.history, collection.history.end)
        self._written = dict.fromkeys(collection.items, now)
        return []
