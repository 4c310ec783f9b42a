"""A watch on its way from the API server to a part: carried piece by piece, late or cut off as its link
is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextvars import Context
from random import Random
from typing import Any, Protocol

from mooring.kube.errors import Unreachable
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.parts.link_conditions import REPLICA_LAG_S, Interceptor, LinkConditions


class FeedLink(Protocol):
    """What a feed needs of the link that it runs over."""

    conditions: LinkConditions
    interceptor: Interceptor | None
    random: Random


class FeedNetwork(Protocol):
    """What a feed needs of the network. `host`: the server's side."""

    loop: asyncio.AbstractEventLoop
    host: Actor
    context: Context

    def opened(self, feed: Feed, link: FeedLink) -> None:
        """The feed carries from now on."""
        ...

    def closed(self, feed: Feed) -> None:
        """The feed carries nothing more."""
        ...


class Feed:
    """A stream on its way: the server's side puts pieces in, the client's side takes them out.

    The server hands over what is new by itself (`take`); the first piece, bookmarks and the end come from its
    stream. A lagging link delivers late, and in order. `resource`: whose changes it carries.
    """

    def __init__(self, network: FeedNetwork, link: FeedLink, resource: str = "") -> None:
        self._network, self._link, self._resource = network, link, resource
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._why: str | None = None
        self._over = False
        self.lag = 0.0
        self._way: deque[tuple[float, bytes | None]] = deque()  # when it arrives, and what; None: the end
        self._pump: asyncio.Task[None] | None = None

    def begin(self, source: AsyncIterator[bytes]) -> None:
        """From now on what comes is carried."""
        self._network.opened(self, self._link)
        self._pump = self._network.host.start(self._fill(source))

    async def _fill(self, source: Any) -> None:
        try:
            async for piece in source:
                while (unread := self._link.conditions.unread) is not None:
                    await unread.wait()
                self._carry(piece)
        except asyncio.CancelledError:
            await source.aclose()
            raise
        self._send(None)

    def take(self, piece: bytes) -> bool:
        """Takes a piece along; not if the stream has ended, nor while its reader does not read."""
        if self._over or self._link.conditions.unread is not None:
            return False
        self._carry(piece)
        return True

    def _carry(self, piece: bytes) -> None:
        if self._over:
            return
        if self._way or self.lag or self._link.interceptor is not None or self._link_lags:
            self._send(piece)
        else:
            self._pieces.append(piece)
            self._wake()

    @property
    def _link_lags(self) -> bool:
        return bool(self._link.conditions.watch_lag) or self._is_late_kind

    @property
    def _is_late_kind(self) -> bool:
        return self._link.conditions.late_kind == self._resource != ""

    def _send(self, piece: bytes | None) -> None:
        now, lag = self._network.loop.time(), self._link.conditions.watch_lag
        fault = self._link.interceptor.event(piece) if self._link.interceptor is not None and piece else ""
        if fault == "event-dropped":
            self.end("the stream broke")
            return
        late = (
            self._link.random.random() * lag
            if lag
            else REPLICA_LAG_S
            if fault == "event-late"
            else self._lag()
        )
        due = max(now + late, self._way[-1][0] if self._way else now)
        self._way.append((due, piece))
        if due > now:
            self._network.loop.call_at(due, self._arrive, context=self._network.context)
        else:
            self._arrive()

    def _lag(self) -> float:
        """Of its kind, or of the replica that this comes from; the list itself does not wait."""
        if self._pump is None:
            return 0.0
        return self._link.conditions.late_by if self._is_late_kind else self.lag

    def _arrive(self) -> None:
        now = self._network.loop.time()
        while self._way and self._way[0][0] <= now and not self._over:
            _, piece = self._way.popleft()
            if piece is None:
                self.end(None)
            else:
                self._pieces.append(piece)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, why: str | None) -> None:
        """Nothing more comes; broken, if there is a reason."""
        self._over, self._why = True, why
        self._network.closed(self)
        self._wake()

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._over:
                if self._why is None:
                    raise StopAsyncIteration
                raise Unreachable(self._why)
            self._waiter = self._network.loop.create_future()
            await self._waiter
        return self._pieces.popleft()

    async def aclose(self) -> None:
        """The reader has gone."""
        self._over = True
        self._network.closed(self)
        if self._pump is not None:
            self._pump.cancel()
