"""`mooring csi attacher` beside upstream's csi-attacher: `python -m benchmarks.csi_attacher [BURST]`.

Both do the same work, each holding its Lease as where there are two of them, on a real kube-apiserver (needs
`make assets`; etcd does not sync), in turn, each in a cluster of its own, `RUNS` times over. The CSI driver,
on our base and in a process of its own, answers at once. In each cluster: VolumeAttachments come and go one
after the other (the latencies), then `BURST` at once. Prints medians, each with its least and greatest, and
the ratio of the medians.

A VolumeAttachment is attached, or gone, when a watch says so; the time begins when the request for it is
answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.real.server import assets, process, real_server

from benchmarks.attach_detach import cpu, print_beside
from benchmarks.target import Figures, resident
from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cluster.processes import mooring
from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.server import serving
from mooring.csi.driver.services import ControllerCapability, ControllerService, Driver, PluginService
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import CSIDriver, CSINode, PersistentVolume, VolumeAttachment
from mooring.volumes.names import CSI_PLUGIN, csi_volume_name, volume_attachment_name

RUNS = int(os.environ.get("RUNS", "3"))
PROBES = 150
NODES = 20
AT_ONCE = 50
QUIET_S = 3.0
PATIENCE_S = 300.0
NAME = "instant.example.com"
ELECTED = ["--leader-election", "--leader-election-namespace=kube-system"]

Command = Callable[[Path, Path, Path], list[str]]


def upstream(programs: Path, kubeconfig: Path, socket: Path) -> list[str]:
    """As fast as it can be told to be."""
    where = [f"--kubeconfig={kubeconfig}", f"--csi-address={socket}", "--http-endpoint=", *ELECTED]
    limits = ["--worker-threads=100", "--kube-api-qps=1000", "--kube-api-burst=1000"]
    return [str(programs / "csi-attacher"), *where, *limits]


def ours(programs: Path, kubeconfig: Path, socket: Path) -> list[str]:
    where = [f"--kubeconfig={kubeconfig}", f"--csi-address={socket}", *ELECTED]
    return mooring("csi", "attacher", *where, "--worker-threads=100", "--log-level=warning")


class Instant(ControllerService):
    """Attaches at once."""

    capabilities = (ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,)

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        return csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/x"})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        return csi.ControllerUnpublishVolumeResponse()


async def drive(socket: Path) -> None:
    """The driver's process; at its end it writes how often each method was called."""
    calls: Counter[str] = Counter()
    driver = Driver(NAME, "1", Instant(), None, [PluginService.CONTROLLER_SERVICE])
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    dispatcher = Dispatcher(driver, [], [lambda exchange: calls.update([exchange.method])])
    async with serving(dispatcher, [f"unix://{socket}"]):
        await ended.wait()
    socket.with_suffix(".json").write_text(json.dumps(calls))


