"""Mooring's attach/detach controller beside upstream's: `python -m benchmarks.attach_detach [VOLUMES ...]`.

Both do the same work on a real kube-apiserver (needs `make assets`), in turn, each in a cluster of its own,
`RUNS` times over; kubelets and the external attacher are played without delay (`played_cluster`). etcd does
not sync, in both columns, so that the controller is what is timed. In each cluster: `VOLUMES` pods come at
once, each with a volume (the burst: CPU a volume); then, with those attached, pods come and go one after the
other (the latencies); then nothing happens (idle CPU). Prints medians, each with its least and greatest, and
the ratio of the medians.

Upstream runs with nothing but its attach/detach controller, with client limits that do not hold it back.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.real.server import assets, free_ports, process, real_server

from benchmarks.played_cluster import PlayedCluster, each
from benchmarks.target import Figures, resident
from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cluster.processes import mooring
from mooring.kube import config

RUNS = int(os.environ.get("RUNS", "3"))
PROBES = 200
PROBE_EVERY_S = 0.05
IDLE_S = 20.0
QUIET_S = 3.0
TICKS = os.sysconf("SC_CLK_TCK")

Command = Callable[[Path, Path], list[str]]


def upstream(programs: Path, kubeconfig: Path) -> list[str]:
    """kube-controller-manager, as nothing but the attach/detach controller."""
    port = free_ports(1)[0]
    return [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--controllers=persistentvolume-attach-detach-controller",
        "--leader-elect=false",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={kubeconfig.parent / 'kcm'}",
    ]


def ours(programs: Path, kubeconfig: Path) -> list[str]:
    return mooring(
        "controller", "--controllers=attachdetach", "--kubeconfig", str(kubeconfig), "--log-level=warning"
    )


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Traffic(NamedTuple):
    """Bytes that a process has sent and received on the connections that it still has."""

    sent: int
    received: int


def traffic(pid: int) -> Traffic:
    """By the kernel's counters (`ss`)."""
    shown = subprocess.run(["ss", "-tinpH"], check=True, capture_output=True, text=True).stdout
    own = [each for each in re.split(r"\n(?=\S)", shown) if f"pid={pid}," in each]
    counted = (re.findall(rf"\b{what}:(\d+)", "".join(own)) for what in ("bytes_sent", "bytes_received"))
    return Traffic(*(sum(map(int, each)) for each in counted))


async def filled(pid: int) -> float:
    """The CPU that a controller has taken when its caches are filled, in seconds; returns then."""
    before = cpu(pid)
    while True:
        await asyncio.sleep(QUIET_S)
        now = cpu(pid)
        if now - before < QUIET_S / 2:
            return now
        before = now


async def probe(cluster: PlayedCluster, numbers: range) -> Figures:
    """Pods that come, and then go, one after the other."""
    came: dict[int, float] = {}
    went: dict[int, float] = {}
    for number in numbers:
        came[number] = await cluster.create_pod(number)
        await asyncio.sleep(PROBE_EVERY_S)
    await cluster.until("the probes are reported", lambda: all(n in cluster.reported for n in numbers))
    attached, reported = dict(cluster.attached), dict(cluster.reported)
    await asyncio.sleep(QUIET_S)
    for number in numbers:
        went[number] = await cluster.delete_pod(number)
        await asyncio.sleep(PROBE_EVERY_S)
    await cluster.until("the probes' attachments are gone", lambda: all(n in cluster.gone for n in numbers))
    return {
        **_percentiles("pod created -> VolumeAttachment created", [attached[n] - came[n] for n in numbers]),
        **_percentiles("pod created -> in node status", [reported[n] - came[n] for n in numbers]),
        **_percentiles("pod deleted -> VolumeAttachment gone", [cluster.gone[n] - went[n] for n in numbers]),
    }


def _percentiles(name: str, seconds: Sequence[float]) -> Figures:
    milliseconds = [max(0.0, each) * 1000 for each in seconds]  # an event may overtake the answer
    return {
        f"{name} p50, ms": statistics.median(milliseconds),
        f"{name} p99, ms": statistics.quantiles(milliseconds, n=100)[98],
    }


