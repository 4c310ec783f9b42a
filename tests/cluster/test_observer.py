"""The observer looks at what may go while it looks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from random import Random

from mooring.apiserver import Server
from mooring.cluster.observer import Observer
from mooring.cluster.truth import Truth
from mooring.kube.objects import Node
from mooring.mounts.table import read_mount_table
from mooring.simulation.parts.faulty_transport import faulty_client


class Going(Truth):
    """A disk whose device on n goes whenever its mount is looked up."""

    looks = 0

    def holders(self, handle: str) -> tuple[str, ...]:
        return ("n",)

    def is_of(self, mount: object, handle: str, node: str) -> bool:
        self.looks += 1
        raise FileNotFoundError("/dev/loop7")


def test_a_device_that_goes_while_it_is_looked_at_does_not_end_the_observation() -> None:
    async def scene() -> None:
        server = Server.in_memory(now=lambda: datetime.now(UTC), random=Random(1))
        await server.start()
        api, _ = faulty_client(server)
        await api.create(Node, {"metadata": {"name": "n"}})
        truth = Going()
        observer = Observer(api, truth, lambda node: read_mount_table())
        observer.disk = "d"
        running = asyncio.create_task(observer.run())
        async with asyncio.timeout(20):
            while truth.looks < 2:
                await asyncio.sleep(0.01)
                assert not running.done(), running.exception()
        assert observer.true_state("n") == "attached"
        running.cancel()

    asyncio.run(scene())