class Attachments:
    """VolumeAttachments, by number, and when a watch said what became of them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.attached: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._changed = asyncio.Event()
        self.informer = Informer(client, VolumeAttachment, random=Random(1))
        self.informer.add_handler(self._see)

    def _see(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        now = asyncio.get_running_loop().time()
        if new is None and old is not None:
            self.gone[old.name] = now
        elif new is not None and new.status.attached:
            self.attached.setdefault(new.name, now)
        self._changed.set()

    async def prepare(self, count: int) -> None:
        await self.client.create(CSIDriver, {"metadata": {"name": NAME}, "spec": {"attachRequired": True}})
        for node in range(NODES):
            entry = {"name": NAME, "nodeID": f"i-{node}", "topologyKeys": None}
            await self.client.create(
                CSINode, {"metadata": {"name": f"n{node}"}, "spec": {"drivers": [entry]}}
            )
        await each(self._volume, range(count))

    async def _volume(self, number: int) -> None:
        source = {"driver": NAME, "volumeHandle": f"vol-{number}"}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source}
        await self.client.create(PersistentVolume, {"metadata": {"name": f"pv-{number}"}, "spec": spec})

    def name(self, number: int) -> str:
        return volume_attachment_name(
            CSI_PLUGIN, csi_volume_name(NAME, f"vol-{number}"), f"n{number % NODES}"
        )

    async def create(self, number: int) -> float:
        """When it was there."""
        source = {"persistentVolumeName": f"pv-{number}"}
        spec = {"attacher": NAME, "nodeName": f"n{number % NODES}", "source": source}
        await self.client.create(VolumeAttachment, {"metadata": {"name": self.name(number)}, "spec": spec})
        return asyncio.get_running_loop().time()

    async def delete(self, number: int) -> float:
        """When that was asked for."""
        await self.client.delete(VolumeAttachment, self.name(number))
        return asyncio.get_running_loop().time()

    async def until(self, seen: dict[str, float], numbers: Iterable[int]) -> float:
        """Waits until all were seen; when the last one was."""
        names = [self.name(number) for number in numbers]
        async with asyncio.timeout(PATIENCE_S):
            for name in names:
                while name not in seen:
                    self._changed.clear()
                    await self._changed.wait()
        return max(seen[name] for name in names)


async def each(act: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
    """Acts on all numbers, some at once."""
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await act(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def alone(cluster: Attachments, numbers: Sequence[int]) -> Figures:
    """One after the other."""
    attach: list[float] = []
    detach: list[float] = []
    for number in numbers:
        began = await cluster.create(number)
        attach.append(await cluster.until(cluster.attached, [number]) - began)
    for number in numbers:
        began = await cluster.delete(number)
        detach.append(await cluster.until(cluster.gone, [number]) - began)
    return {
        **_percentiles("alone: created -> attached", attach),
        **_percentiles("alone: deleted -> gone", detach),
    }


def _percentiles(name: str, seconds: Sequence[float]) -> Figures:
    milliseconds = [max(0.0, value) * 1000 for value in seconds]  # an event may overtake the answer
    return {
        f"{name} p50, ms": statistics.median(milliseconds),
        f"{name} p99, ms": statistics.quantiles(milliseconds, n=100)[98],
    }


async def burst(cluster: Attachments, pid: int, numbers: Sequence[int]) -> Figures:
    """All at once."""
    figures: Figures = {}
    acts = (("attach", cluster.create, cluster.attached), ("detach", cluster.delete, cluster.gone))
    for what, act, seen in acts:
        await asyncio.sleep(QUIET_S)
        before, began = cpu(pid), asyncio.get_running_loop().time()
        await each(act, numbers)
        took = await cluster.until(seen, numbers) - began
        await asyncio.sleep(QUIET_S)
        figures[f"burst: {what}es a second"] = len(numbers) / took
        figures[f"burst: CPU a {what}, ms"] = (cpu(pid) - before) / len(numbers) * 1000
    figures["resident, MB"] = resident([pid]) / 1e6
    return figures


async def measure(kubeconfig: Path, start: Callable[[], int], count: int) -> Figures:
    """All figures of one attacher in one cluster; `start` starts it and gives its process id."""
    client = config.load(kubeconfig)
    cluster = Attachments(client)
    watching = asyncio.create_task(cluster.informer.run())
    try:
        await cluster.prepare(PROBES + count + 1)
        pid = start()
        await cluster.create(PROBES + count)  # whoever attaches it is up
        await cluster.until(cluster.attached, [PROBES + count])
        await asyncio.sleep(QUIET_S)
        return await alone(cluster, range(PROBES)) | await burst(cluster, pid, range(PROBES, PROBES + count))
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()


def run(programs: Path, command: Command, count: int) -> Figures:
    """One attacher in a cluster of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bench-")))
        server = stack.enter_context(real_server(programs, folder))
        kubeconfig, socket = folder / "kubeconfig", folder / "csi.sock"
        write_kubeconfig(kubeconfig, server.url, server.token, server.authority.read_bytes())
        driving = [sys.executable, "-m", "benchmarks.csi_attacher", "--driver", str(socket)]
        with process(driving, folder / "driver.log"):

            def start() -> int:
                return stack.enter_context(
                    process(command(programs, kubeconfig, socket), folder / "attacher.log")
                ).pid

            try:
                figures = asyncio.run(measure(kubeconfig, start, count))
            except TimeoutError:
                sys.exit(f"bench: not done; the log ends:\n{(folder / 'attacher.log').read_text()[-2000:]}")
        calls = json.loads(socket.with_suffix(".json").read_text())
        figures["calls for an attach"] = calls["ControllerPublishVolume"] / (PROBES + count + 1)
        figures["calls for a detach"] = calls["ControllerUnpublishVolume"] / (PROBES + count)
        return figures


def main() -> None:
    if sys.argv[1:2] == ["--driver"]:
        asyncio.run(drive(Path(sys.argv[2])))
        return
    programs = assets()
    if programs is None or not (programs / "csi-attacher").exists():
        sys.exit("bench: upstream's csi-attacher is missing: run `make assets`, or set KUBEBUILDER_ASSETS")
    count = int(sys.argv[1]) if sys.argv[1:] else 1000
    theirs: list[Figures] = []
    mine: list[Figures] = []
    for _ in range(RUNS):
        theirs.append(run(programs, upstream, count))
        mine.append(run(programs, ours, count))
    print(f"\n{PROBES} VolumeAttachments one by one, then {count} at once; {RUNS} runs each")
    print_beside({"csi-attacher": theirs, "mooring csi attacher": mine}, 34, 28)


if __name__ == "__main__":
    main()
