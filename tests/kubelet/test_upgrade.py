"""A cluster goes to this version from an older one, and back, while its volumes move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubelet.lab import previous
from tests.kubelet.lab.cluster import CSI_DRIVER, Cluster
from tests.kubelet.lab.moving import Move, moving

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]
COUNT = 12
LEASE = "mooring-attachdetach"
LOCK = "mooring.dev/attached-to"
UNREFUSING = {"mooring.dev/refuses-second-attach": "false"}


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return previous.build(tmp_path_factory.mktemp("previous"))
    except previous.NotThere as reason:
        pytest.skip(str(reason))


@pytest.fixture
def move(lab: Cluster, older: Path, tmp_path: Path) -> Iterator[Move]:
    """All parts are of the older version, and the volumes are under the lock."""
    declared = {**CSI_DRIVER, "metadata": {**CSI_DRIVER["metadata"], "annotations": UNREFUSING}}
    lab.control.apply(declared)
    lab.parts.change_version(older, lab.nodes.values())
    try:
        with moving(lab, tmp_path, COUNT) as made:
            yield made
    finally:
        lab.parts.change_version(None, lab.nodes.values())
        lab.control.apply(CSI_DRIVER)


def test_no_lease_no_lock_and_no_mark_is_lost_from_one_version_to_the_other_and_back(
    lab: Cluster, move: Move, older: Path
):
    granted = _locks(lab)
    assert len(granted) == COUNT
    _moves_under(lab, move, None, "node-1", "node-2")
    upgraded = _locks(lab)
    _moves_under(lab, move, older, "node-2", "node-1")
    back = _locks(lab)
    for volume, (epoch, node) in granted.items():
        assert node == "node-1"
        assert upgraded[volume][1] == "node-2"
        assert back[volume][1] == "node-1"
        # A leader that ends between the lock's swap and the VolumeAttachment leaves a grant without one.
        assert upgraded[volume][0] - epoch in (1, 2), lab.parts.said_of(volume)
        assert back[volume][0] - upgraded[volume][0] in (1, 2), lab.parts.said_of(volume)


def _moves_under(lab: Cluster, move: Move, version: Path | None, away_from: str, to: str) -> None:
    """The volumes move, and in the middle all parts go over to the version: the lease goes from hand to hand
    without running out, and no volume stays marked."""
    before = _lease(lab)
    move.begin(away_from=away_from, to=to)
    move.half_way(to)
    lab.parts.change_version(version, lab.nodes.values())
    move.until_all_run(to)
    after = _lease(lab)
    assert after["holderIdentity"] not in ("", before["holderIdentity"])
    assert after["leaseTransitions"] > before["leaseTransitions"]
    assert _marked(lab) == []


def _lease(lab: Cluster) -> dict[str, Any]:
    return json.loads(lab.control.kubectl("get", "lease", "-n", "kube-system", LEASE, "-o", "json"))["spec"]


def _locks(lab: Cluster) -> dict[str, tuple[int, str]]:
    """Volume -> epoch and node of its lock."""
    found = {}
    for volume in lab.control.get("pv")["items"]:
        lock = json.loads(volume["metadata"]["annotations"][LOCK])
        found[volume["metadata"]["name"]] = (lock["epoch"], lock["node"])
    return found


def _marked(lab: Cluster) -> list[str]:
    """The VolumeAttachments that still bear the mark of a detach, and volumes that are closed to a node."""
    records = lab.control.get("volumeattachments")["items"]
    marked = [each["metadata"]["name"] for each in records if "mooring.dev/detaching" in _annotations(each)]
    volumes = lab.control.get("pv")["items"]
    return marked + [
        each["metadata"]["name"] for each in volumes if "closed" in _annotations(each).get(LOCK, "")
    ]


def _annotations(each: dict[str, Any]) -> dict[str, str]:
    return each["metadata"].get("annotations", {})
