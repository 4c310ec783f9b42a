"""The transport over TCP, on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mooring.kube.errors import Unreachable
from mooring.kube.http import HttpTransport
from mooring.kube.transport import Request


@asynccontextmanager
async def server(handler: Any) -> AsyncGenerator[str, None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_method_path_query_body_and_token_arrive_as_they_are():
    async def handler(request: web.Request) -> web.Response:
        said = [request.method, request.raw_path, request.headers["Authorization"], (await request.read()).decode()]
        return web.json_response(said, status=201)

    async with server(handler) as url:
        transport = HttpTransport(url, token="t")
        answer = await transport.send(Request("POST", "/a/b%2Fc", (("labelSelector", "a in (b,c)"),), {}, b"body"))
        await transport.close()
    assert answer.status == 201
    assert answer.body == b'["POST", "/a/b%2Fc?labelSelector=a+in+(b,c)", "Bearer t", "body"]'


async def test_where_nobody_listens_is_unreachable_and_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    transport = HttpTransport(url)
    with pytest.raises(Unreachable, match=rf"GET /x at {url}: "):
        await transport.send(Request("GET", "/x"))
    await transport.close()


async def test_an_answer_that_does_not_come_in_time_is_unreachable():
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with server(handler) as url:
        transport = HttpTransport(url)
        with pytest.raises(Unreachable):
            await transport.send(Request("GET", "/x", timeout=0.05))
        await transport.close()


async def test_a_stream_comes_in_pieces_of_any_length_and_breaks_as_unreachable():
    long = b"x" * 1_000_000 + b"\n"

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(long)
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True))
        assert answer.stream is not None
        with pytest.raises(Unreachable, match="stream of /x broke"):
            async for _ in answer.stream:
                pass
        await transport.close()


async def test_a_refused_stream_has_its_reason_as_body():
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=410, text="too old")

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True))
        await transport.close()
    assert (answer.status, answer.body, answer.stream) == (410, b"too old", None)
