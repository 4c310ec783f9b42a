"""Plays stories: a cluster is started, the volume made, each story told, the picture drawn, all taken
down."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import click

from mooring.cluster.demo import fence, shut_out, volume
from mooring.cluster.demo.picture import picture_of
from mooring.cluster.demo.recorded import recorded
from mooring.cluster.demo.scene import GRACE_S, NODES, Demo
from mooring.cluster.observer import Observer
from mooring.cluster.stage import Disappointed, Stage
from mooring.cluster.tables import table
from mooring.kube.printable import counted
from mooring.pictures.picture import render


async def run_demo(
    out: Path, *, keep: bool = False, cloud: bool = False, machines: str = "", fencing: bool = False
) -> int:
    """Plays everything; returns the exit status. `fencing`: the stories of nodes that are lost and fenced."""
    rootless = "MOORING_ROOTLESS" in os.environ
    directory = Path(tempfile.mkdtemp(prefix="mooring-demo-"))
    demo = Demo(Stage(directory, rootless=rootless, cloud=cloud), rootless, cloud, machines, fencing)
    began = asyncio.get_running_loop().time()
    try:
        await _play(demo, out)
    except* (Disappointed, AssertionError) as errors:
        demo.check(f"the story goes on: {'; '.join(map(str, errors.exceptions))}", False)
    finally:
        await _take_down(demo)
    click.echo("\n" + table(("STEP", "SECONDS"), [(what, f"{taken:.2f}") for what, taken in demo.durations]))
    click.echo(
        f"\nwhole demo: {asyncio.get_running_loop().time() - began:.0f} s; timeline: {out / 'timeline.svg'}"
    )
    if demo.failed:
        click.echo(
            click.style(
                f"{counted(len(demo.failed), 'check')} failed ({'; '.join(demo.failed)}); "
                f"everything is kept in {directory}",
                fg="red",
            )
        )
    elif not keep:
        shutil.rmtree(directory)
    return 1 if demo.failed else 0


async def _play(demo: Demo, out: Path) -> None:
    stage = demo.stage
    demo.head(f"A cluster of {NODES} nodes")
    began = asyncio.get_running_loop().time()
    flags = ["--cloud"] if demo.cloud else []
    flags += ["--machines", demo.machines] if demo.machines else []
    flags += ["--fencing"] if demo.fencing else []
    await stage.up("--nodes", str(NODES), "--port", "0", "--node-monitor-grace-period", str(GRACE_S), *flags)
    demo.observer = Observer(stage.client, stage.truth, stage.mounts)
    await stage.until("all nodes are Ready", lambda: stage.ready_nodes(NODES))
    taken = asyncio.get_running_loop().time() - began
    demo.durations.append(("cluster up, nodes ready", taken))
    parts = "API server, controllers, " + ("a cloud and its EBS driver, " if demo.cloud else "")
    demo.say(f"up in {taken:.2f} s: {parts}{NODES} machines; data in {stage.layout.root}")
    try:
        async with asyncio.TaskGroup() as group:  # an observer that fails ends the story, and says why
            watching = group.create_task(demo.observer.run())
            for story in _stories(demo):
                await story(demo)
            watching.cancel()
    finally:
        _draw(demo, out)


def _stories(demo: Demo) -> Sequence[Callable[[Demo], Awaitable[None]]]:
    if demo.fencing:
        stories = [volume.first_volume, *fence.STORIES]
        return stories + [shut_out.shut_out] * bool(demo.machines)
    stories = [volume.first_volume, volume.drain, volume.power_loss, volume.controller_crashes]
    return stories + [volume.cut_off] * bool(demo.machines)


def _draw(demo: Demo, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    beneath = [] if demo.fencing else recorded()
    (out / "timeline.svg").write_text(render(picture_of(demo, beneath)))


async def _take_down(demo: Demo) -> None:
    demo.head("Everything is taken down")
    began = asyncio.get_running_loop().time()
    status, answer = await demo.stage.down()
    demo.durations.append(("down", asyncio.get_running_loop().time() - began))
    left = demo.stage.leftovers()
    demo.check(
        "no mount, loop device or process is left" + (f": {left}" if left else ""), status == 0 and not left
    )
    if status != 0:
        demo.say(answer)
