"""What the tests do with machines and ask of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mooring.cluster.stage import Disappointed, Stage
from mooring.kube.objects import Node
from mooring.mounts.blocking import blocking

NODE = "node-1"
MIB = 1 << 20


async def inside(stage: Stage, script: str, node: str = NODE) -> str:
    """Runs it in the machine; its output. The test fails if it does."""
    status, output = await stage.run_in(node, script)
    assert status == 0, output
    return output.strip()


async def order(stage: Stage, *words: str) -> str:
    """Orders it of a node; the answer. The test fails if it is refused."""
    status, answer = await stage.command("node", *words)
    assert status == 0, answer
    return answer


async def plugged(stage: Stage, disk: str, node: str = NODE) -> str:
    """Makes a disk and attaches it; where its device is in the machine."""
    await blocking(stage.array.create, disk, 64 * MIB)
    return await blocking(stage.array.attach, disk, node)


async def boot_of(stage: Stage, node: str = NODE) -> str:
    """The boot that the Node reports."""
    return (await stage.client.get(Node, node)).status.node_info.boot_id


async def back_after(stage: Stage, boot: str, node: str = NODE, *, patience: float = 180.0) -> str:
    """Waits until the node is Ready in another boot; that boot. A boot takes seconds; a minute on a
    machine with eight times the load that it can bear."""

    async def again() -> str | None:
        live = await stage.client.get(Node, node)
        other = live.status.node_info.boot_id
        return other if live.ready == "True" and other != boot else None

    try:
        found: str = await stage.until("the node is back in another boot", again, patience=patience)
    except Disappointed as error:
        console = (stage.layout.logs / f"machine-{node}.log").read_text(errors="replace")
        power = "has power" if stage.has_power(node) else "is off"
        raise Disappointed(f"{error}; it {power}; its console ends:\n{console[-3000:]}") from None
    return found


async def silent(stage: Stage, node: str = NODE) -> None:
    """Waits until the API knows that the node says nothing."""

    async def unknown() -> bool:
        return (await stage.client.get(Node, node)).ready == "Unknown"

    await stage.until("the node is Unknown", unknown)


async def grows(stage: Stage, file: str, node: str = NODE) -> bool:
    """Whether a file in the machine gets longer, looked at for two seconds."""
    before = int(await inside(stage, f"stat -c %s {file}", node))
    await asyncio.sleep(2)
    return int(await inside(stage, f"stat -c %s {file}", node)) > before


def state_of(stage: Stage, node: str = NODE) -> bytes:
    """All that is on the machine's own disk."""
    return (stage.layout.machine(node) / "state.img").read_bytes()


def medium(stage: Stage, disk: str) -> Path:
    """What a disk of the array consists of."""
    return stage.layout.array / "disks" / disk / "disk.img"
