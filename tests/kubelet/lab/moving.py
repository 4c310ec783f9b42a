"""Pods that all move from one real kubelet to another; every change of a VolumeAttachment is written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.objects import recorder
from tests.real.server import process


class Move:
    """`count` pods, all on node-1, that are to go to node-2."""

    def __init__(self, lab: Cluster, name: str, count: int) -> None:
        self.lab, self._name, self._count = lab, name, count
        lab.control.kubectl("cordon", "node-2")
        lab.control.apply(recorder(name, count))
        self.until_all_run("node-1")

    def begin(self, *, away_from: str = "node-1", to: str = "node-2") -> None:
        """The first half of them is to go."""
        control = self.lab.control
        control.kubectl("uncordon", to)
        control.kubectl("cordon", away_from)
        self._delete(range(self._count // 2))

    def half_way(self, to: str = "node-2") -> None:
        """Waits until some have moved, and has the others go: they are on their way then."""
        self.lab.until(f"some are attached to {to}", lambda: self._on(to) > 0)
        assert self._on(to) < self._count
        self._delete(range(self._count // 2, self._count))

    def _delete(self, ordinals: range) -> None:
        pods = [f"{self._name}-{ordinal}" for ordinal in ordinals]
        self.lab.control.kubectl("delete", "pods", *pods, "--wait=false")

    def _on(self, node: str) -> int:
        return list(self.lab.attachments().values()).count(node)

    def until_all_run(self, node: str) -> None:
        self.lab.until(
            f"all run on {node}", lambda: self._running(node) == self._count, 150 + 4 * self._count
        )
        assert self._on(node) == self._count

    def _running(self, node: str) -> int:
        pods = json.loads(self.lab.control.kubectl("get", "pods", "-l", f"app={self._name}", "-o", "json"))[
            "items"
        ]
        return sum(each["spec"].get("nodeName") == node and _ready(each) for each in pods)

    def end(self) -> None:
        lab = self.lab
        for node in lab.nodes:
            lab.control.kubectl("uncordon", node)
        lab.control.kubectl("delete", "statefulset", self._name)
        lab.control.kubectl("delete", "pods", "-l", f"app={self._name}")
        lab.control.kubectl("delete", "pvc", "-l", f"app={self._name}")
        lab.until("all volumes are gone", lambda: not lab.control.get("pv")["items"])


def _ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@contextmanager
def moving(lab: Cluster, folder: Path, count: int) -> Iterator[Move]:
    """The pods run on node-1. At the end no volume was attached twice at any time, and nothing is left."""
    made = Move(lab, "many", count)
    with _attachments_watched(lab, folder / "seen") as seen:
        yield made
        assert _attached_twice(seen.read_text()) == []
    made.end()


@contextmanager
def _attachments_watched(lab: Cluster, seen: Path) -> Iterator[Path]:
    """Writes down every change of a VolumeAttachment."""
    words = ("get", "volumeattachments", "--watch", "--output-watch-events", "-o", "json")
    with process(lab.control.command(*words), seen):
        yield seen


def _attached_twice(changes: str) -> list[str]:
    """The volumes that were attached to two nodes at once."""
    decoder, at, held, found = json.JSONDecoder(), 0, dict[str, set[str]](), list[str]()
    while (begin := changes.find("{", at)) >= 0:
        try:
            change, at = decoder.raw_decode(changes, begin)
        except ValueError:
            break  # the last one, cut off
        spec = change["object"]["spec"]
        nodes = held.setdefault(spec["source"]["persistentVolumeName"], set())
        attached = change["object"].get("status", {}).get("attached") and change["type"] != "DELETED"
        (nodes.add if attached else nodes.discard)(spec["nodeName"])
        if len(nodes) > 1:
            found.append(f"{spec['source']['persistentVolumeName']}: {sorted(nodes)}")
    assert held, "nothing was seen"
    return found
