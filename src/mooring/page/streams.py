"""The changes on their way to browsers, as server-sent events. Pure but for waiting.

A stream holds no queue of its own: it has read up to a version, and takes what came since from the history.
One that has fallen further behind than the history reaches, or that begins with another server's version, is
told to begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from mooring.page.history import Batch
from mooring.page.model import Model

QUIET_S = 3.0
"""After so many seconds without a change the facts are sent: both ends see that the other is there."""
ALL_CHANGES_UP_TO = 4000
"""With more changes than this at once a browser begins anew: that is less than all of them."""


class Streams:
    """Wakes the streams, and encodes each batch once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._changed = asyncio.Event()
        self._encoded: tuple[int, bytes] = (0, b"")
        self.facts: Callable[[], dict[str, Any]] = dict
        """What is said of the connection, beside the rows."""

    def tell(self, batch: Batch) -> None:
        """A batch is in the history."""
        self._encoded = (batch.version, encode(batch))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def since(self, version: int) -> AsyncGenerator[bytes, None]:
        """Yields what came after a version, for ever; ends after `reset`."""
        while True:
            changed = self._changed
            batches = self._model.history.since(version, self._model.version)
            if batches is None or sum(len(batch.changes) for batch in batches) > ALL_CHANGES_UP_TO:
                yield b"event: reset\ndata: {}\n\n"
                return
            if batches:
                yield b"".join(map(self._event, batches))
                version = self._model.version
                continue
            try:
                await asyncio.wait_for(changed.wait(), QUIET_S)
            except TimeoutError:
                yield b"event: facts\ndata: %b\n\n" % msgspec.json.encode(self.facts())

    def _event(self, batch: Batch) -> bytes:
        version, encoded = self._encoded
        return encoded if version == batch.version else encode(batch)


def encode(batch: Batch) -> bytes:
    """One event. JSON has no line feed in it, so that it is one line of data."""
    changes: list[Any] = [[each.table, each.key, each.after] for each in batch.changes]
    data = msgspec.json.encode({"version": batch.version, "at": batch.at, "changes": changes})
    return b"id: %d\nevent: delta\ndata: %b\n\n" % (batch.version, data)
