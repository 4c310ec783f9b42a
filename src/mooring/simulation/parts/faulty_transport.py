"""A transport to an API server in this process, on which single requests can be held back, lost, or
repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.errors import Unreachable
from mooring.kube.transport import InProcess, Request, Response, Transport

Match = Callable[[Request], bool]


def request(method: str, path: str, body: str = "") -> Match:
    """Matches requests of the method whose path and body contain these words."""
    return lambda each: each.method == method and path in each.path and body in each.body.decode()


@dataclass
class Fault:
    """Strikes the next request that matches. `arrived` is set when it has."""

    match: Match
    kind: str
    transport: FaultyTransport
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    struck: Request | None = None
    _go: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Lets a held request go on."""
        self._go.set()

    async def deliver(self) -> int:
        """Delivers a request that its sender has given up long ago; returns the status of the answer."""
        assert self.struck is not None, "nothing matched"
        return (await self.transport.inner.send(self.struck)).status

    async def send(self, sent: Request) -> Response:
        self.struck = sent
        self.arrived.set()
        if self.kind in ("hold", "hold and lose"):
            await self._go.wait()
        if self.kind == "hold":
            return await self.transport.inner.send(sent)
        if self.kind == "unanswered":
            await self.transport.inner.send(sent)
        raise Unreachable(f"{sent.method} {sent.path}: no answer")


class FaultyTransport:
    """Notes every request in `sent`, as "METHOD path"."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.sent: list[str] = []
        self._cut = asyncio.Event()
        self._faults: list[Fault] = []
        self._crash_in: int | None = None
        self._crash_after = False
        self.crashed = asyncio.Event()

    def crash_at(self, number: int, *, after: bool) -> None:
        """From its next-but-`number` request on, the sender does nothing any more; `crashed` is set then.

        With `after`, that request itself still has its effect.
        """
        self._crash_in, self._crash_after = number, after

    def spare(self) -> None:
        """No crash any more, if there was none yet."""
        self._crash_in = None

    async def _crash(self, request: Request) -> None:
        if self._crash_in is None:
            return
        self._crash_in -= 1
        if self._crash_in < 0:
            if self._crash_after and not self.crashed.is_set():
                await self.inner.send(request)
            self.crashed.set()
            await asyncio.Event().wait()

    @property
    def down(self) -> bool:
        """Whether the wire is cut: requests are lost, open watches break."""
        return self._cut.is_set()

    @down.setter
    def down(self, cut: bool) -> None:
        if cut:
            self._cut.set()
        else:
            self._cut.clear()

    def hold(self, match: Match) -> Fault:
        """The request waits until `release`; its sender waits, too."""
        return self._plan(match, "hold")

    def hold_and_lose(self, match: Match) -> Fault:
        """The same; and then the request has no effect, and its sender gets no answer."""
        return self._plan(match, "hold and lose")

    def late(self, match: Match) -> Fault:
        """Its sender gets no answer; the request itself arrives when the test says `deliver`."""
        return self._plan(match, "late")

    def unanswered(self, match: Match) -> Fault:
        """The request has its effect, and its sender gets no answer."""
        return self._plan(match, "unanswered")

    def lose(self, match: Match) -> Fault:
        """The request has no effect, and its sender gets no answer."""
        return self._plan(match, "lose")

    def _plan(self, match: Match, kind: str) -> Fault:
        self._faults.append(Fault(match, kind, self))
        return self._faults[-1]

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)  # even here an answer takes a turn of the loop
        self.sent.append(f"{request.method} {request.path}")
        await self._crash(request)
        if self.down:
            raise Unreachable(f"{request.method} {request.path}: no route")
        fault = next((each for each in self._faults if each.match(request)), None)
        if fault is not None:
            self._faults.remove(fault)
            return await fault.send(request)
        answer = await self.inner.send(request)
        stream = self._pieces(answer.stream) if answer.stream is not None else None
        return Response(answer.status, answer.headers, answer.body, stream)

    async def _pieces(self, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        cut = asyncio.ensure_future(self._cut.wait())
        piece = asyncio.ensure_future(anext(stream, None))
        try:
            while True:
                await asyncio.wait({piece, cut}, return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    raise Unreachable("the stream broke")
                if (found := piece.result()) is None:
                    return
                yield found
                piece = asyncio.ensure_future(anext(stream, None))
        finally:
            cut.cancel()
            piece.cancel()
            await asyncio.gather(piece, return_exceptions=True)
            await stream.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        await self.inner.close()


def admin(server: Server) -> InProcess:
    """The administrator's transport."""
    return InProcess(server.call, server.tokens.admin())


def role(server: Server, name: str) -> InProcess:
    """The transport of a part with the rights of a role."""
    return InProcess(server.call, server.tokens.role(name))


def faulty_client(server: Server) -> tuple[Client, FaultyTransport]:
    """An administrator's client and the wire that it uses."""
    wire = FaultyTransport(admin(server))
    return Client(wire), wire
