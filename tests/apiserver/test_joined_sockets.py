"""A client's web socket and a node's, joined: also where the node speaks an older protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from mooring.apiserver.transport.joined_sockets import LAST, PROTOCOLS, join, offered, spoken

OLD = "v4.channel.k8s.io"


@asynccontextmanager
async def listening(handler: object) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def command(speaks: str) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, list[bytes]]]:
    """A client of v5 at a server that joins it with a node which speaks that: the node answers each message
    with the same bytes on standard output, and notes it."""
    got: list[bytes] = []

    async def node(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=[speaks])
        await socket.prepare(request)
        async for message in socket:
            got.append(message.data)
            await socket.send_bytes(b"\x01" + message.data[1:])
        return socket

    async def server(request: web.Request) -> web.WebSocketResponse:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, protocols=offered([LAST], kubelet=True)) as inner,
        ):
            outer = web.WebSocketResponse(protocols=[str(spoken([LAST], inner.protocol))])
            await outer.prepare(request)
            await join(outer, inner, "node-1")
        return outer

    async with (
        listening(node) as address,
        listening(server) as front,
        aiohttp.ClientSession() as session,
        session.ws_connect(front, protocols=[LAST]) as client,
    ):
        assert client.protocol == LAST
        yield client, got


@pytest.mark.parametrize("speaks", [LAST, OLD])
async def test_bytes_go_both_ways_whatever_the_node_speaks(speaks: str) -> None:
    async with command(speaks) as (client, got):
        await client.send_bytes(b"\x00said")
        assert await client.receive_bytes() == b"\x01said"
        assert got == [b"\x00said"]


async def test_the_end_of_the_input_is_told_to_a_node_that_understands_it() -> None:
    async with command(LAST) as (client, got):
        await client.send_bytes(b"\xff\x00")
        assert await client.receive_bytes() == b"\x01\x00"
        assert got == [b"\xff\x00"]


async def test_the_end_of_the_input_is_no_bytes_for_an_older_kubelet_and_the_client_is_told() -> None:
    async with command(OLD) as (client, got):
        await client.send_bytes(b"\xff\x00")
        said = await client.receive_bytes()
        assert said[:1] == b"\x02"
        assert b"kubelet of node-1 cannot be told that the input has ended" in said
        await client.send_bytes(b"\x00more")
        assert await client.receive_bytes() == b"\x01more"
        assert got == [b"\x00more"]
        await client.close()
        assert (await client.receive()).type is WSMsgType.CLOSED


def test_an_agent_is_offered_what_the_client_wants_and_a_kubelet_also_what_is_older() -> None:
    assert offered([LAST], kubelet=False) == [LAST]
    assert offered([LAST], kubelet=True) == [LAST, OLD]
    assert offered([OLD], kubelet=True) == [OLD]
    assert offered([*PROTOCOLS], kubelet=True) == [*PROTOCOLS]
    assert offered(["v9"], kubelet=True) == []


def test_a_client_is_answered_in_a_protocol_that_it_wants() -> None:
    assert spoken([LAST, OLD], OLD) == OLD
    assert spoken([LAST], OLD) == LAST
    assert spoken([LAST], None) is None
