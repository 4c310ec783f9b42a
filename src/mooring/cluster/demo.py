"""`mooring demo`: one volume's life on real block devices, with every claim checked.

Three stories: a drain; a node that loses power while the pod writes; a controller that is killed three times
in the middle of a move. With `--machines` each node is a machine of that kind, and there is a fourth: a node
is cut off from the API server and goes on writing. With `--cloud` the volume is EBS's, through its CSI
driver. Each check is made on what is true (the storage, the kernel, the bytes on the disk), not on what the
API says. The exit status is 0 only if every check held.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import click

from mooring.cluster import timeline
from mooring.cluster.observer import Observer
from mooring.cluster.power_witness import UNSYNCED, OwnKernel, PowerWitness, SharedKernel, content
from mooring.cluster.stage import Disappointed, Stage
from mooring.cluster.view import table
from mooring.controllers.attachdetach.decide import Attachment, NodeState, may_release
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.mounts.blocking import blocking
from mooring.volumes.names import ATTACH_REQUESTED_AT

MANIFEST = "statefulset.yaml"
NODES = 3
GRACE_S = 10
POD, CLAIM, CONTAINER = "recorder-0", "data-recorder-0", "recorder"


def examples() -> Path:
    """The folder of example manifests: beside the sources, or installed with the package."""
    beside = Path(__file__).parents[3] / "examples"
    return beside if beside.is_dir() else Path(__file__).parents[1] / "examples"


@dataclass
class Demo:
    """The demo as it runs: what was measured, checked and marked."""

    stage: Stage
    rootless: bool
    cloud: bool = False
    machines: str = ""
    durations: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    failed: list[str] = field(default_factory=list[str])
    marks: list[timeline.Mark] = field(default_factory=list[timeline.Mark])
    disk: str = ""
    observer: Observer | None = None
    said: dict[str, str] = field(default_factory=dict[str, str])
    """The last log of each pod that was seen, by uid: that of a machine that is off cannot be read."""

    # --- telling

    def say(self, text: str) -> None:
        click.echo(f"  {text}")

    def head(self, text: str) -> None:
        click.echo(click.style(f"\n{text}", bold=True))

    def check(self, what: str, holds: bool) -> None:
        """One check; a failing one is remembered for the exit status."""
        click.echo(f"  {click.style('✓', fg='green') if holds else click.style('✗ FAILED', fg='red')} {what}")
        if not holds:
            self.failed.append(what)

    def mark(self, label: str) -> None:
        self.marks.append(timeline.Mark(self.watch.now, label))

    @property
    def watch(self) -> Observer:
        assert self.observer is not None
        return self.observer

    async def timed(self, what: str, since: float, holds: object) -> float:
        """Waits for something and notes how long it took from `since` (observer's seconds)."""
        await self.stage.until(what, holds)  # type: ignore[arg-type]
        taken = self.watch.now - since
        self.durations.append((what, taken))
        self.say(f"{what}: {taken:.2f} s")
        return taken

    # --- looking

    async def pod(self) -> Pod | None:
        return await self.stage.client.find(Pod, POD, "default")

    async def running(self, *, not_uid: str = "") -> Pod | None:
        pod = await self.pod()
        ready = pod is not None and any(
            c.type == "Ready" and c.status == "True" for c in pod.status.conditions
        )
        return pod if pod is not None and ready and not pod.deleting and pod.uid != not_uid else None

    async def log(self, pod: Pod) -> str:
        """All that the pod has printed; what was last seen of it, if its machine is off."""
        text = await self.stage.logs(pod.spec.node_name, pod.uid, CONTAINER)
        if text is not None:
            self.said[pod.uid] = text
        return self.said.get(pod.uid, "")

    async def last(self, pod: Pod, word: str) -> int:
        """The last number that the pod's log gives after a word, 0 if none."""
        numbers = [
            line.rsplit(f"{word} ", 1)[1].split()[0]
            for line in (await self.log(pod)).splitlines()
            if f"{word} " in line
        ]
        return int(numbers[-1]) if numbers else 0

    async def writes(self, pod: Pod, more: int = 3) -> int:
        """Waits until the pod has written some more records; the last number."""
        start = await self.last(pod, "wrote")

        async def more_are_written() -> bool:
            return await self.last(pod, "wrote") >= start + more

        await self.stage.until("records are written", more_are_written)
        return await self.last(pod, "wrote")

    async def verified(self, pod: Pod, at_least: int, what: str) -> None:
        """Checks that a restarted pod found every synced record."""

        async def looked_through() -> bool:
            text = await self.log(pod)
            return "verified" in text or "damaged" in text

        await self.stage.until("records are verified", looked_through)
        found = await self.last(pod, "verified")
        intact = "damaged" not in await self.log(pod)
        where = f"{found} found on {pod.spec.node_name}"
        self.check(
            f"{what}: all {at_least} synced records are intact ({where})", intact and found >= at_least
        )
        await self.writes(pod)
        self.say(f"records continue on {pod.spec.node_name}")


# --- the stories


async def first_volume(demo: Demo) -> None:
    """Claim → provision → attach → format → mount → run."""
    stage, watch = demo.stage, demo.watch
    demo.head("A pod asks for a volume")
    since = watch.now
    demo.mark("apply")
    demo.say(f"applied examples/{MANIFEST} with {await stage.apply(examples() / MANIFEST)}")
    await demo.timed("claim bound", since, lambda: _bound_volume(demo))
    await demo.timed("attached", since, lambda: {"attached", "mounted"} & _true_states(watch))
    await demo.timed("mounted", since, lambda: "mounted" in _true_states(watch))
    await demo.timed("pod running", since, demo.running)
    pod = await demo.running()
    assert pod is not None
    await demo.writes(pod)
    demo.check(f"the pod writes on {pod.spec.node_name}, to {_where(demo, pod)}", True)


def _true_states(watch: Observer) -> set[str]:
    return {watch.true_state(f"node-{number}") for number in range(1, NODES + 1)}


async def _bound_volume(demo: Demo) -> bool:
    claim = await demo.stage.client.find(PersistentVolumeClaim, CLAIM, "default")
    if claim is None or claim.status.phase != "Bound":
        return False
    volume = await demo.stage.client.get(PersistentVolume, claim.spec.volume_name)
    demo.disk = volume.spec.csi.volume_handle if volume.spec.csi is not None else volume.name
    demo.watch.volume, demo.watch.disk = volume.name, demo.disk
    return True


def _where(demo: Demo, pod: Pod) -> str:
    device = demo.stage.truth.device(demo.disk, pod.spec.node_name)
    return f"{device} (a real block device)" if device and device.startswith("/dev/") else "a directory"


async def drain(demo: Demo) -> None:
    """a. The pod's node is drained."""
    demo.head("a. Its node is drained")
    pod = await demo.running()
    assert pod is not None
    written = await demo.writes(pod)
    node, since = pod.spec.node_name, demo.watch.now
    demo.mark(f"drain {node}")
    await demo.stage.drain(node)
    await demo.timed("moved by drain", since, lambda: demo.running(not_uid=pod.uid))
    moved = await demo.running()
    assert moved is not None
    demo.check(f"the pod moved from {node} to {moved.spec.node_name}", moved.spec.node_name != node)
    await demo.verified(moved, written, "after the drain")
    await demo.stage.cordon(node, False)


async def power_loss(demo: Demo) -> None:
    """b. The pod's node loses power while it writes."""
    demo.head("b. Its node loses power while it writes")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    node, witness = pod.spec.node_name, _witness(demo, pod)
    await demo.writes(pod)
    await witness.begin()
    since = watch.now
    demo.mark(f"{node} loses power")
    killing = asyncio.create_task(stage.command("node", "kill", node))
    outcome = await witness.after(killing)
    status, answer = await killing
    demo.check(answer, status == 0)
    if demo.rootless:
        demo.say(f"(directories have no power to lose: a late write {outcome})")
    else:
        demo.check(f"no later write of the old node succeeds ({outcome})", outcome in ("EIO", "nothing runs"))
    left = None if demo.rootless else await blocking(content, stage, demo.disk)
    synced = await demo.last(pod, "wrote")
    demo.say(f"the last record known to be synced is {synced}")
    status, answer = await stage.command("node", "confirm-dead", node)
    demo.check(f"confirm-dead is refused while {node} is not known to be silent", status != 0)
    await demo.timed("silence noticed", since, lambda: _ready(watch.node(node)) == "Unknown")
    await _show_wait(demo, node)
    if left is not None:
        now = await blocking(content, stage, demo.disk)
        demo.check("not a byte of the disk has changed since the power loss", now == left)
    confirmed = watch.now
    demo.mark("confirm-dead")
    status, answer = await stage.command("node", "confirm-dead", node)
    demo.check(answer, status == 0)
    await demo.timed("moved after confirm-dead", confirmed, lambda: demo.running(not_uid=pod.uid))
    demo.durations.append(("recovered from power loss, in all", watch.now - since))
    moved = await demo.running()
    assert moved is not None
    await demo.verified(moved, synced, "after the power loss")
    await _check_unsynced_is_lost(demo, moved)
    await _power_on(demo, node)


def _ready(node: Node | None) -> str:
    return node.ready if node is not None else ""


def _witness(demo: Demo, pod: Pod) -> PowerWitness:
    node = pod.spec.node_name
    if demo.stage.own_kernel(node):
        return OwnKernel(demo.stage, node, demo.disk)
    mount = demo.stage.inside(node, demo.disk)
    assert mount is not None
    return SharedKernel(mount)


async def _show_wait(demo: Demo, node: str) -> None:
    """Says why the volume does not move yet, in the controller's own words."""
    live = await demo.stage.client.get(Node, node)
    record = demo.watch.record(node)
    assert record is not None
    name = next(iter(live.status.volumes_in_use), "")
    verdict = may_release(NodeState.of(live, name), Attachment.of(record))
    await asyncio.sleep(1)
    held = demo.stage.truth.holders(demo.disk)
    demo.check(f"the volume waits: {verdict.reason.message}", not verdict.allowed and held == (node,))


async def _check_unsynced_is_lost(demo: Demo, pod: Pod) -> None:
    node = pod.spec.node_name
    text = await demo.stage.file_of(node, demo.stage.truth.staged_at(demo.disk, node) / "unsynced")
    size, all_of_it = len(text or ""), len(UNSYNCED)
    if demo.rootless:
        demo.say(f"(directories have no power to lose: {size} unsynced bytes are still there)")
    else:
        demo.check(
            f"control: what was written but never synced is lost ({size} of {all_of_it} bytes are left)",
            size == 0,
        )


async def _power_on(demo: Demo, node: str) -> None:
    since = demo.watch.now
    demo.mark(f"{node} boots")
    status, answer = await demo.stage.command("node", "start", node)
    demo.check(answer, status == 0)
    await demo.timed("node is back", since, lambda: _ready(demo.watch.node(node)) == "True")
    status, answer = await demo.stage.until("it is welcome", lambda: _welcomed(demo, node))
    demo.say(answer)


async def _welcomed(demo: Demo, node: str) -> tuple[int, str] | None:
    status, answer = await demo.stage.command("node", "welcome", node)
    return (status, answer) if status == 0 else None


async def controller_crashes(demo: Demo) -> None:
    """c. The controllers are killed three times during one move."""
    demo.head("c. The controllers are killed with -9 three times during one move")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    old, since = pod.spec.node_name, watch.now
    written = await demo.writes(pod)
    await stage.truth.slow_down(demo.disk, 2.5)
    await stage.cordon(old)
    await stage.client.delete(Pod, POD, "default", uid=pod.uid)
    demo.mark("pod deleted")
    new = await stage.until("a new pod has a node", lambda: _new_node(demo, pod.uid))
    await stage.until("nothing is written for the new node yet", lambda: watch.record(new) is None)
    await _kill(demo, "before the intent is written", watch.record(new) is None)
    await stage.until("the intent is written", lambda: _requested(demo, new))
    await _kill(demo, "after the intent, before the attach", new not in stage.truth.holders(demo.disk))
    await stage.until("the disk is attached", lambda: new in stage.truth.holders(demo.disk))
    record = watch.record(new)
    await _kill(
        demo, "after the attach, before its status", record is not None and not record.status.attached
    )
    await stage.truth.slow_down(demo.disk, 0)
    await demo.timed("moved despite three crashes", since, lambda: demo.running(not_uid=pod.uid))
    moved = await demo.running()
    assert moved is not None
    await demo.verified(moved, written, "after the crashes")
    demo.check("nothing was ever attached twice", not watch.doubly_attached)
    await stage.cordon(old, False)


async def cut_off(demo: Demo) -> None:
    """d. The pod's node is cut off from the API server, and goes on writing."""
    demo.head("d. Its node is cut off from the API server, and goes on writing")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    node, since = pod.spec.node_name, watch.now
    await demo.writes(pod)
    demo.mark(f"{node} is cut off")
    status, answer = await stage.command("node", "cut", node, "--from", "api")
    demo.check(answer, status == 0)
    await demo.timed("silence noticed, of a cut", since, lambda: _ready(watch.node(node)) == "Unknown")
    before = await demo.last(pod, "wrote")
    written = await demo.writes(pod, more=10)
    demo.check(
        f"to the API {node} is silent; in truth it has written {written - before} more records meanwhile",
        watch.true_state(node) == "mounted",
    )
    await _show_wait(demo, node)
    healed = watch.now
    demo.mark("healed")
    status, answer = await stage.command("node", "heal", node)
    demo.check(answer, status == 0)
    await demo.timed("node is back, its link healed", healed, lambda: _ready(watch.node(node)) == "True")
    await stage.until("the pod is shown as ready", demo.running)
    still = await demo.running()
    demo.check("the same pod goes on, on the same node", still is not None and still.uid == pod.uid)
    await demo.writes(pod)
    demo.check("nothing was ever attached twice", not watch.doubly_attached)


async def _new_node(demo: Demo, old_uid: str) -> str:
    pod = await demo.pod()
    return pod.spec.node_name if pod is not None and pod.uid != old_uid else ""


def _requested(demo: Demo, node: str) -> bool:
    record = demo.watch.record(node)
    return record is not None and ATTACH_REQUESTED_AT in record.metadata.annotations


async def _kill(demo: Demo, when: str, as_meant: bool) -> None:
    parts = [part for part in ("controllers", demo.stage.truth.part) if part]
    for part in parts:
        demo.stage.kill_part(part)
    demo.mark("kill -9")
    demo.check(f"killed {when}", as_meant)
    await demo.stage.until("the controllers are back", lambda: all(map(demo.stage.part, parts)))


# --- the frame


async def run_demo(out: Path, *, keep: bool = False, cloud: bool = False, machines: str = "") -> int:
    """Plays everything; returns the exit status."""
    rootless = "MOORING_ROOTLESS" in os.environ
    directory = Path(tempfile.mkdtemp(prefix="mooring-demo-"))
    demo = Demo(Stage(directory, rootless=rootless, cloud=cloud), rootless, cloud, machines)
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
            click.style(f"{len(demo.failed)} checks failed; everything is kept in {directory}", fg="red")
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
            stories = [first_volume, drain, power_loss, controller_crashes]
            for story in stories + [cut_off] * bool(demo.machines):
                await story(demo)
            watching.cancel()
    finally:
        _draw(demo, out)


def _draw(demo: Demo, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lanes = sorted(demo.watch.lanes.values(), key=lambda lane: (lane.node, lane.kind))
    title = f"One volume, {NODES} nodes: what the API reports, and what is true"
    (out / "timeline.svg").write_text(timeline.render(lanes, demo.marks, demo.watch.now, title))


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
