"""`mooring up` in the foreground: a live view on a terminal, plain lines elsewhere, and an orderly end.

The first Ctrl-C (or SIGTERM) shuts the machines down cleanly, those that boot excepted: these have no power
then. The second cuts their power.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from typing import TextIO

from mooring.cluster.changes import changes, facts
from mooring.cluster.cluster import Cluster
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.options import Options
from mooring.cluster.processes import load
from mooring.cluster.screen import Screen, is_terminal
from mooring.cluster.sweep import sweep
from mooring.cluster.tables import lines as shown
from mooring.cluster.tables import shortened
from mooring.cluster.tails import Tail
from mooring.cluster.true_state import TrueState
from mooring.cluster.view import Snapshot, legend, sections, take
from mooring.csi.trace import call_line
from mooring.kube.errors import KubeError
from mooring.kube.printable import counted, printable
from mooring.kube.times import wall_clock
from mooring.page.page import showing

LOOK_S = 1.0
CALLS, LOG_LINES = 6, 4
"""How many of the last calls of CSI drivers, and of the last lines of each driver's log, are shown."""
DOWN_S = 120.0
"""As long as the end of a cluster may take if each of its parts ends in its last moment, in seconds."""


async def run(layout: Layout, options: Options, out: TextIO = sys.stdout) -> None:
    """Runs the cluster until a signal, also one that comes before it is up."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    cluster = Cluster(layout, options)
    try:
        if await _starts(cluster, signalled, out):
            await _until(signalled, cluster, out)
            await _end(asyncio.create_task(cluster.stop()), cluster, signalled, out)
    finally:
        await cluster.stop()
    print(f"stopped; the next `mooring up` resumes on {layout.root}", file=out, flush=True)


async def _starts(cluster: Cluster, signalled: asyncio.Event, out: TextIO) -> bool:
    """Whether it is up. A signal that comes before that ends the start, and what has been started."""
    starting, told = asyncio.create_task(cluster.start()), asyncio.create_task(signalled.wait())
    await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await _end(starting, cluster, signalled, out)
    return False


async def _until(signalled: asyncio.Event, cluster: Cluster, out: TextIO) -> None:
    """Shows it, and serves its page."""
    print(_welcome(cluster), file=out, flush=True)
    async with contextlib.AsyncExitStack() as stack:
        if cluster.options.page:
            print(f"  {await stack.enter_async_context(_page(cluster))}", file=out, flush=True)
        shown = asyncio.create_task(_show(cluster, out))
        await signalled.wait()
        shown.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await shown


@contextlib.asynccontextmanager
async def _page(cluster: Cluster) -> AsyncGenerator[str, None]:
    """Serves the live page; its address."""
    client = cluster.client()
    cloud = cluster.options.cloud is not None
    looks = TrueState(cluster.layout, cluster.array, cluster.machines, cloud=cloud)
    name = f"https://127.0.0.1:{cluster.port}"
    try:
        async with showing(client, port=0, cluster=name, now=wall_clock, looks=looks) as server:
            yield server.address
    finally:
        await client.close()


async def _end(orderly: asyncio.Task[None], cluster: Cluster, signalled: asyncio.Event, out: TextIO) -> None:
    print("shutting down: machines first (Ctrl-C again cuts their power)", file=out, flush=True)
    signalled.clear()
    impatient = asyncio.create_task(signalled.wait())
    await asyncio.wait({orderly, impatient}, return_when=asyncio.FIRST_COMPLETED)
    if not orderly.done():
        for machine in cluster.machines.values():
            machine.cut_now()
    impatient.cancel()
    await orderly


def _welcome(cluster: Cluster) -> str:
    join = cluster.options.join
    joining = f"\n  a machine of {join.network} joins by: mooring node join NAME" if join else ""
    taken = f" ({cluster.instead_of} is in use)" if cluster.instead_of else ""
    return (
        f"cluster with {counted(len(cluster.machines), 'node')} on https://127.0.0.1:{cluster.port}{taken}\n"
        f"  export KUBECONFIG={cluster.options.kubeconfig_out or cluster.layout.kubeconfig}\n"
        f"  kubectl get nodes; mooring status --data-dir {cluster.layout.root}; Ctrl-C to stop"
        f"{joining}"
    )


async def _show(cluster: Cluster, out: TextIO) -> None:
    """Looks once a second; on a terminal redraws, elsewhere prints what has changed."""
    client = cluster.client()
    drivers = DriversShown(cluster)
    terminal = is_terminal(out)
    before: dict[str, str] = {}
    screen = Screen(out)
    try:
        while True:
            with contextlib.suppress(KubeError):
                snapshot = await take(client)
                lines = drivers.look()
                if terminal:
                    _redraw(snapshot, cluster, drivers, screen)
                else:
                    now = dict(_facts(snapshot, cluster))
                    for line in [*changes(before, now, time.strftime("%H:%M:%S")), *lines]:
                        print(line, file=out, flush=True)
                    before = now
            await asyncio.sleep(LOOK_S)
    finally:
        await client.close()


class DriversShown:
    """The calls to the user's CSI drivers, and their logs."""

    def __init__(self, cluster: Cluster) -> None:
        csi = cluster.csi
        self._calls = Tail(cluster.layout.csi_trace, CALLS) if csi else None
        self._logs = [Tail(path, LOG_LINES) for path in csi.logs]

    def look(self) -> list[str]:
        """What is new and worth a line where nothing is redrawn: calls that failed, and all that is
        logged."""
        calls = self._calls.look() if self._calls is not None else []
        failed = [call for call in map(json.loads, calls) if call["code"] != "OK"]
        logged = [f"{tail.path.name}: {line}" for tail in self._logs for line in tail.look()]
        return [printable(line) for line in (*map(call_line, failed), *logged)]

    def lines(self) -> list[str]:
        """The last of everything."""
        calls = [call_line(json.loads(line)) for line in self._calls.lines] if self._calls is not None else []
        logs = [f"{tail.path.name}: {line}" for tail in self._logs for line in tail.lines]
        return ["", *map(printable, (*calls, *logs))] if calls or logs else []


def _redraw(snapshot: Snapshot, cluster: Cluster, drivers: DriversShown, screen: Screen) -> None:
    note = legend(snapshot)
    below = ["", "  ".join(f"{name}: {state}" for name, state in _parts(cluster)), *drivers.lines()]
    room = screen.size.lines - len(below) - (3 if note else 1)
    screen.draw([*shown(shortened(sections(snapshot), room), note), *below], "see `mooring status`")


def _parts(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for part in cluster.parts:
        running = part.running
        restarts = f", restarted {part.restarts}x" if part.restarts else ""
        yield part.name, (f"pid {running.pid}" if running else "down") + restarts
    for machine in cluster.machines.values():
        if not machine.on:
            yield machine.name, "off"


def _facts(snapshot: Snapshot, cluster: Cluster) -> Iterator[tuple[str, str]]:
    yield from facts(snapshot)
    for name, state in _parts(cluster):
        yield f"part {name}", state


def take_down(layout: Layout) -> list[str]:
    """Stops the `up` that runs on the data directory, if any, and cleans up. Returns what was stopped.
    Blocks."""
    found: list[str] = []
    owner = load(layout.run / "up.json")
    if owner is not None:
        found.append(f"mooring up (process {owner.pid})")
        owner.send(signal.SIGTERM)
        deadline = time.monotonic() + DOWN_S
        while owner.alive:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"`mooring up` (process {owner.pid}) does not stop within {DOWN_S:g} s: kill it, then try again"
                )
            time.sleep(0.05)
    return found + sweep(layout)
