"""The thin HTTP adapter: sockets to `Request`s and back, by aiohttp. Loopback only.

The core joins watch events that are pending into one piece, and hands a watch's news straight to its connection
(`_sink`) while that has room; past it, its task writes when there is room again. A client that goes away cancels its
request, which closes the watch.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import lru_cache
from typing import cast

import structlog
from aiohttp import web

from mooring.apiserver.body import MAX_BODY_BYTES
from mooring.apiserver.errors import Internal, TooLarge
from mooring.apiserver.message import Request, Response, Sink
from mooring.apiserver.node_proxy import NodeProxy, add_routes
from mooring.apiserver.server import Server
from mooring.apiserver.store import encode

PIECE = 128 * 1024
"""Bytes of a body that are written at once, and that may wait for the reader of a watch."""

log = structlog.get_logger(__name__)


def application(server: Server, proxy: NodeProxy | None = None) -> web.Application:
    """An aiohttp application that passes every request to `server`; what nodes answer, to `proxy`."""

    async def handle(incoming: web.Request) -> web.StreamResponse:
        try:
            request = await _request(incoming)
        except web.HTTPRequestEntityTooLarge:
            error = TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
            return web.Response(status=413, body=encode(error.status()), content_type="application/json")
        return await _send(incoming, await _answer(server, request))

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    if proxy is not None:
        add_routes(app, proxy, server.tokens, _send)
    app.router.add_route("*", "/{path:.*}", handle)
    return app


async def _answer(server: Server, request: Request) -> Response:
    try:
        return await server.handle(request)
    except Exception as error:
        log.exception("request failed", method=request.method, path=request.path)
        status = Internal(f"Internal error occurred: {error!r}").status()
        return Response(500, {"content-type": "application/json"}, encode(status))


async def _request(incoming: web.Request) -> Request:
    headers = {name.lower(): value for name, value in incoming.headers.items()}
    body = await incoming.read() if incoming.can_read_body else b""
    query = list(incoming.query.items())
    return Request(incoming.method, incoming.path, query, headers, body, sink=_sink(incoming))


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


async def _send_large(incoming: web.Request, response: Response) -> web.StreamResponse:
    """In pieces, each written when the one before has left: TLS holds several copies of what it is given."""
    outgoing = web.StreamResponse(status=response.status, headers=response.headers)
    outgoing.content_length = len(response.body)
    await outgoing.prepare(incoming)
    whole = memoryview(response.body)
    for start in range(0, len(whole), PIECE):
        await outgoing.write(whole[start : start + PIECE])
    await outgoing.write_eof()
    return outgoing
