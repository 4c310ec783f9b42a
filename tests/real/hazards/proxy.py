"""Between a controller and the API server: watches that lag, requests that arrive late, and a list of all
that passed.

A controller under test speaks to nothing else, so whatever it knows or does goes through here. It knows no
controller.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from tests.real.server import HOST, RealServer

HOP_BY_HOP = {
    "connection",
    "transfer-encoding",
    "content-length",
    "host",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
}
CHUNK = 1 << 16


@dataclass(frozen=True)
class Passed:
    """A request as it was sent by the controller."""

    method: str
    path: str
    at: float


@dataclass
class Hold:
    """Requests that match are kept back until `released`; then they go on, whether or not their sender still
    lives."""

    method: str
    path: re.Pattern[str]
    content: bytes
    released: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """`lag` is by resource (`pods`, `nodes`): seconds by which what a watch tells is late."""

    def __init__(self, server: RealServer, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session
        self.url = ""
        self.lag: dict[str, float] = {}
        self.holds: list[Hold] = []
        self.refused: list[re.Pattern[str]] = []
        """Writes to paths that match are answered with an error, and do not reach the server."""
        self.passed: list[Passed] = []

    def hold(self, method: str, path: str, content: str = "") -> Hold:
        """From now on keeps back the requests whose path matches the expression and whose body has the
        content."""
        hold = Hold(method, re.compile(path), content.encode())
        self.holds.append(hold)
        return hold

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request, there and back."""
        body = await request.read()
        self.passed.append(Passed(request.method, request.path, asyncio.get_running_loop().time()))
        if request.method != "GET" and any(each.search(request.path) for each in self.refused):
            return web.Response(status=503)
        for hold in self.holds:
            if hold.method == request.method and hold.path.search(request.path) and hold.content in body:
                hold.held.set()
                await hold.released.wait()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {self._server.token}"
        url = f"{self._server.url}{request.raw_path}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            if request.query.get("watch") in ("true", "1"):
                return await self._stream(request, answer, kept)
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        resource = request.path.rstrip("/").rpartition("/")[2]
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        reader = asyncio.create_task(self._read(answer, resource, pieces))
        try:
            while True:
                due, piece = await pieces.get()
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                if not piece:
                    return response
                await response.write(piece)
        except (ConnectionError, aiohttp.ClientError):
            return response  # the controller went
        finally:
            reader.cancel()

    async def _read(
        self, answer: aiohttp.ClientResponse, resource: str, into: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """Each piece with the moment when it may be told; an empty one is the end."""
        loop = asyncio.get_running_loop()
        try:
            async for piece in answer.content.iter_any():
                into.put_nowait((loop.time() + self.lag.get(resource, 0.0), piece))
        except aiohttp.ClientError:
            pass  # the same as its end
        into.put_nowait((loop.time(), b""))


@asynccontextmanager
async def proxy(server: RealServer) -> AsyncGenerator[Proxy]:
    """A proxy before the server, on a port of its own."""
    context = ssl.create_default_context(cafile=str(server.authority))
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        running = Proxy(server, session)
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", running.handle)
        runner = web.AppRunner(application, handler_cancellation=False, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        running.url = f"http://{HOST}:{runner.addresses[0][1]}"
        try:
            yield running
        finally:
            await runner.cleanup()
