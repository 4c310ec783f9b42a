"""What the clients of etcd write down: a request that may have arrived is never missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from random import Random

from aiohttp import web
from tests.machines.stateful.etcd import CLIENTS, Etcd
from tests.machines.stateful.history import Kind


class Member:
    """A member that takes requests and never answers."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.busy = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        self.taken.append(request.path)
        if len(self.taken) == CLIENTS:
            self.busy.set()
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def listening(member: Member) -> AsyncGenerator[Etcd]:
    """The clients' side of a set, all of whose members are this one."""
    app = web.Application()
    app.router.add_post("/v3/kv/{what}", member.take)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    addresses = {f"etcd-{each}": "127.0.0.1" for each in range(Etcd.replicas)}
    etcd = Etcd(addresses, asyncio.get_running_loop().time, port)
    try:
        yield etcd
    finally:
        await etcd.close()
        await runner.cleanup()


async def test_what_is_on_its_way_when_a_client_is_ended_is_of_unknown_outcome() -> None:
    member = Member()
    async with listening(member) as etcd:
        clients = [asyncio.create_task(each()) for each in etcd.clients(Random(1))]
        await member.busy.wait()
        for client in clients:
            client.cancel()
            with suppress(asyncio.CancelledError):
                await client
        names = {"/v3/kv/put": Kind.PUT, "/v3/kv/txn": Kind.CAS, "/v3/kv/range": Kind.GET}
        assert sorted(each.kind for each in etcd.history) == sorted(names[path] for path in member.taken)
        assert not any(each.known for each in etcd.history)


async def test_what_was_certainly_not_sent_is_not_written_down() -> None:
    async with listening(Member()) as etcd:
        port = etcd.port
    etcd = Etcd({"etcd-0": "127.0.0.1"}, asyncio.get_running_loop().time, port)
    try:
        clients = [asyncio.create_task(each()) for each in etcd.clients(Random(1))]
        await asyncio.sleep(0.3)
        for client in clients:
            client.cancel()
            with suppress(asyncio.CancelledError):
                await client
        assert etcd.history == []
    finally:
        await etcd.close()