async def measure(kubeconfig: Path, start: Callable[[], int], volumes: int) -> Figures:
    """All figures of one controller in one cluster; `start` starts it and gives its process id."""
    client = config.load(kubeconfig)
    cluster = PlayedCluster(client, nodes=max(4, volumes // 50))
    await cluster.prepare(volumes + PROBES)
    playing = asyncio.create_task(cluster.run())
    try:
        pid = start()
        before = await filled(pid)
        first = traffic(pid)
        began = asyncio.get_running_loop().time()
        await each(cluster.create_pod, range(volumes))
        await cluster.until("all are reported", lambda: len(cluster.reported) == volumes)
        took = asyncio.get_running_loop().time() - began
        await asyncio.sleep(QUIET_S)
        figures = {"burst: volumes a second": volumes / took}
        figures["burst: CPU a volume, ms"] = (cpu(pid) - before) / volumes * 1000
        last = traffic(pid)
        figures["burst: received a volume, kB"] = (last.received - first.received) / volumes / 1e3
        figures["burst: sent a volume, kB"] = (last.sent - first.sent) / volumes / 1e3
        figures["caches of the free volumes: received, kB a volume"] = first.received / volumes / 1e3
        figures["caches of the free volumes: CPU a volume, ms"] = before / volumes * 1000
        figures |= await probe(cluster, range(volumes, volumes + PROBES))
        await asyncio.sleep(QUIET_S)
        before = cpu(pid)
        await asyncio.sleep(IDLE_S)
        figures["idle CPU, % of a core"] = (cpu(pid) - before) / IDLE_S * 100
        figures["resident, MB"] = resident([pid]) / 1e6
        return figures
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await client.close()


def run(programs: Path, command: Command, volumes: int) -> Figures:
    """One controller in a cluster of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bench-")))
        server = stack.enter_context(real_server(programs, folder))
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, server.url, server.token, server.authority.read_bytes())

        def start() -> int:
            return stack.enter_context(process(command(programs, kubeconfig), folder / "controller.log")).pid

        try:
            return asyncio.run(measure(kubeconfig, start, volumes))
        except TimeoutError as error:
            tail = (folder / "controller.log").read_text(errors="replace")[-2000:]
            sys.exit(f"bench: {error}; the controller's log ends:\n{tail}")


def spread(values: Sequence[float]) -> str:
    """Median, least and greatest, to be printed."""
    return f"{statistics.median(values):9.2f} [{min(values):.2f}-{max(values):.2f}]"


def print_beside(found: dict[str, list[Figures]], first: int, wide: int) -> None:
    """Each figure of two who did the same, and the second's over the first's, in columns of so many
    characters."""
    (left_name, theirs), (right_name, mine) = found.items()
    print(f"{'':{first}}  {left_name:>{wide}}  {right_name:>{wide}}  {'ratio':>6}")
    for name in theirs[0]:
        left, right = [run[name] for run in theirs], [run[name] for run in mine]
        ratio = statistics.median(right) / (statistics.median(left) or 1e-9)
        print(f"{name:{first}}  {spread(left):>{wide}}  {spread(right):>{wide}}  {ratio:6.2f}", flush=True)


def main() -> None:
    programs = assets()
    if programs is None or not (programs / "kube-controller-manager").exists():
        sys.exit("bench: the real Kubernetes is missing: run `make assets`, or set KUBEBUILDER_ASSETS")
    for volumes in map(int, sys.argv[1:] or ("200", "5000", "20000")):
        theirs: list[Figures] = []
        mine: list[Figures] = []
        for number in range(1, RUNS + 1):
            theirs.append(run(programs, upstream, volumes))
            mine.append(run(programs, ours, volumes))
            print(f"{volumes} volumes, run {number} of {RUNS} is done", file=sys.stderr, flush=True)
        print(f"\n{volumes} volumes on {max(4, volumes // 50)} nodes; {RUNS} runs each")
        print_beside({"kube-controller-manager": theirs, "mooring": mine}, 48, 32)


if __name__ == "__main__":
    main()
