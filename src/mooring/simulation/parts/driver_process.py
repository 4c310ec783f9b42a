"""A CSI driver in a process of its own, and what its callers have of it: a socket that is played.

The process dies at any await, with all that it was doing, and starts anew. A call that was under way then has
no answer; a caller that dies, or does not wait any longer, leaves its call under way.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.errors import Code, CsiError, NotConnected
from mooring.csi.rpc import Reply, Rpc
from mooring.csi.rpc import Request as Message
from mooring.simulation.engine.event_loop import Actor

CALL_S = 0.001


class DriverProcess:
    """Where a driver is reached, whichever life of its process there is. `name` is its address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._host: Actor | None = None
        self._channel: LocalChannel | None = None
        self._open: dict[asyncio.Future[Any], str] = {}

    def begin(self, actor: Actor, dispatcher: Dispatcher) -> None:
        """Another life, as `actor`."""
        self.lose()
        self._host, self._channel = actor, LocalChannel(dispatcher)

    def lose(self) -> None:
        """Calls that are under way fail: their process is gone."""
        self._host = self._channel = None
        for answer, method in list(self._open.items()):
            if not answer.done():
                answer.set_exception(CsiError(Code.UNAVAILABLE, "the connection broke", method))

    async def call(self, rpc: Rpc[Message, Reply], request: Message, timeout_s: float) -> Reply:
        """As over a socket. Raises CsiError."""
        await asyncio.sleep(CALL_S)
        host, channel = self._host, self._channel
        if host is None or channel is None:
            raise NotConnected(self.name, "connection refused", rpc.name)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._open[answer] = rpc.name
        work = host.start(_answer(channel, rpc, request, timeout_s, answer))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise CsiError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s", rpc.name) from None
        finally:
            del self._open[answer]
            work.cancel()

    async def close(self) -> None:
        return


async def _answer(
    channel: LocalChannel,
    rpc: Rpc[Message, Reply],
    request: Message,
    timeout_s: float,
    answer: asyncio.Future[Reply],
) -> None:
    """The driver's side of a call."""
    try:
        reply = await channel.call(rpc, request, timeout_s)
    except CsiError as error:
        if not answer.done():
            answer.set_exception(error)
        return
    if not answer.done():
        answer.set_result(reply)
