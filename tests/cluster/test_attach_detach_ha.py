"""Two `mooring controller` processes, one Lease: kill -9, or a pause, of the one that works among many
attaches.

Reduced in `make test`; with MOORING_SOAK whole, in rounds, and with a pause past the lease. Truth is what the
played attacher has attached.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from csi_cluster import CsiCluster

from mooring.apiserver.process import serve
from mooring.kube import config
from mooring.kube.objects import Lease
from mooring.kube.times import wall_clock

SOAK = bool(os.environ.get("MOORING_SOAK"))
VOLUMES = 500 if SOAK else 60
ROUNDS = 20 if SOAK else 1
NODES = 10

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(3000 if SOAK else 170)]


class Instance:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, kubeconfig: Path, log: Path) -> Instance:
        words = [
            "controller",
            "--controllers=attachdetach",
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=true",
        ]
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mooring.cli.main", *words, stdout=out, stderr=out
            )
        return cls(process)

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def cluster_of(tmp_path: Path) -> AsyncGenerator[tuple[CsiCluster, Path]]:
    kubeconfig = tmp_path / "kubeconfig"
    running = await serve(data_dir=tmp_path / "api", port=0, kubeconfig=kubeconfig)
    client = config.load(kubeconfig)
    cluster = CsiCluster(wall_clock, client)
    try:
        await cluster.start([f"n{number}" for number in range(NODES)])
        yield cluster, kubeconfig
    finally:
        await cluster.stop()
        await client.close()
        await running.close()


async def leader(cluster: CsiCluster) -> str:
    lease = await cluster.api.find(Lease, "mooring-attachdetach", "kube-system")
    return (lease.spec.holder_identity or "") if lease is not None else ""


async def play(tmp_path: Path, number: int, how: signal.Signals) -> float:
    """The longest time without an attach after the signal, in seconds."""
    async with cluster_of(tmp_path) as (cluster, kubeconfig):
        first = await Instance.start(kubeconfig, tmp_path / "first.log")
        await cluster.until(lambda: leader(cluster))
        second = await Instance.start(kubeconfig, tmp_path / "second.log")
        try:
            for each in range(VOLUMES):
                await cluster.volume(f"v{each}")
            pods = cluster.spawn(all_pods(cluster))
            await cluster.until(lambda: len(cluster.attached) > VOLUMES // 3)
            first.process.send_signal(how)
            watching = asyncio.create_task(longest_pause(cluster))
            await cluster.until(lambda: everything_is_reported(cluster))
            waited = await watching
            await pods
            if how is signal.SIGSTOP:
                first.process.send_signal(signal.SIGCONT)
                await asyncio.sleep(5)
            records = await cluster.records()
            assert len(records) == VOLUMES
            assert len({each.spec.source.persistent_volume_name for each in records}) == VOLUMES
            assert cluster.both == [], "no volume was ever on two nodes"
            return waited
        finally:
            await first.end()
            await second.end()


async def longest_pause(cluster: CsiCluster) -> float:
    loop = asyncio.get_running_loop()
    longest, had, since = 0.0, len(cluster.attached), loop.time()
    while len(cluster.attached) < VOLUMES:
        if len(cluster.attached) != had:
            had, since = len(cluster.attached), loop.time()
        longest = max(longest, loop.time() - since)
        await asyncio.sleep(0.01)
    return longest


async def all_pods(cluster: CsiCluster) -> None:
    for each in range(VOLUMES):
        await cluster.pod(f"p{each}", f"v{each}", f"n{each % NODES}")
        await asyncio.sleep(0.02)  # or all are attached before the signal


async def everything_is_reported(cluster: CsiCluster) -> bool:
    listed = [len(await cluster.listed(f"n{number}")) for number in range(NODES)]
    return sum(listed) == VOLUMES


@pytest.mark.parametrize("how", [signal.SIGKILL, *([signal.SIGSTOP] if SOAK else [])])
async def test_the_other_goes_on_and_nothing_is_lost_or_doubled(tmp_path: Path, how: signal.Signals):
    waited = [await play(tmp_path / str(number), number, how) for number in range(ROUNDS)]
    print(
        f"{how.name}: the longest pauses between attaches, in seconds: {sorted(round(each, 1) for each in waited)}"
    )
