"""How `mooring controller` runs its controllers, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from virtual_server import started

from mooring.cli.controllers import Settings, run_controllers
from mooring.kube.objects import Lease
from mooring.simulation.parts.faulty_transport import faulty_client


def test_with_leader_election_one_of_two_runs_each_controller_and_the_other_takes_over(
    run: Callable[[Any], Any], now: Callable[[], Any]
):
    async def story():
        server = await started(now)

        def start(seed: int) -> asyncio.Task[None]:
            settings = Settings(now=now, random=Random(seed))
            client, _ = faulty_client(server)
            return asyncio.create_task(
                run_controllers(["podgc", "binding"], client, settings, leader_elect=True)
            )

        async def holders() -> set[str | None]:
            leases = [
                await admin.get(Lease, f"mooring-{name}", "kube-system") for name in ("podgc", "binding")
            ]
            return {lease.spec.holder_identity for lease in leases}

        admin, _ = faulty_client(server)
        first = start(1)
        await asyncio.sleep(5)
        before = await holders()
        second = start(2)
        await asyncio.sleep(30)
        assert await holders() == before
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(30)
        after = await holders()
        assert len(before) == len(after) == 1
        assert before.isdisjoint(after)
        second.cancel()

    run(story())
