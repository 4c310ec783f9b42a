"""What the stories share: a recorder that writes to its volume, what was measured, checked and marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import click

from mooring.cluster.observer import Observer
from mooring.cluster.stage import Stage
from mooring.kube.objects import Node, Pod
from mooring.pictures.model import Loss, Mark

MANIFEST = "statefulset.yaml"
NODES = 3
GRACE_S = 10
POD, CLAIM, CONTAINER = "recorder-0", "data-recorder-0", "recorder"


def examples() -> Path:
    """The folder of example manifests: beside the sources, or installed with the package."""
    beside = Path(__file__).parents[4] / "examples"
    return beside if beside.is_dir() else Path(__file__).parents[2] / "examples"


def ready(node: Node | None) -> str:
    """Of a Node as the API shows it; "" if there is none."""
    return node.ready if node is not None else ""


@dataclass
class Demo:
    """The demo as it runs: what was measured, checked and marked."""

    stage: Stage
    rootless: bool
    cloud: bool = False
    machines: str = ""
    fencing: bool = False
    durations: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    failed: list[str] = field(default_factory=list[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    waited: dict[str, str] = field(default_factory=dict[str, str])
    """Why a node's volumes waited, by its name: the controller's own words."""
    losses: list[tuple[str, Loss]] = field(default_factory=list[tuple[str, Loss]])
    """What was lost, and on which node."""
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
        self.marks.append(Mark(self.watch.now, label))

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

    async def running(self, name: str = POD, *, not_uid: str = "") -> Pod | None:
        """The pod, if it is Ready, and another one than that of `not_uid`."""
        pod = await self.stage.client.find(Pod, name, "default")
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
