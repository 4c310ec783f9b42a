"""The embedded API server beside the real kube-apiserver on etcd: `make bench` (needs `make assets`).

Both run on this machine over TLS and are measured in turns, every commit durable (etcd and SQLite both sync).
The load comes from this process through one client, and watches are read by one more process, so their cost
weighs on both alike. Prints a table: theirs, ours, ratio.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import aiohttp
from tests.real.server import assets, process, real_server

from benchmarks import watches
from benchmarks.target import PODS_PATH, Figures, Target, pod, resident
from mooring.cluster.processes import mooring

PODS = 2_000
IN_FLIGHT = 32
SERIAL = 300


async def creates(target: Target) -> Figures:
    """Creates with many in flight, then one after the other."""
    names = iter(range(PODS - SERIAL))

    async def worker() -> None:
        for number in names:
            await target.call("POST", PODS_PATH, pod(f"pod-{number:05}"))

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    rate = (PODS - SERIAL) / (time.perf_counter() - began)
    times: list[float] = []
    for number in range(SERIAL):
        start = time.perf_counter()
        await target.call("POST", PODS_PATH, pod(f"serial-{number:05}"))
        times.append((time.perf_counter() - start) * 1000)
    return {
        f"creates/s, {IN_FLIGHT} in flight": rate,
        "serial create p50, ms": statistics.median(times),
        "serial create p99, ms": statistics.quantiles(times, n=100)[98],
    }


async def lists(target: Target) -> Figures:
    """All pods at once; the best of several, because both answer from memory."""
    times: list[float] = []
    for _ in range(10):
        start = time.perf_counter()
        found = await target.call("GET", PODS_PATH)
        times.append((time.perf_counter() - start) * 1000)
    assert len(json.loads(found)["items"]) == PODS
    return {f"list of {PODS} pods p50, ms": statistics.median(times)}


async def memory(target: Target) -> Figures:
    """What the server's processes occupy."""
    return {f"resident with {PODS} pods, MiB": resident(target.pids) / 2**20}


MEASURES = (creates, lists, memory, watches.latency, watches.resumed, watches.live)


async def measure(targets: Sequence[Target]) -> list[Figures]:
    """All figures of each server. One measure is taken of all before the next, so that what else the machine
    does weighs on all alike."""
    async with AsyncExitStack() as stack:
        for target in targets:
            connector = aiohttp.TCPConnector(
                limit=0, ssl=ssl.create_default_context(cafile=str(target.authority))
            )
            headers = {"Authorization": f"Bearer {target.token}"}
            session = aiohttp.ClientSession(connector=connector, headers=headers)
            target.session = await stack.enter_async_context(session)
        figures: list[Figures] = [{"ready, s": target.ready} for target in targets]
        for taken in MEASURES:
            for target, found in zip(targets, figures, strict=True):
                found.update(await taken(target))
        return figures


@contextmanager
def real(folder: Path) -> Iterator[Target]:
    """kube-apiserver on etcd."""
    programs = assets()
    if programs is None:
        sys.exit("bench: the real kube-apiserver is missing: run `make assets`, or set KUBEBUILDER_ASSETS")
    began = time.perf_counter()
    with real_server(programs, folder, durable=True) as server:
        ready = time.perf_counter() - began
        yield Target(
            "kube-apiserver", server.url, server.token, server.authority, _pids_under(str(folder)), ready
        )


@contextmanager
def ours(folder: Path) -> Iterator[Target]:
    """The embedded server."""
    kubeconfig = folder / "kubeconfig"
    command = mooring(
        "apiserver", "--data-dir", str(folder), "--port", "0", "--kubeconfig-out", str(kubeconfig)
    )
    began = time.perf_counter()
    with process(command, folder / "log") as running:
        while not kubeconfig.exists():
            time.sleep(0.005)
        ready = time.perf_counter() - began
        config = json.loads(kubeconfig.read_text())
        url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        yield Target("mooring", url, token, folder / "ca.crt", [running.pid], ready)


def _pids_under(word: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def main() -> None:
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        targets = [
            stack.enter_context(each(folder)) for each, folder in zip((real, ours), folders, strict=True)
        ]
        theirs, mine = asyncio.run(measure(targets))
    print(f"{'':56}  {'kube-apiserver + etcd':>22}  {'mooring':>10}  {'ratio':>6}")
    for name, figure in theirs.items():
        ratio = f"{mine[name] / figure:6.2f}" if figure else ""
        print(f"{name:56}  {figure:22.2f}  {mine[name]:10.2f}  {ratio:>6}")


if __name__ == "__main__":
    main()
