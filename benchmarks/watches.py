"""What watches are measured by: how late they learn of a write, and how much they are told in a second.

The writer is this process; the readers are in a process of their own (`benchmarks.watchers`).
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from benchmarks.target import PODS_PATH, Figures, Target, pod

WATCHERS = 1_000
EVENTS = 100
FAN_WATCHERS = 100
RESUMED_EVENTS = 10_000
LIVE_EVENTS = 2_000
IN_FLIGHT = 32
_PATIENCE_SECONDS = 300.0
_LONGEST_LINE = 2**26
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

Arrivals = list[tuple[float, int]]


class Ended(Exception):
    """The server ended a watch; the reader has printed its last words."""


class Reader:
    """The reading process. Times are `time.perf_counter`'s, which is one clock for all processes of a
    machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.began = 0.0

    async def say(self, word: object) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(word).encode() + b"\n")
        await self._process.stdin.drain()

    async def hear(self) -> object:
        assert self._process.stdout
        line = await asyncio.wait_for(self._process.stdout.readline(), _PATIENCE_SECONDS)
        if not line:
            raise Ended
        return json.loads(line)

    async def arrivals(self) -> Arrivals:
        """The answer to a number of events that the reader was told to wait for."""
        found: Arrivals = await self.hear()  # type: ignore[assignment]
        return found


@asynccontextmanager
async def reading(target: Target, paths: Sequence[str]) -> AsyncIterator[Reader]:
    """A process with one open watch for each path."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "benchmarks.watchers")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE)
    try:
        reader = Reader(process)
        order = {"url": target.url, "authority": str(target.authority), "token": target.token, "paths": paths}
        await reader.say(order)
        reader.began = float(await reader.hear())  # type: ignore[arg-type]
        yield reader
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def latency(target: Target) -> Figures:
    """A write that a thousand watch, and a write that one of a thousand watches: what a thousand kubelets
    do."""
    await target.call("POST", CONFIG_MAPS, {"metadata": {"name": "latency"}})
    paths = [await _watch(target, CONFIG_MAPS)] * WATCHERS
    figures = await _delays(
        target, paths, WATCHERS, lambda number: _mark(target, f"{CONFIG_MAPS}/latency", number)
    )
    told = {f"each of {WATCHERS} watchers told, {name}": figure for name, figure in figures.items()}

    bound = [f"bound-{number}" for number in range(EVENTS)]
    for number, name in enumerate(bound):
        made = pod(name)
        made["spec"]["nodeName"] = f"node-{number}"
        await target.call("POST", PODS_PATH, made)
    every = await _watch(target, "/api/v1/pods")
    paths = [f"{every}&fieldSelector=spec.nodeName%3Dnode-{number}" for number in range(WATCHERS)]
    figures = await _delays(
        target, paths, 1, lambda number: _mark(target, f"{PODS_PATH}/{bound[number]}", number)
    )
    return told | {f"one of {WATCHERS} watchers told, {name}": figure for name, figure in figures.items()}


async def _watch(target: Target, path: str) -> str:
    """The path of a watch from now on."""
    found = json.loads(await target.call("GET", f"{path}?limit=1"))
    return f"{path}?watch=1&resourceVersion={found['metadata']['resourceVersion']}"


async def _mark(target: Target, path: str, number: int) -> None:
    await target.call("PATCH", path, {"metadata": {"annotations": {"mark": f"@{number}"}}})


async def _delays(
    target: Target, paths: Sequence[str], told: int, write: Callable[[int], Awaitable[None]]
) -> Figures:
    """How late each of `told` watchers learns of a write, counted from the writer's answer and from its
    request.

    An event may come before the answer does, which counts as 0."""
    sent: list[float] = []
    answered: list[float] = []
    async with reading(target, paths) as reader:
        for number in range(EVENTS):
            await reader.say(told)
            before = time.perf_counter()
            await write(number)
            after = time.perf_counter()
            arrivals = [at for at, count in await reader.arrivals() for _ in range(count)]
            sent += [(at - before) * 1000 for at in arrivals]
            answered += [max(at - after, 0) * 1000 for at in arrivals]
    return {
        "after the answer p99, ms": statistics.quantiles(answered, n=100)[98],
        "after the request p50, ms": statistics.median(sent),
        "after the request p99, ms": statistics.quantiles(sent, n=100)[98],
    }


async def resumed(target: Target) -> Figures:
    """How many events a second reach a hundred watchers that resume from before them; NaN if the server has
    not kept the events."""
    for writer in range(IN_FLIGHT):
        await target.call("POST", CONFIG_MAPS, {"metadata": {"name": f"fan-{writer}"}})
    paths = [await _watch(target, CONFIG_MAPS)] * FAN_WATCHERS
    writes = await _write(target, RESUMED_EVENTS)
    deliveries = FAN_WATCHERS * RESUMED_EVENTS
    try:
        async with reading(target, paths) as reader:
            await reader.say(deliveries)
            rate = deliveries / ((await reader.arrivals())[-1][0] - reader.began)
    except Ended:
        rate = math.nan
    return {
        f"patches/s unwatched, {IN_FLIGHT} in flight": writes,
        f"deliveries/s to {FAN_WATCHERS} watchers that resume": rate,
    }


async def live(target: Target) -> Figures:
    """How many events a second reach a hundred watchers while a writer does not stop."""
    paths = [await _watch(target, CONFIG_MAPS)] * FAN_WATCHERS
    deliveries = FAN_WATCHERS * LIVE_EVENTS
    async with reading(target, paths) as reader:
        await reader.say(deliveries)
        began = time.perf_counter()
        writes = await _write(target, LIVE_EVENTS)
        rate = deliveries / ((await reader.arrivals())[-1][0] - began)
    return {
        f"patches/s with {FAN_WATCHERS} watchers": writes,
        f"deliveries/s to {FAN_WATCHERS} watchers, as written": rate,
    }


async def _write(target: Target, events: int) -> float:
    """That many patches, each writer's on an object of its own; returns how many a second."""
    numbers = iter(range(events))

    async def write(writer: int) -> None:
        for number in numbers:
            await _mark(target, f"{CONFIG_MAPS}/fan-{writer}", number)

    began = time.perf_counter()
    await asyncio.gather(*(write(writer) for writer in range(IN_FLIGHT)))
    return events / (time.perf_counter() - began)
