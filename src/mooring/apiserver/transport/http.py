"""The thin HTTP adapter: sockets to `Request`s and back, by aiohttp. Loopback only.

The core joins pending watch events into one piece, and writes a watch's new events directly to its connection
(`_sink`) while that has room; otherwise the watch's task writes when there is room again. A client that goes
away cancels its request, which closes the watch.

The framing of those chunks is therefore ours. With aiohttp's `StreamResponse.write` the task of each watch
has to run: an event of 900 bytes took 8.5 µs of CPU for each of 200 watchers, and takes 5.4 µs as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from functools import lru_cache
from typing import cast

import structlog
from aiohttp import web

from mooring.apiserver.encodings.body import MAX_BODY_BYTES
from mooring.apiserver.errors import ApiError, Internal
from mooring.apiserver.message import Request, Response, Sink, User
from mooring.apiserver.server import Server, failure
from mooring.apiserver.transport.forked_requests import Aside
from mooring.apiserver.transport.limits import ANSWER_S, Gate, read
from mooring.apiserver.transport.node_proxy import Handler, NodeProxy, add_routes, until_one_ends
from mooring.apiserver.work_limit import AT_ONCE, TooMuch, limited

PIECE = 128 * 1024
"""Bytes of a body that are written at once, and that may wait for the reader of a watch."""

HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("headers", dict[str, str])
USER: web.RequestKey[User | None] = web.RequestKey("user", User)
_HEAVY_BODY = 64 * 1024
LONGEST_NOTE = 600
"""Bytes of an answer that are noted."""
QUOTING = frozenset({400, 422})
"""Codes of answers that quote fields of the request."""
FRAMES = "binary.k8s.io"
"""A web socket whose binary messages are the pieces of a body."""

log = structlog.get_logger(__name__)


def application(server: Server, proxy: NodeProxy | None = None, gate: Gate | None = None) -> web.Application:
    """An aiohttp application that passes every request to `server`; what nodes answer, to `proxy`."""
    gate, aside = gate or Gate(server.identities), Aside(server)

    async def handle(incoming: web.Request) -> web.StreamResponse:
        try:
            with gate.under_way():
                with gate.body(incoming):
                    response = await _answer(server, aside, await _request(incoming))
                if response.status >= 400:
                    _note(incoming, response)
                if response.stream is None:
                    return await _send(incoming, response)
        except ApiError as error:
            _note(incoming, failed := failure(error))
            return await _send(incoming, failed)
        return await _send(incoming, response)

    @web.middleware
    async def let_in(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[HEADERS] = headers = _headers(request)
            request[USER] = gate.user(request, headers)
        except ApiError as error:
            _note(request, failed := failure(error))
            return await _send(request, failed)
        return await handler(request)

    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[let_in])
    if proxy is not None:
        add_routes(app, proxy, server.identities, _send)
    app.router.add_route("*", "/{path:.*}", handle, expect_handler=_expected)
    return app


def _note(incoming: web.Request, refusal: Response) -> None:
    """For an audit: what was refused, to which user, and why; but not where that quotes what was sent, which
    may be a secret. Text of others is escaped by the log."""
    user = incoming.get(USER)
    why = b"" if refusal.status in QUOTING else refusal.body[:LONGEST_NOTE]
    log.debug(
        "refused",
        code=refusal.status,
        user=user.name if user is not None else "",
        method=incoming.method,
        path=_readable(incoming.path),
        why=why.decode(errors="replace"),
    )


async def _expected(incoming: web.Request) -> None:
    """An Expect header: aiohttp's own handler repeats what it says, and fails where that is no text."""
    if incoming.headers.get("Expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed
    if incoming.transport is not None:
        incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _answer(server: Server, aside: Aside, request: Request) -> Response:
    """The server's answer, decided in this process if that is cheap, otherwise in a copy."""
    try:
        if len(request.body) > _HEAVY_BODY:
            return await aside.answer(request)
        try:
            with limited(AT_ONCE):
                return await server.handle(request)
        except TooMuch:
            request.warnings.clear()
        return await aside.answer(request)
    except Exception as error:
        log.exception("request failed", method=request.method, path=request.path)
        return failure(Internal(f"Internal error occurred: {error!r}"))


def _headers(incoming: web.Request) -> dict[str, str]:
    """The headers by lower-case names. Bytes that are no UTF-8 are shown as such: nothing that is valid has
    them."""
    found = {name.lower(): value for name, value in incoming.headers.items()}
    return {name: value if value.isascii() else _readable(value) for name, value in found.items()}


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _request(incoming: web.Request) -> Request:
    query = [(_readable(key), _readable(value)) for key, value in incoming.query.items()]
    body = await read(incoming)
    path = _readable(incoming.path)
    headers, user = incoming[HEADERS], incoming[USER]
    return Request(incoming.method, path, query, headers, body, user, sink=_sink(incoming), warnings=[])


def _sink(incoming: web.Request) -> Sink:
    """Writes pieces of a chunked answer to the connection, unless more is in its buffer than should be."""
    protocol, transport = incoming.protocol, incoming.transport

    def sink(piece: bytes) -> bool:
        if transport is None or protocol.writing_paused or transport.is_closing():
            return False
        transport.write(_chunk(piece))
        return True

    return sink


@lru_cache(maxsize=1)
def _chunk(piece: bytes) -> bytes:
    """A piece as HTTP sends it; one after the other, many connections get the same."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


async def _send(incoming: web.Request, response: Response) -> web.StreamResponse:
    if response.stream is None and len(response.body) <= PIECE:
        return web.Response(status=response.status, headers=response.headers, body=response.body)
    if response.stream is None:
        return await _send_large(incoming, response)
    if incoming.path.endswith("/log") and (framed := _framed(incoming)) is not None:
        return await _send_framed(incoming, response.stream, framed)
    outgoing = web.StreamResponse(status=response.status, headers=response.headers)
    outgoing.enable_chunked_encoding()
    if incoming.transport is not None:
        incoming.transport.set_write_buffer_limits(high=PIECE)
    async with aclosing(cast(AsyncGenerator[bytes], response.stream)) as chunks:
        await outgoing.prepare(incoming)
        async for chunk in chunks:
            await outgoing.write(chunk)
    await outgoing.write_eof()
    return outgoing


def _framed(incoming: web.Request) -> web.WebSocketResponse | None:
    """The web socket that a client asks for instead of a body, as browsers do for a log."""
    wanted = [name.strip() for name in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    outgoing = web.WebSocketResponse(protocols=(FRAMES,), max_msg_size=PIECE)
    return outgoing if FRAMES in wanted and outgoing.can_prepare(incoming) else None


async def _send_framed(
    incoming: web.Request, stream: AsyncIterator[bytes], outgoing: web.WebSocketResponse
) -> web.WebSocketResponse:
    """Until the stream or the client ends."""

    async def send() -> None:
        with suppress(ConnectionError):
            async for chunk in chunks:
                await outgoing.send_bytes(chunk)

    await outgoing.prepare(incoming)
    async with aclosing(cast(AsyncGenerator[bytes], stream)) as chunks:
        await until_one_ends(send(), outgoing.receive())
    await outgoing.close()
    return outgoing


async def _send_large(incoming: web.Request, response: Response) -> web.StreamResponse:
    """In pieces, each written when the one before has left: TLS holds several copies of what it is given."""
    outgoing = web.StreamResponse(status=response.status, headers=response.headers)
    outgoing.content_length = len(response.body)
    await outgoing.prepare(incoming)
    whole = memoryview(response.body)
    async with asyncio.timeout(ANSWER_S):
        for start in range(0, len(whole), PIECE):
            await outgoing.write(whole[start : start + PIECE])
        await outgoing.write_eof()
    return outgoing
