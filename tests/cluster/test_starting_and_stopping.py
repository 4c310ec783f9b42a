"""A cluster is taken down as a whole: whatever fails, whatever is just starting, whenever it is told to."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster import cluster as cluster_module
from mooring.cluster import foreground
from mooring.cluster.cluster import Cluster
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.node_machines import NodeMachines
from mooring.cluster.options import Options
from mooring.cluster.processes import Part, kill, load
from mooring.cluster.together import together


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """One of a single part, its API server, which no test leaves behind."""
    made: Any = Cluster(Layout(tmp_path), Options(nodes=0))

    async def start() -> None:
        made._apiserver = part = Part("apiserver", ["sleep", "600"], run=tmp_path / "run", logs=tmp_path)
        await part.start()

    monkeypatch.setattr(made, "_start", start)
    monkeypatch.setattr(cluster_module, "sweep", lambda layout: [])  # type: ignore[misc]
    yield made
    if (left := load(tmp_path / "run" / "apiserver.json")) is not None:
        kill(left)


async def test_a_step_of_the_end_that_fails_keeps_no_other_from_being_done(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    async def in_use(self: NodeMachines, grace: float) -> None:
        raise ClusterError("/dev/loop7 is in use")

    monkeypatch.setattr(NodeMachines, "stop", in_use)
    await cluster.start()
    (part,) = cluster.parts
    assert part.running is not None
    with pytest.raises(ClusterError, match="loop7"):
        await cluster.stop()
    assert part.running is None
    assert not (cluster.layout.run / "up.json").exists()


async def test_machines_that_shut_down_are_waited_for_when_another_one_fails(tmp_path: Path):
    """The API server goes next, and they have something to say to it."""
    nodes = NodeMachines(Layout(tmp_path), Options(nodes=0), None, list)  # type: ignore[arg-type]
    machines = {"node-1": Stopping(ClusterError("/dev/loop7 is in use")), "node-2": Stopping()}
    nodes.machines.update(machines)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="loop7"):
        await nodes.stop(30)
    assert machines["node-2"].off


class Stopping:
    """A machine that takes a moment to shut down; or cannot."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.off = False

    async def stop(self, *, grace: float) -> None:
        if self.failure is not None:
            raise self.failure
        await asyncio.sleep(0.05)
        self.off = True


async def test_what_is_done_together_has_ended_when_one_of_it_has_failed_or_it_is_cancelled():
    ended: list[str] = []

    async def part(name: str, failure: Exception | None = None) -> None:
        try:
            if failure is not None:
                raise failure
            await asyncio.sleep(0.01)
        finally:
            await asyncio.sleep(0.01)
            ended.append(name)

    with pytest.raises(OSError, match="full"):
        await together(part("bad", OSError("full")), part("slow"))
    assert ended == ["bad", "slow"]
    task = asyncio.create_task(together(part("one"), part("two")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended[2:] == ["one", "two"]


async def test_a_signal_that_comes_while_the_cluster_starts_takes_down_what_has_been_started(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """Machines may take minutes to boot, and `mooring down` waits for one."""
    start: Any = cluster._start  # pyright: ignore[reportPrivateUsage]
    started = asyncio.Event()

    async def never_up() -> None:
        await start()
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster, "_start", never_up)
    monkeypatch.setattr(foreground, "Cluster", lambda *_: cluster)  # type: ignore[misc]
    running = asyncio.create_task(foreground.run(cluster.layout, cluster.options, out := io.StringIO()))
    await started.wait()
    (part,) = cluster.parts
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(30):
        await running
    assert part.running is None
    assert "stopped; the next `mooring up` resumes" in out.getvalue()
