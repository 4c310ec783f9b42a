"""The embedded API server beside the real kube-apiserver on etcd: `make bench` (needs `make assets`).

Both run on this machine, one after the other, over TLS, every commit durable (etcd and SQLite both sync). The load
comes from this process through one client, so its cost weighs on both alike. Prints a table: theirs, ours, ratio.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from tests.real.server import assets, process, real_server

from mooring.cluster.cluster import mooring

PODS = 2_000
IN_FLIGHT = 32
SERIAL = 300
WATCHERS = 1_000
WATCHED_EVENTS = 50
FAN_WATCHERS = 100
FAN_EVENTS = 2_000

Figures = dict[str, float]


@dataclass
class Target:
    """A server under measurement."""

    name: str
    url: str
    token: str
    tls: ssl.SSLContext
    pids: list[int]
    ready: float
    session: aiohttp.ClientSession = field(init=False)

    async def call(self, method: str, path: str, body: Any = None) -> bytes:
        content = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(method, self.url + path, data=data, headers=content) as answer:
            found = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {found[:300]!r}")
            return found


def pod(name: str) -> dict[str, Any]:
    """A pod of the size that a small real one has."""
    env = [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(12)]
    container = {"name": "main", "image": "registry/app:1", "command": ["run"], "env": env}
    labels = {"app": "bench", "part": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


def resident(pids: list[int]) -> float:
    """MiB of resident memory."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * 4096 / 2**20


PODS_PATH = "/api/v1/namespaces/default/pods"


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


@asynccontextmanager
async def watchers(target: Target, count: int, on_events: Callable[[int], None]) -> AsyncIterator[None]:
    """That many watches of config maps; `on_events` is told how many events have arrived: counting lines is all that
    the reader does, so that it hardly weighs on what is measured."""
    version = json.loads(await target.call("GET", "/api/v1/namespaces/default/configmaps"))["metadata"][
        "resourceVersion"
    ]
    path = f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}"
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[None]] = []
        for _ in range(count):
            answer = await stack.enter_async_context(
                target.session.get(target.url + path, timeout=aiohttp.ClientTimeout())
            )
            tasks.append(asyncio.create_task(_follow(answer, on_events)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(answer: aiohttp.ClientResponse, on_events: Callable[[int], None]) -> None:
    async for piece in answer.content.iter_any():
        if count := piece.count(b"\n"):
            on_events(count)


async def latency(target: Target) -> Figures:
    """From the answer of a write to its arrival at each of many watchers."""
    arrived: list[float] = []
    enough = asyncio.Event()

    def on_events(count: int) -> None:
        arrived.extend([time.perf_counter()] * count)
        if len(arrived) >= WATCHERS:
            enough.set()

    delays: list[float] = []
    async with watchers(target, WATCHERS, on_events):
        for number in range(WATCHED_EVENTS):
            enough.clear()
            arrived.clear()
            body = {"metadata": {"name": f"latency-{number}"}}
            await target.call("POST", "/api/v1/namespaces/default/configmaps", body)
            answered = time.perf_counter()
            await asyncio.wait_for(enough.wait(), 60)
            delays += [max(at - answered, 0) * 1000 for at in arrived]
    return {f"watch latency p99, {WATCHERS} watchers, ms": statistics.quantiles(delays, n=100)[98]}


async def fan_out(target: Target) -> Figures:
    """How many events reach watchers in a second when a writer does not stop."""
    seen = 0
    done = asyncio.Event()

    def on_events(count: int) -> None:
        nonlocal seen
        seen += count
        if seen >= FAN_WATCHERS * FAN_EVENTS:
            done.set()

    await target.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "fan"}})
    numbers = iter(range(FAN_EVENTS))

    async def write() -> None:
        for number in numbers:
            await target.call("PATCH", "/api/v1/namespaces/default/configmaps/fan", {"data": {"n": str(number)}})

    async with watchers(target, FAN_WATCHERS, on_events):
        began = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
        await asyncio.wait_for(done.wait(), 120)
        return {f"deliveries/s, {FAN_WATCHERS} watchers": seen / (time.perf_counter() - began)}


async def measure(target: Target) -> Figures:
    """All figures of one server."""
    connector = aiohttp.TCPConnector(limit=0, ssl=target.tls)
    headers = {"Authorization": f"Bearer {target.token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**21) as target.session:
        figures = {"ready, s": target.ready, **await creates(target), **await lists(target)}
        figures[f"resident with {PODS} pods, MiB"] = resident(target.pids)
        figures |= await latency(target)
        figures |= await fan_out(target)
        return figures


def real(folder: Path) -> Figures:
    """kube-apiserver on etcd."""
    programs = assets()
    if programs is None:
        sys.exit("bench: the real kube-apiserver is missing: run `make assets`, or set KUBEBUILDER_ASSETS")
    began = time.perf_counter()
    with real_server(programs, folder, durable=True) as server:
        pids = _pids_under(str(folder))
        target = Target("kube-apiserver", server.url, server.token, server.context(), pids, time.perf_counter() - began)
        return asyncio.run(measure(target))


def ours(folder: Path) -> Figures:
    """The embedded server."""
    kubeconfig = folder / "kubeconfig"
    command = mooring("apiserver", "--data-dir", str(folder), "--port", "0", "--kubeconfig-out", str(kubeconfig))
    began = time.perf_counter()
    with process(command, folder / "log") as running:
        while not kubeconfig.exists():
            time.sleep(0.005)
        ready = time.perf_counter() - began
        config = json.loads(kubeconfig.read_text())
        url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        return asyncio.run(measure(Target("mooring", url, token, tls, [running.pid], ready)))


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
    with tempfile.TemporaryDirectory() as theirs_folder, tempfile.TemporaryDirectory() as our_folder:
        theirs, mine = real(Path(theirs_folder)), ours(Path(our_folder))
    print(f"{'':42}  {'kube-apiserver + etcd':>22}  {'mooring':>10}  {'ratio':>6}")
    for name, figure in theirs.items():
        print(f"{name:42}  {figure:22.2f}  {mine[name]:10.2f}  {mine[name] / figure:6.2f}")


if __name__ == "__main__":
    main()
