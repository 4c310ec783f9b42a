"""`kubectl port-forward` is passed on to a kubelet, whatever that answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from mooring.apiserver.errors import ApiError
from mooring.apiserver.transport.node_proxy import until_one_ends
from mooring.apiserver.transport.port_forward import LARGEST_HEAD, TUNNEL, Kubelet, forward

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def client_of(
    answer: Answer, asked: list[bytes]
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A client of a server that forwards to a kubelet with this answer; `asked` is what the kubelet got."""

    async def kubelet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            await answer(reader, writer)
        finally:
            writer.close()

    served = await asyncio.start_server(kubelet, "127.0.0.1", 0)
    port = served.sockets[0].getsockname()[1]

    async def handle(incoming: web.Request) -> web.StreamResponse:
        try:
            return await forward(
                incoming, Kubelet("n", "127.0.0.1", port, None), "space", "p/od", until_one_ends
            )
        except ApiError as error:
            return web.Response(status=error.status()["code"], text=error.status()["message"])

    app = web.Application()
    app.router.add_get("/", handle)
    async with served, TestClient(TestServer(app)) as client:
        yield client


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(UPGRADED)
    while piece := await reader.read(1000):
        writer.write(piece)
        await writer.drain()


def saying(text: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


async def test_bytes_go_both_ways_and_the_kubelet_is_asked_for_the_pod():
    asked: list[bytes] = []
    async with client_of(echo, asked) as client, client.ws_connect("/", protocols=[TUNNEL]) as socket:
        assert socket.protocol == TUNNEL
        for said in (b"one", b"x" * 200_000):
            await socket.send_bytes(said)
            got = b""
            while len(got) < len(said):
                got += (await socket.receive()).data
            assert got == said
    assert asked[0].startswith(b"POST /portForward/space/p%2Fod HTTP/1.1\r\n")
    assert b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n" in asked[0]


async def test_what_the_kubelet_sends_with_its_answer_is_not_lost():
    async with (
        client_of(saying(UPGRADED + b"early"), []) as client,
        client.ws_connect("/", protocols=[TUNNEL]) as socket,
    ):
        assert (await socket.receive()).data == b"early"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", b"", b"101",
     b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"x" * (LARGEST_HEAD + 10), b"\xff\xfe \xff\r\n\r\n"],
)  # fmt: skip
async def test_any_other_answer_is_an_error_of_the_gateway(answer: bytes):
    async with client_of(saying(answer), []) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect("/", protocols=[TUNNEL])
        assert refused.value.status == 502


@pytest.mark.parametrize("protocols", [(), ("v4.channel.k8s.io",)])
async def test_a_client_that_speaks_otherwise_is_told_so_and_no_kubelet_is_asked(protocols: tuple[str, ...]):
    asked: list[bytes] = []
    async with client_of(echo, asked) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect("/", protocols=protocols)
        assert refused.value.status == 400
        assert (await client.get("/")).status == 400
    assert asked == []
