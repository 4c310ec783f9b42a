"""Two instances, one Lease: the lease holder dies, or is paused, in the middle of many
attaches, and the other takes over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from csi_cluster import CsiCluster

from mooring.cli.controllers import Settings, run_controllers
from mooring.kube.client import Client
from mooring.kube.objects import Lease
from mooring.simulation.parts.faulty_transport import FaultyTransport, admin

VOLUMES = 500
LEASE_S, MARGIN_S = 15.0, 10.0  # a candidate looks every 2 to 4.4 s


def instance(cluster: CsiCluster, seed: int) -> tuple[FaultyTransport, asyncio.Task[Any]]:
    """`mooring controller --controllers=attachdetach --leader-elect=true`."""
    wire = FaultyTransport(admin(cluster.server))
    settings = Settings(now=cluster.now, random=Random(seed))
    return wire, cluster.spawn(run_controllers(["attachdetach"], Client(wire), settings, leader_elect=True))


async def leads(cluster: CsiCluster) -> str | None:
    lease = await cluster.api.find(Lease, "mooring-attachdetach", "kube-system")
    return lease.spec.holder_identity if lease is not None else None


async def many_pods(cluster: CsiCluster) -> None:
    for number in range(VOLUMES):
        await cluster.volume(f"v{number}")
    for number in range(VOLUMES):
        await cluster.pod(f"p{number}", f"v{number}", f"n{number % 10}")


def creations(wire: FaultyTransport) -> int:
    return sum(each.startswith("POST") and each.endswith("/volumeattachments") for each in wire.sent)


@pytest.mark.parametrize(("at", "after"), [(0, False), (40, True), (333, False), (480, True)])
def test_the_leader_dies_among_many_attaches_and_the_other_goes_on(
    run: Callable[[Any], Any], now: Callable[[], Any], at: int, after: bool
):
    async def story() -> None:
        loop = asyncio.get_running_loop()
        cluster = CsiCluster(now)
        await cluster.start([f"n{number}" for number in range(10)])
        first, _ = instance(cluster, 1)
        await cluster.until(lambda: leads(cluster))
        second, _ = instance(cluster, 2)
        await asyncio.sleep(1)
        assert creations(first) == creations(second) == 0
        first.crash_at(at, after=after)
        work = cluster.spawn(many_pods(cluster))
        await first.crashed.wait()
        died = loop.time()
        await cluster.until(lambda: creations(second), seconds=LEASE_S + MARGIN_S)
        assert loop.time() - died <= LEASE_S + MARGIN_S

        async def all_reported() -> bool:
            listed = [len(await cluster.listed(f"n{number}")) for number in range(10)]
            return work.done() and sum(listed) == VOLUMES

        await cluster.until(all_reported)
        assert cluster.both == [], "no volume was ever on two nodes"
        records = Counter(each.spec.source.persistent_volume_name for each in await cluster.records())
        assert records == Counter(f"v{number}" for number in range(VOLUMES))
        assert len(cluster.attached) == VOLUMES
        await cluster.stop()

    run(story())


def test_a_leader_that_could_not_renew_stops_and_takes_part_again(
    run: Callable[[Any], Any], now: Callable[[], Any]
):
    async def story() -> None:
        cluster = CsiCluster(now)
        await cluster.start()
        first, _ = instance(cluster, 1)
        before = await cluster.until(lambda: leads(cluster))
        second, _ = instance(cluster, 2)
        await cluster.volume("v")
        first.down = True

        async def another() -> bool:
            return await leads(cluster) != before

        await cluster.until(another)
        await cluster.pod("p", "v", "n0")

        async def all_reported() -> bool:
            return "v" in await cluster.listed("n0")

        await cluster.until(all_reported)
        sent = creations(first)
        first.down = False
        await asyncio.sleep(60)
        assert creations(first) == sent, "it stands by"
        assert creations(second) == 1
        await cluster.stop()

    run(story())
