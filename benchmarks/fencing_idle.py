"""What fencing costs while nothing is lost: `python -m benchmarks.fencing_idle [NODES ...]`.

An API server of ours, nodes that renew their Leases every ten seconds and say their status every five
minutes, as kubelets do, and one policy that covers them all. Three processes are measured in the same seconds: the
fencing controller, the attach/detach controller beside it (which knows no Leases), and the API server. The
mechanism's checks, which are made when a node boots and twice a day, are over before that.

Prints the CPU of each in % of a core, and of the fencing controller for each renewal of a Lease.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.real.server import process

from benchmarks.attach_detach import cpu
from benchmarks.played_cluster import each
from benchmarks.target import resident
from mooring.cluster.processes import mooring
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.objects import Lease, Node
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy
from mooring.kube.times import format_micro_time, format_time

RENEW_S, STATUS_S = 10.0, 300.0
SETTLE_S, MEASURED_S = 25.0, 60.0
NAMESPACE = "kube-node-lease"


class PlayedNodes:
    """So many nodes that are well."""

    def __init__(self, client: Client, count: int) -> None:
        self._client = client
        self.names = [f"node-{number:04}" for number in range(count)]
        self.renewals = 0

    async def register(self) -> None:
        await each(self._register, range(len(self.names)))

    async def _register(self, number: int) -> None:
        name = self.names[number]
        await self._client.create(Node, {"metadata": {"name": name, "labels": {"fenced": "yes"}}})
        await self._client.patch(Node, name, {"status": _status(name)}, subresource="status")
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": format_micro_time(datetime.now(UTC)),
        }
        await self._client.create(Lease, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    async def live(self) -> None:
        """Until cancelled; the renewals of all are spread over their ten seconds."""
        async with asyncio.TaskGroup() as group:
            for number, name in enumerate(self.names):
                share = number / len(self.names)
                group.create_task(self._every(RENEW_S, share, self._renew, name))
                group.create_task(self._every(STATUS_S, share, self._report, name))

    async def _every(self, period: float, share: float, act: Any, name: str) -> None:
        await asyncio.sleep(period * share)
        while True:
            await act(name)
            await asyncio.sleep(period)

    async def _renew(self, name: str) -> None:
        spec = {"renewTime": format_micro_time(datetime.now(UTC))}
        await self._client.patch(Lease, name, {"spec": spec}, NAMESPACE)
        self.renewals += 1

    async def _report(self, name: str) -> None:
        await self._client.patch(Node, name, {"status": _status(name)}, subresource="status")


def _status(name: str) -> dict[str, Any]:
    now = format_time(datetime.now(UTC))
    ready = {
        "type": "Ready",
        "status": "True",
        "lastHeartbeatTime": now,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"conditions": [ready], "nodeInfo": {"bootID": f"boot-of-{name}"}}


async def describe(client: Client) -> None:
    """A policy of all nodes. Its mechanism knows two of them: to ask it costs what its device costs."""
    nodes = {"node-0000": {"ipport": "9"}, "node-0001": {"ipport": "9"}}
    spec = {
        "type": "ipmi",
        "parameters": {"ip": "127.0.0.1", "username": "none"},
        "nodes": nodes,
        "timeoutSeconds": 2,
    }
    await client.create(FenceMechanism, {"metadata": {"name": "bmc"}, "spec": spec})
    policy = {"ladder": [{"mechanism": "bmc"}]}
    await client.create(FencePolicy, {"metadata": {"name": "default"}, "spec": policy})


async def measure(folder: Path, count: int, stack: ExitStack) -> dict[str, float]:
    kubeconfig = folder / "kubeconfig"
    server = mooring(
        "apiserver", "--data-dir", str(folder / "server"), "--port", "0", "--kubeconfig-out", str(kubeconfig)
    )
    pids = {"API server": stack.enter_context(process(server, folder / "server.log")).pid}
    while not kubeconfig.exists():
        await asyncio.sleep(0.1)
    client = config.load(kubeconfig)
    try:
        for kind in FENCING_KINDS:
            await client.create(CustomResourceDefinition, kind)
        await asyncio.sleep(1)
        nodes = PlayedNodes(client, count)
        await nodes.register()
        await describe(client)
        living = asyncio.create_task(nodes.live())
        for name in ("fencing", "attachdetach"):
            words = (
                "controller",
                f"--controllers={name}",
                "--kubeconfig",
                str(kubeconfig),
                "--log-level=warning",
            )
            pids[name] = stack.enter_context(process(mooring(*words), folder / f"{name}.log")).pid
        await asyncio.sleep(SETTLE_S)
        before, renewed = {name: cpu(pid) for name, pid in pids.items()}, nodes.renewals
        await asyncio.sleep(MEASURED_S)
        used = {name: cpu(pid) - before[name] for name, pid in pids.items()}
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
    finally:
        await client.close()
    figures = {f"{name}, % of a core": seconds / MEASURED_S * 100 for name, seconds in used.items()}
    figures["renewals a second"] = (nodes.renewals - renewed) / MEASURED_S
    figures["fencing, µs a renewal"] = used["fencing"] / max(nodes.renewals - renewed, 1) * 1e6
    figures["fencing, MB resident"] = resident([pids["fencing"]]) / 1e6
    return figures


def main() -> None:
    for count in map(int, sys.argv[1:] or ("100", "400", "1600")):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bench-")))
            figures = asyncio.run(measure(folder, count, stack))
        print(f"\n{count} nodes")
        for name, value in figures.items():
            print(f"{name:32} {value:8.2f}", flush=True)


if __name__ == "__main__":
    main()
