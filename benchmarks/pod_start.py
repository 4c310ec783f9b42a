"""From "reported attached" to a pod's first process: `python -m benchmarks.pod_start` (as root).

One node of `mooring up`. In each round a pod comes whose disk is formatted already, and one that has no
volume. Prints what the volume adds: from the node's status naming the volume to the first process of its pod,
beside the time from "bound to this node" to the first process of the pod without a volume. Both are
wall-clock milliseconds; processes' times are the supervisor's, the others are when a watch of the API told.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mooring.cluster.stage import Stage
from mooring.kube.objects import Node, Object, PersistentVolumeClaim, Pod

ROUNDS = 30
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
}


def manifest(name: str, *, claim: str | None) -> dict[str, Any]:
    """A pod that does nothing, and ends when it is asked to."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}] if claim else [],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container], "volumes": volumes},
    }


class Bench:
    """Notes when the API first told something."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def told(self, kind: type[Object], holds: Callable[[Any], bool]) -> float:
        """When a watch first showed an object for which `holds`."""
        async for event in self._stage.client.watch(kind, "" if kind is Node else "default"):
            if event.object is not None and holds(event.object):
                return time.time()
        raise RuntimeError(f"the watch of {kind.__name__} ended")

    async def began(self, pod: Pod) -> float:
        """When the pod's container was started."""
        path = self._stage.layout.node("node-1") / "pods" / pod.uid / "state.json"
        state: Any = await self._stage.until("its container runs", lambda: _state(path))
        return state["containers"]["main"]["startedAt"]

    async def gone(self, pod: Pod) -> None:
        """Deletes the pod and waits until it, and what was attached for it, is away."""
        await self._stage.client.delete(Pod, pod.name, "default")
        await self._stage.until("the pod is gone", lambda: self._away(pod.name))
        await self._stage.until("nothing is attached", self._detached)

    async def _away(self, name: str) -> bool:
        return await self._stage.client.find(Pod, name, "default") is None

    async def _detached(self) -> bool:
        node = await self._stage.client.get(Node, "node-1")
        return not node.status.volumes_attached

    async def round(self, number: int) -> tuple[float, float]:
        """Milliseconds with and without a volume."""
        reported = asyncio.create_task(self.told(Node, lambda node: bool(node.status.volumes_attached)))
        pod = await self._stage.client.create(Pod, manifest(f"with-{number}", claim="data"), "default")
        first = await self.began(pod)
        with_volume = first - await reported
        await self.gone(pod)
        name = f"without-{number}"
        bound = asyncio.create_task(self.told(Pod, lambda pod: pod.name == name and bool(pod.spec.node_name)))
        pod = await self._stage.client.create(Pod, manifest(name, claim=None), "default")
        first = await self.began(pod)
        without = first - await bound
        await self.gone(pod)
        return with_volume * 1000, without * 1000


def _state(path: Path) -> Any:
    try:
        state = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    return state if "main" in state["containers"] else None


async def run(folder: Path) -> list[tuple[float, float]]:
    stage = Stage(folder)
    try:
        await stage.up("--nodes", "1", "--port", "0")
        await stage.until("the node is ready", lambda: stage.ready_nodes(1))
        await stage.client.create(PersistentVolumeClaim, CLAIM, "default")
        bench = Bench(stage)
        await bench.round(0)  # formats the disk
        return [await bench.round(number) for number in range(1, ROUNDS + 1)]
    finally:
        await stage.down()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        taken = asyncio.run(run(Path(folder)))
    medians: list[float] = []
    for title, times in zip(("reported attached", "no volume: bound"), zip(*taken, strict=True), strict=True):
        medians.append(statistics.median(times))
        ninety = statistics.quantiles(times, n=10)[8]
        print(f"{title:18} -> first process   p50 {medians[-1]:6.1f} ms   p90 {ninety:6.1f} ms")
    print(f"ratio of the medians {medians[0] / medians[1]:21.2f}")


if __name__ == "__main__":
    sys.exit(main())
