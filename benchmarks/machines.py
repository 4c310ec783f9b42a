"""The kinds of machines beside one another: `python -m benchmarks.machines [--rounds N] [KIND ...]`, as root.

In each round each kind, in turn, gets a cluster of one node. Measured: from `mooring up` to the node being
Ready, and from `node start` after a power loss to it being Ready in another boot (seconds); what its
processes hold of this host's memory then (MiB; of what is shared, their part); how fast it writes to a disk
of the array and syncs, and reads that again, mounted anew (this host has it in its cache); how long it
computes (a fixed piece of Python); how fast it receives from this host (MB/s over TCP). Prints the median
of the rounds, and the least and the greatest.

What cannot be had here is left out, and said.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup, kinds
from mooring.cluster.stage import Stage
from mooring.kube.objects import Node
from mooring.mounts.blocking import blocking

NODE = "node-1"
HOST = "10.88.0.1"
"""This host, on the bridge of the machines."""
DISK_MIB, NETWORK_MIB = 64, 32
PATIENCE_S = 300.0
MEASURED: Mapping[str, str] = {
    "ready": "`up` to Ready, s",
    "again": "`node start` to Ready, s",
    "memory": "memory, MiB",
    "write": "write and sync, MB/s",
    "read": "read, MB/s",
    "receive": "receive over TCP, MB/s",
    "compute": "3,000,000 rounds of Python, s",
}
COMPUTE = """
import time
began, i = time.perf_counter(), 0
while i < 3_000_000: i += 1
print(time.perf_counter() - began)
"""


async def main(names: list[str], rounds: int) -> None:
    """The whole benchmark."""
    if os.geteuid() != 0:
        print("left out: machines need root", file=sys.stderr)
        return
    chosen = [kind for kind in names or list(kinds.CHECKS) if possible(kind)]
    figures: dict[str, dict[str, list[float]]] = {kind: {} for kind in chosen}
    for number in range(rounds):
        for kind in chosen:
            print(f"round {number + 1}: {kind}", file=sys.stderr, flush=True)
            for name, value in (await measured(kind)).items():
                figures[kind].setdefault(name, []).append(value)
    print(table(figures))


def possible(kind: str) -> bool:
    """Whether this host can have it."""
    try:
        kinds.check((kind,))
    except (ClusterError, KeyError) as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def table(figures: Mapping[str, Mapping[str, list[float]]]) -> str:
    """As docs/machines.md has it."""
    lines = ["| | " + " | ".join(f"`{kind}`" for kind in figures) + " |", "|---|" + "---|" * len(figures)]
    for name, title in MEASURED.items():
        lines.append(
            f"| {title} | " + " | ".join(_shown(each.get(name, [])) for each in figures.values()) + " |"
        )
    return "\n".join(lines)


def _shown(values: list[float]) -> str:
    if not values:
        return "-"
    middle, least, greatest = statistics.median(values), min(values), max(values)
    return f"{_rounded(middle)} ({_rounded(least)}–{_rounded(greatest)})"


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


async def measured(kind: str) -> dict[str, float]:
    """One round."""
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as directory:
        stage = Stage(Path(directory))
        try:
            began = time.monotonic()
            await stage.up("--machines", f"{kind}=1", "--port", "0", "--node-monitor-grace-period", "20")
            await stage.until("the node is Ready", lambda: stage.ready_nodes(1), patience=PATIENCE_S)
            found = {"ready": time.monotonic() - began, "memory": memory_mib(stage)}
            found |= await in_machine(stage, kind)
            await stage.command("node", "kill", NODE)
            found["again"] = await started_again(stage)
            return found
        finally:
            await stage.down()


async def started_again(stage: Stage) -> float:
    """Seconds until it is Ready in another boot."""
    boot = (await stage.client.get(Node, NODE)).status.node_info.boot_id
    began = time.monotonic()
    await stage.command("node", "start", NODE)

    async def back() -> bool:
        node = await stage.client.get(Node, NODE)
        return node.ready == "True" and node.status.node_info.boot_id != boot

    await stage.until("the node is Ready again", back, patience=PATIENCE_S)
    return time.monotonic() - began


def memory_mib(stage: Stage) -> float:
    """Of all processes of the machine, agent included."""
    group = cgroup.of(stage.layout.root, NODE)
    assert group is not None
    shares = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in group.processes()]
    return sum(int(text.split("\nPss:")[1].split()[0]) for text in shares) / 1024


async def in_machine(stage: Stage, kind: str) -> dict[str, float]:
    """Disk, network and processor, by the wall clock of this host."""
    await blocking(stage.array.create, "bench", 256 << 20)
    link = await blocking(stage.array.attach, "bench", NODE)
    await timed(stage, f"mkfs.ext4 -q {link} && mkdir -p /run/bench && mount {link} /run/bench")
    idle = await timed(stage, "true")
    write = f"dd if=/dev/zero of=/run/bench/x bs=1M count={DISK_MIB} conv=fsync 2>/dev/null"
    mounted_anew = f"umount /run/bench && mount {link} /run/bench"
    read = "dd if=/run/bench/x of=/dev/null bs=1M 2>/dev/null"
    wrote = await timed(stage, write) - idle
    await timed(stage, mounted_anew)
    read_in = await timed(stage, read) - idle
    computing = float(await said(stage, f"python3 -S -c '{COMPUTE}'"))
    megabytes = DISK_MIB * (1 << 20) / 1e6
    found = {"write": megabytes / wrote, "read": megabytes / read_in, "compute": computing}
    await timed(stage, "umount /run/bench")
    await blocking(stage.array.detach, "bench", NODE)
    if kind != kinds.NAMESPACE:
        found["receive"] = await received(stage)
    return found


async def received(stage: Stage) -> float:
    """MB/s from this host's end of the bridge; the machine tells when it has all."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(NETWORK_MIB):
            writer.write(bytes(1 << 20))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    script = (
        f'import socket, time; s = socket.create_connection(("{HOST}", {port})); b = time.monotonic(); n = 0\n'
        "while d := s.recv(1 << 18): n += len(d)\n"
        "print(n / (time.monotonic() - b) / 1e6)"
    )
    try:
        return float(await said(stage, f"python3 -S -c '{script}'"))
    finally:
        server.close()


async def timed(stage: Stage, script: str) -> float:
    """Seconds until it has ended. Raises ClusterError if it fails."""
    began = time.monotonic()
    await said(stage, script)
    return time.monotonic() - began


async def said(stage: Stage, script: str) -> str:
    """What it printed. Raises ClusterError if it fails."""
    status, output = await stage.run_in(NODE, script)
    if status:
        raise ClusterError(output)
    return output


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    asyncio.run(main(given.kinds, given.rounds))
