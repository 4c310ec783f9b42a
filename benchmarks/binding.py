"""Mooring's binder beside upstream's: `python -m benchmarks.binding [FREE VOLUMES ...]`.

Both bind the same claims to volumes that are there (nothing is provisioned) on a real kube-apiserver (needs
`make assets`; etcd does not sync), in turn, each on a copy of one prepared cluster, `RUNS` times over. In
each: claims come one after the other (the latencies), which leaves as many free volumes as were asked for;
then `BURST` come at once. Prints medians, each with its least and greatest, and the ratio of the medians.

A claim is bound when a watch says so; the time begins when the request for it is answered. The burst's time
has the creation of its claims in it. That no volume was given twice is checked.

Upstream runs with nothing but its binder, with client limits that do not hold it back; with the first number
of volumes also once with its default ones, 20 requests a second.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.real.server import assets, free_ports, process, real_server

from benchmarks.attach_detach import cpu, filled, print_beside
from benchmarks.played_cluster import each
from benchmarks.target import Figures, resident
from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cluster.processes import mooring
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.volumes.matching import NO_PROVISIONER

RUNS = int(os.environ.get("RUNS", "3"))
PROBES = 200
PROBE_EVERY_S = 0.05
BURST = 500
QUIET_S = 3.0
PATIENCE_S = 900.0
CLASS = "there-already"
MODES = ["ReadWriteOnce"]

Command = Callable[[Path, Path], list[str]]


def upstream(programs: Path, kubeconfig: Path, *limits: str) -> list[str]:
    """kube-controller-manager, as nothing but the binder."""
    return [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--controllers=persistentvolume-binder-controller",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_ports(1)[0]}",
        f"--cert-dir={kubeconfig.parent / 'kcm'}",
        *limits,
    ]


def unlimited(programs: Path, kubeconfig: Path) -> list[str]:
    return upstream(programs, kubeconfig, "--kube-api-qps=2000", "--kube-api-burst=4000")


def ours(programs: Path, kubeconfig: Path) -> list[str]:
    return mooring(
        "controller", "--controllers=binding", "--kubeconfig", str(kubeconfig), "--log-level=warning"
    )


async def prepare(client: Client, volumes: int) -> None:
    """A class that provisions nothing, and free volumes of a hundred sizes."""

    async def volume(number: int) -> None:
        spec = {
            "capacity": {"storage": f"{number % 100 + 1}Gi"},
            "accessModes": MODES,
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "bench.csi.example", "volumeHandle": f"vol-{number}"},
        }
        metadata = {"name": f"pv-{number:06}", "labels": {"zone": f"zone-{number % 3}"}}
        created = await client.create(PersistentVolume, {"metadata": metadata, "spec": spec})
        await client.revise(created, {"status": {"phase": "Available"}}, subresource="status")

    await client.create(StorageClass, {"metadata": {"name": CLASS}, "provisioner": NO_PROVISIONER})
    await each(volume, range(volumes))


class Claims:
    """Claims, by number, and when a watch said that they are bound."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.created: dict[int, float] = {}
        self.bound: dict[int, float] = {}
        self.volumes: dict[int, str] = {}
        self._changed = asyncio.Event()
        self.informer = Informer(client, PersistentVolumeClaim, random=Random(1))
        self.informer.add_handler(self._see)

    def _see(self, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and new.status.phase == "Bound":
            number = int(new.name.removeprefix("claim-"))
            self.bound.setdefault(number, asyncio.get_running_loop().time())
            self.volumes[number] = new.spec.volume_name
            self._changed.set()

    async def create(self, number: int) -> None:
        spec = {
            "accessModes": MODES,
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": f"{number % 50 + 1}Gi"}},
        }
        body = {"metadata": {"name": f"claim-{number}"}, "spec": spec}
        await self._client.create(PersistentVolumeClaim, body, "default")
        self.created[number] = asyncio.get_running_loop().time()

    async def until_bound(self, numbers: Iterable[int]) -> float:
        """Waits until all are; when the last one was."""
        wanted = list(numbers)
        async with asyncio.timeout(PATIENCE_S):
            while not all(number in self.bound for number in wanted):
                self._changed.clear()
                await self._changed.wait()
        return max(self.bound[number] for number in wanted)


async def probe(claims: Claims, numbers: Sequence[int]) -> Figures:
    """Claims that come one after the other."""
    for number in numbers:
        await claims.create(number)
        await asyncio.sleep(PROBE_EVERY_S)
    await claims.until_bound(numbers)
    # An event may overtake the answer.
    took = [max(0.0, claims.bound[number] - claims.created[number]) * 1000 for number in numbers]
    return {
        "claim created -> Bound p50, ms": statistics.median(took),
        "claim created -> Bound p99, ms": statistics.quantiles(took, n=100)[98],
    }


async def burst(claims: Claims, pid: int, numbers: Sequence[int]) -> Figures:
    """Claims that come at once."""
    before, began = cpu(pid), asyncio.get_running_loop().time()
    await each(claims.create, numbers)
    took = await claims.until_bound(numbers) - began
    await asyncio.sleep(QUIET_S)
    return {
        "burst: binds a second": len(numbers) / took,
        "burst: CPU a bind, ms": (cpu(pid) - before) / len(numbers) * 1000,
    }


async def measure(kubeconfig: Path, start: Callable[[], int]) -> Figures:
    """All figures of one binder in one cluster; `start` starts it and gives its process id."""
    client = config.load(kubeconfig)
    claims = Claims(client)
    watching = asyncio.create_task(claims.informer.run())
    try:
        await claims.informer.synced()
        pid = start()
        await claims.create(0)  # whichever binds it is up
        await claims.until_bound([0])
        await filled(pid)
        figures = await probe(claims, range(1, PROBES))
        await asyncio.sleep(QUIET_S)
        figures |= await burst(claims, pid, range(PROBES, PROBES + BURST))
        if len(set(claims.volumes.values())) != PROBES + BURST:
            sys.exit("bench: a volume was given to two claims")
        return figures | {"resident, MB": resident([pid]) / 1e6}
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()


class Clusters:
    """A prepared cluster, and copies of it."""

    def __init__(self, programs: Path, folder: Path, volumes: int) -> None:
        self._programs = programs
        self._folder = folder
        with real_server(programs, folder) as server:
            write_kubeconfig(folder / "kubeconfig", server.url, server.token, server.authority.read_bytes())
            asyncio.run(self._prepare(volumes))

    async def _prepare(self, volumes: int) -> None:
        client = config.load(self._folder / "kubeconfig")
        try:
            await prepare(client, volumes)
        finally:
            await client.close()

    def run(self, command: Command) -> Figures:
        """One binder on a copy."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bench-")))
            shutil.copytree(self._folder / "etcd", folder / "etcd")
            server = stack.enter_context(real_server(self._programs, folder))
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, server.url, server.token, server.authority.read_bytes())

            def start() -> int:
                running = process(command(self._programs, kubeconfig), folder / "controller.log")
                return stack.enter_context(running).pid

            try:
                return asyncio.run(measure(kubeconfig, start))
            except TimeoutError:
                sys.exit(
                    f"bench: not bound; the log ends:\n{(folder / 'controller.log').read_text()[-2000:]}"
                )


def main() -> None:
    programs = assets()
    if programs is None or not (programs / "kube-controller-manager").exists():
        sys.exit("bench: the real Kubernetes is missing: run `make assets`, or set KUBEBUILDER_ASSETS")
    sizes = [int(size) for size in sys.argv[1:] or ("1000", "10000", "50000")]
    for volumes in sizes:
        with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
            clusters = Clusters(programs, Path(folder), volumes + PROBES)
            theirs: list[Figures] = []
            mine: list[Figures] = []
            for number in range(1, RUNS + 1):
                theirs.append(clusters.run(unlimited))
                mine.append(clusters.run(ours))
                print(f"{volumes} free volumes, run {number} of {RUNS} is done", file=sys.stderr, flush=True)
            print(
                f"\n{volumes} free volumes; {PROBES} claims one by one, then {BURST} at once; {RUNS} runs each"
            )
            print_beside({"kube-controller-manager": theirs, "mooring": mine}, 32, 32)
            if volumes == sizes[0]:
                print(f"\n{volumes} free volumes; upstream with its default limits, one run")
                found = {"default limits": [clusters.run(upstream)], "mooring": mine}
                print_beside(found, 32, 32)


if __name__ == "__main__":
    main()
