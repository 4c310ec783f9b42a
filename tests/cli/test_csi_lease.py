"""The Lease of a CSI driver's role, beside the limit of its requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from virtual_server import started

from mooring.cli.csi_roles import REQUESTS, Role, _lead  # pyright: ignore[reportPrivateUsage]
from mooring.kube.client import Client
from mooring.kube.errors import NotLeading
from mooring.kube.objects import ConfigMap
from mooring.simulation.parts.faulty_transport import FaultyTransport, faulty_client, request

NAME = "example-com"


class Work:
    """Makes one object more than requests may be in flight, however it is cancelled."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.outcomes: list[Any] = []

    async def follow(self) -> None:
        await asyncio.Event().wait()

    async def lead(self) -> None:
        bodies = ({"metadata": {"name": f"c-{number}"}} for number in range(REQUESTS + 1))
        making = [self.client.create(ConfigMap, body, "default") for body in bodies]
        self.making = asyncio.gather(*making, return_exceptions=True)
        self.outcomes = await asyncio.shield(self.making)
        await asyncio.Event().wait()


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], datetime]) -> Callable[[Any], None]:
    def played(story: Callable[[FaultyTransport, list[Work], Any], Any]) -> None:
        async def on_server() -> None:
            client, wire = faulty_client(await started(now))
            works: list[Work] = []

            def make(given: Client, *_: Any) -> Any:
                works.append(Work(given))
                return works[-1:]

            role = Role("unix:///none.sock", None, "{driver}", 15.0, True, "kube-system", "", make)
            leading = asyncio.create_task(_lead(client, role, NAME))
            try:
                await story(wire, works, leading)
            finally:
                leading.cancel()

        run(on_server())

    return played


def test_a_lease_is_renewed_though_all_requests_of_the_work_hang(play: Callable[[Any], None]):
    async def story(wire: FaultyTransport, works: list[Work], leading: Any) -> None:
        held = [wire.hold(request("POST", "configmaps")) for _ in range(REQUESTS)]
        await asyncio.sleep(60)
        assert len(works) == 1, "it leads as it did"
        assert not works[0].outcomes
        for each in held:
            each.release()
        await asyncio.sleep(1)
        assert len(works[0].outcomes) == REQUESTS + 1

    play(story)


def test_what_has_waited_for_a_place_until_the_lease_was_over_is_not_sent(play: Callable[[Any], None]):
    async def story(wire: FaultyTransport, works: list[Work], leading: Any) -> None:
        held = [wire.hold(request("POST", "configmaps")) for _ in range(REQUESTS)]
        await asyncio.sleep(5)
        for _ in range(50):
            wire.lose(request("PATCH", NAME))
        await asyncio.sleep(15)
        for each in held:
            each.release()
        *_, last = await works[0].making
        assert isinstance(last, NotLeading)

    play(story)
