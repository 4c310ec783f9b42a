"""Watches one volume from outside: what the API reports of it, what is true, and where its pod runs.

Truth is looked up where it is (`truth`): at the storage, and in the kernel's mount tables of each machine.
Reported state comes from watching the API. Both are kept as times at which a lane's state changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from mooring.cluster.truth import Truth
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.mounts.interface import Mount
from mooring.volumes.names import DETACHING

SAMPLE_S = 0.02


@dataclass(frozen=True)
class Change:
    """A lane's state from `at` on, in seconds since the observer began."""

    at: float
    state: str


@dataclass
class Lane:
    """The states of one node, reported or true, in order."""

    node: str
    kind: str
    changes: list[Change] = field(default_factory=list[Change])

    def note(self, at: float, state: str) -> None:
        """Appends a change, if it is one."""
        if (self.changes[-1].state if self.changes else "") != state:
            self.changes.append(Change(at, state))


def _is_ready(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and not pod.deleting


class Observer:
    """Follows the PersistentVolume `volume`, whose handle is `disk` (both are set once they are known)."""

    def __init__(
        self, client: Client, truth: Truth, mounts: Callable[[str], tuple[Mount, ...] | None]
    ) -> None:
        """`mounts` is the mount table of a node's machine, None if it has no power."""
        self.volume = ""
        self.pod = ""
        self.runs: list[Change] = []
        """On which node the pod `pod` runs, "" on none, in order."""
        self.disk = ""
        self.doubly_attached: list[str] = []
        self._truth = truth
        self._mounts = mounts
        self._nodes = Informer(client, Node, random=Random(1))
        self._records = Informer(client, VolumeAttachment, random=Random(2))
        self._pods = Informer(client, Pod, random=Random(3), namespace="default")
        self.lanes: dict[tuple[str, str], Lane] = {}
        self._start = asyncio.get_running_loop().time()

    @property
    def now(self) -> float:
        """Seconds since the observer began."""
        return asyncio.get_running_loop().time() - self._start

    def true_state(self, node: str) -> str:
        """What is true of the volume on a node, at the last look."""
        lane = self.lanes.get((node, "true"))
        return lane.changes[-1].state if lane is not None and lane.changes else ""

    def record(self, node: str) -> VolumeAttachment | None:
        """The volume's VolumeAttachment for a node, as the API shows it."""
        return next((r for r in self._records.items() if r.spec.node_name == node and self._is_ours(r)), None)

    def node(self, name: str) -> Node | None:
        """A Node as the API shows it."""
        return self._nodes.get(name)

    def _is_ours(self, record: VolumeAttachment) -> bool:
        return record.spec.source.persistent_volume_name == self.volume

    async def run(self) -> None:
        """Looks until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._records.run())
            group.create_task(self._pods.run())
            group.create_task(self._sample())

    async def _sample(self) -> None:
        while True:
            if self.disk:
                self._look()
            await asyncio.sleep(SAMPLE_S)

    def _look(self) -> None:
        at, held = self.now, self._truth.holders(self.disk)
        if len(held) > 1:
            self.doubly_attached.append(f"{at:.2f} s: {', '.join(held)}")
        for node in self._nodes.items():
            self._lane(node.name, "reported").note(at, self._reported(node))
            self._lane(node.name, "true").note(at, self._true(node.name, held))
        self._note_pod(at)

    def _note_pod(self, at: float) -> None:
        """It runs from when it is ready until its volume is not mounted there any more, whatever the API
        says meanwhile: a node that is cut off does not end it."""
        runs_on = self.runs[-1].state if self.runs else ""
        if runs_on and self.true_state(runs_on) == "mounted":
            return
        pod = self._pods.get(f"default/{self.pod}")
        node = pod.spec.node_name if pod is not None and _is_ready(pod) else ""
        node = node if self.true_state(node) == "mounted" else ""
        if node != runs_on:
            self.runs.append(Change(at, node))

    def _lane(self, node: str, kind: str) -> Lane:
        return self.lanes.setdefault((node, kind), Lane(node, kind))

    def _reported(self, node: Node) -> str:
        record = self.record(node.name)
        state = ""
        if record is not None:
            in_use = any(
                name.endswith((f"/{self.disk}", f"^{self.disk}")) for name in node.status.volumes_in_use
            )
            if record.deleting or DETACHING in record.metadata.annotations:
                state = "detaching"
            elif record.status.attached:
                state = "attached, in use" if in_use else "attached"
            else:
                state = "attaching"
        return f"{state}; node silent".lstrip("; ") if node.ready == "Unknown" else state

    def _true(self, node: str, held: tuple[str, ...]) -> str:
        table = self._mounts(node)
        if table is None:
            return "no power, attached" if node in held else "no power"
        if node not in held:
            return ""
        return "mounted" if self._mounted(node, table) else "attached"

    def _mounted(self, node: str, table: tuple[Mount, ...]) -> bool:
        try:
            return any(self._truth.is_of(mount, self.disk, node) for mount in table)
        except OSError:
            return False  # the device has just been detached
