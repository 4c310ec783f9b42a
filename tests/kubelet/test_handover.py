"""While many volumes move from one real kubelet to another, the controller that moves them changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.lab.upstream import Upstream
from tests.kubelet.objects import recorder
from tests.real.server import process

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
COUNT = 12
LEASE = "mooring-attachdetach"


class Move:
    """`COUNT` pods, all on node-1, that are to go to node-2."""

    def __init__(self, lab: Cluster, name: str) -> None:
        self.lab, self._name = lab, name
        lab.control.kubectl("cordon", "node-2")
        lab.control.apply(recorder(name, COUNT))
        self.until_all_run("node-1")
        lab.control.kubectl("uncordon", "node-2")

    def begin(self) -> None:
        self.lab.control.kubectl("cordon", "node-1")
        self.lab.control.kubectl("delete", "pods", "-l", f"app={self._name}", "--wait=false")

    def half_way(self) -> None:
        """Waits until some have moved, and some have not."""
        self.lab.until("some are attached to node-2", lambda: self._on("node-2") > 0)
        assert self._on("node-2") < COUNT

    def _on(self, node: str) -> int:
        return list(self.lab.attachments().values()).count(node)

    def until_all_run(self, node: str) -> None:
        self.lab.until(f"all run on {node}", lambda: self._running(node) == COUNT, 150)
        assert self._on(node) == COUNT

    def _running(self, node: str) -> int:
        pods = json.loads(self.lab.control.kubectl("get", "pods", "-l", f"app={self._name}", "-o", "json"))[
            "items"
        ]
        return sum(each["spec"].get("nodeName") == node and _ready(each) for each in pods)

    def end(self) -> None:
        lab = self.lab
        lab.control.kubectl("uncordon", "node-1")
        lab.control.kubectl("delete", "statefulset", self._name)
        lab.control.kubectl("delete", "pods", "-l", f"app={self._name}")
        lab.control.kubectl("delete", "pvc", "--all")
        lab.until("all volumes are gone", lambda: not lab.control.get("pv")["items"])


def _ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@pytest.fixture
def move(lab: Cluster, tmp_path: Path) -> Iterator[Move]:
    made = Move(lab, "many")
    with _attachments_watched(lab, tmp_path / "seen") as seen:
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


def test_the_leader_is_killed_and_the_other_candidate_goes_on(lab: Cluster, move: Move):
    lab.parts.start_attach_detach("second")
    move.begin()
    move.half_way()
    lab.parts.kill("attachdetach")
    move.until_all_run("node-2")
    lab.parts.stop("second")
    lab.parts.start_attach_detach()


def test_upstreams_controller_takes_over_and_gives_back(lab: Cluster, move: Move):
    assert isinstance(lab.control, Upstream)
    move.begin()
    move.half_way()
    lab.parts.stop("attachdetach")
    with lab.control.attach_detach():
        move.until_all_run("node-2")
        lab.control.kubectl("uncordon", "node-1")
        lab.control.kubectl("cordon", "node-2")
        lab.control.kubectl("delete", "pods", "-l", "app=many", "--wait=false")
        lab.until("some are back", lambda: "node-1" in lab.attachments().values())
    lab.parts.start_attach_detach()
    move.until_all_run("node-1")
    lab.control.kubectl("uncordon", "node-2")
