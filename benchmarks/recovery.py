"""From a node's power loss to the first record of its pod on another: `python -m benchmarks.recovery
[--rounds N] [--machines KIND] [--grace S]`, as root.

One cluster of three machines with BMCs. In each round the node of a StatefulSet's pod loses power twice: once
the fencing controller is there alone (the BMC is ordered, the power strip agrees); once fencing is paused and
an operator is, who states that the node is dead at the very moment at which it is shown as silent. Measured
from the power loss (seconds): until the node is Unknown, until it is fenced, until the pod has written its
next record elsewhere. Prints medians, the least and the greatest, and how much longer than the operator the
mechanism takes.

Upstream's controllers move such a pod never by themselves (a StatefulSet's pod of a silent node stays
Terminating); its volume, where the storage is a cloud's, six minutes after the pod was deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mooring.cluster.demo.play import Demo
from mooring.cluster.demo.scene import MANIFEST, examples
from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import kinds
from mooring.cluster.stage import Stage
from mooring.kube.objects import Node, Pod
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.volumes.node_fences import Phase

PATIENCE_S = 120.0
SCRIPT = """
number=0
trap 'exit 0' TERM
while true; do
  number=$((number + 1))
  date >> /data/records
  sync -d /data/records
  echo "wrote $number"
  sleep 0.2
done
"""
MEASURED = {
    "unknown": "power loss to Unknown, s",
    "fenced": "to the fence being shown, s",
    "record": "to the first record elsewhere, s",
}


async def main(machines: str, grace: float, rounds: int) -> None:
    """The whole benchmark."""
    if os.geteuid() != 0:
        print("left out: machines need root", file=sys.stderr)
        return
    try:
        kinds.check((machines,))
    except (ClusterError, KeyError) as error:
        print(f"left out: {error}", file=sys.stderr)
        return
    figures: dict[str, dict[str, list[float]]] = {"fencing": {}, "an operator at once": {}}
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as directory:
        stage = Stage(Path(directory))
        demo = Demo(stage, rootless=False, machines=machines, fencing=True)
        try:
            flags = ["--node-monitor-grace-period", str(grace), "--fencing", "--machines", machines]
            await stage.up("--nodes", "3", "--port", "0", *flags)
            await stage.until("all nodes are Ready", lambda: stage.ready_nodes(3), patience=PATIENCE_S)
            await stage.apply(workload(Path(directory)))
            await stage.until("the pod runs", demo.running, patience=PATIENCE_S)
            for number in range(rounds):
                for who, found in figures.items():
                    print(f"round {number + 1}: {who}", file=sys.stderr, flush=True)
                    for name, value in (await lost(demo, operator=who != "fencing")).items():
                        found.setdefault(name, []).append(value)
        finally:
            await stage.down()
    print(table(figures))
    ratio = statistics.median(figures["fencing"]["record"]) / statistics.median(
        figures["an operator at once"]["record"]
    )
    print(f"\nfencing takes {ratio:.2f} times as long as an operator who answers at once")


def workload(directory: Path) -> Path:
    """The example's StatefulSet, whose pod does not look through all earlier records first: that would be
    measured."""
    documents: list[Any] = list(yaml.safe_load_all((examples() / MANIFEST).read_text()))
    for each in documents:
        if each["kind"] == "ConfigMap":
            each["data"]["record.sh"] = SCRIPT
    made = directory / MANIFEST
    made.write_text(yaml.safe_dump_all(documents))
    return made


async def lost(demo: Demo, *, operator: bool) -> dict[str, float]:
    """One power loss; afterwards the node is back."""
    stage = demo.stage
    await _pause(stage, "the operator is at hand" if operator else "")
    pod = await demo.running()
    assert pod is not None
    node = pod.spec.node_name
    await _seen_on(stage, node)
    await demo.writes(pod)
    began = time.monotonic()
    await stage.command("node", "kill", node)
    await stage.until("silence", lambda: _silent(stage, node), patience=PATIENCE_S)
    found = {"unknown": time.monotonic() - began}
    if operator:
        status, answer = await stage.command("node", "confirm-dead", node)
        assert status == 0, answer
    else:
        await stage.until("the fence", lambda: _fenced(stage, node), patience=PATIENCE_S)
        found["fenced"] = time.monotonic() - began
    moved: Pod = await stage.until(
        "the pod runs elsewhere", lambda: demo.running(not_uid=pod.uid), patience=PATIENCE_S
    )
    await demo.writes(moved, more=1)
    found["record"] = time.monotonic() - began
    await _back(stage, node, operator=operator)
    return found


async def _silent(stage: Stage, node: str) -> bool:
    return (await stage.client.get(Node, node)).ready == "Unknown"


async def _fenced(stage: Stage, node: str) -> bool:
    fences = (await stage.client.list(NodeFence)).items
    return any(each.spec.node_name == node and each.status.phase == Phase.FENCED for each in fences)


async def _seen_on(stage: Stage, node: str) -> None:
    """The mechanisms are asked when a node boots: what they said is compared later."""
    from mooring.kube.objects.fencing import FenceMechanism

    boot = (await stage.client.get(Node, node)).status.node_info.boot_id

    async def asked() -> bool:
        bmc = await stage.client.get(FenceMechanism, "bmc")
        return any(each.name == node and each.boot_id == boot for each in bmc.status.nodes)

    await stage.until("its BMC was asked", asked, patience=PATIENCE_S)


async def _pause(stage: Stage, why: str) -> None:
    await stage.client.patch(FencePolicy, "default", {"spec": {"paused": why}})


async def _back(stage: Stage, node: str, *, operator: bool) -> None:
    if operator:
        await stage.command("node", "start", node)
    else:
        await stage.command("fence", "release", node)

    async def ready() -> bool:
        return (await stage.client.get(Node, node)).ready == "True"

    async def welcome() -> bool:
        return (await stage.command("node", "welcome", node))[0] == 0

    await stage.until("it is Ready again", ready, patience=PATIENCE_S)
    await stage.until("it is welcome", welcome, patience=PATIENCE_S)


def table(figures: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """As docs/performance.md has it."""
    lines = ["| | " + " | ".join(figures) + " |", "|---|" + "---|" * len(figures)]
    for name, title in MEASURED.items():
        cells = [_shown(each.get(name, ())) for each in figures.values()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--machines", default="uml")
    parser.add_argument("--grace", type=float, default=10.0)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.machines, arguments.grace, arguments.rounds))
