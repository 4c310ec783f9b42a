"""A real kubelet is killed, its pod is removed by force, or its node is lost: the volume moves when it
is safe, and not before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubelet.lab.cluster import CSI_DRIVER, Cluster
from tests.kubelet.lab.node import Node
from tests.kubelet.objects import recorder

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(900)]
LOG = "/data/log"
AFTER_S = 360 if os.environ.get("MOORING_SOAK") else 15


class Recorder:
    """A StatefulSet's pod that writes; `pod` is as it was first."""

    def __init__(self, lab: Cluster, name: str) -> None:
        self.lab, self.name = lab, f"{name}-0"
        lab.control.apply(recorder(name))
        self.pod = lab.until_running(self.name)
        self.node: Node = lab.node_of(self.pod)
        self.uid = self.pod["metadata"]["uid"]

    def records(self) -> list[str]:
        return self.lab.read(self.name, LOG)

    def written(self) -> list[str]:
        """What is on the disk, as the first pod's node sees it."""
        volumes = f"/var/lib/kubelet/pods/{self.uid}/volumes/kubernetes.io~csi"
        return self.node.run("sh", "-c", f"cat {volumes}/*/mount/log").splitlines()

    def writes_on(self) -> list[str]:
        """Waits until it has written more; all of it."""
        before = len(self.written())
        self.lab.until("it writes on", lambda: len(self.written()) > before + 1)
        return self.written()

    def moved(self) -> dict[str, Any]:
        return self.lab.until_running(self.name, not_uid=self.uid)

    def waiting(self) -> dict[str, Any] | None:
        """Its successor, which is not ready."""
        found = self.lab.control.find("pod", self.name)
        return found if found is not None and found["metadata"]["uid"] != self.uid else None


@pytest.fixture
def story(lab: Cluster, request: pytest.FixtureRequest) -> Iterator[Recorder]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
    playing = Recorder(lab, name)
    try:
        yield playing
    finally:
        lab.control.kubectl("delete", "statefulset", name, "--wait=false")
        lab.control.kubectl("delete", "pod", playing.name, "--ignore-not-found")
        lab.control.kubectl("delete", "pvc", f"data-{playing.name}")
        lab.control.kubectl("uncordon", playing.node.name)


@pytest.fixture
def timer(lab: Cluster) -> Iterator[None]:
    """The attach/detach controller has one of `AFTER_S`, and the driver is declared to revoke."""
    revoking = {"mooring.dev/detach-revokes-access": "true"}
    lab.parts.stop("attachdetach")
    lab.parts.start_attach_detach("attachdetach", f"--force-detach-after={AFTER_S}s")
    lab.control.apply({**CSI_DRIVER, "metadata": {**CSI_DRIVER["metadata"], "annotations": revoking}})
    yield
    lab.control.apply(CSI_DRIVER)
    lab.parts.stop("attachdetach")
    lab.parts.start_attach_detach()


def test_a_kubelet_that_is_killed_finds_its_volume_and_the_container_writes_on(lab: Cluster, story: Recorder):
    container = story.pod["status"]["containerStatuses"][0]["containerID"]
    before = story.node.log().count("Starting kubelet")
    story.node.kill_kubelet()
    story.writes_on()
    lab.until("the kubelet is back", lambda: story.node.log().count("Starting kubelet") > before)
    story.writes_on()
    now = lab.control.get("pod", story.name)
    assert now["metadata"]["uid"] == story.uid
    assert now["status"]["containerStatuses"][0]["containerID"] == container
    assert story.node.name in lab.attachments().values()


def test_removed_by_force_it_keeps_its_volume_while_it_writes(lab: Cluster, story: Recorder):
    lab.control.kubectl("cordon", story.node.name)
    story.node.stop_kubelet()
    lab.control.kubectl("delete", "pod", story.name, "--force", "--grace-period=0")
    successor = lab.until(
        "its successor is placed", lambda: (story.waiting() or {}).get("spec", {}).get("nodeName")
    )
    assert successor != story.node.name
    for _ in range(3):
        before = story.writes_on()
        assert set(lab.attachments().values()) == {story.node.name}
    why = lab.until("it is said why", lambda: _says(lab, story, "MultiAttach", "VolumeInUse"))
    assert story.node.name in why
    story.node.start_kubelet()
    story.moved()
    assert story.records()[: len(before)] == before


def test_a_node_that_has_lost_its_power_gives_up_its_volume_once_a_person_says_so(
    lab: Cluster, story: Recorder
):
    before = story.writes_on()
    lab.parts.stop_on(story.node)
    story.node.lose_power()
    lab.until("it is noticed", lambda: lab.ready(story.node.name) == "Unknown")
    assert set(lab.attachments().values()) == {story.node.name}
    lab.parts.command("node", "confirm-dead", story.node.name)
    moved = story.moved()
    assert moved["spec"]["nodeName"] != story.node.name
    assert story.records()[: len(before)] == before
    lab.start(story.node)
    lab.control.kubectl("taint", "node", story.node.name, "node.kubernetes.io/out-of-service-")


def test_a_node_that_has_lost_its_power_gives_up_its_volume_by_a_timer_where_the_storage_revokes(
    lab: Cluster, story: Recorder, timer: None
):
    before = story.writes_on()
    lab.parts.stop_on(story.node)
    story.node.lose_power()
    lab.until("it is noticed", lambda: lab.ready(story.node.name) == "Unknown")
    lab.control.kubectl("delete", "pod", story.name, "--force", "--grace-period=0")
    moved = lab.until_running(story.name, not_uid=story.uid, seconds=90 + AFTER_S)
    assert moved["spec"]["nodeName"] != story.node.name
    assert story.records()[: len(before)] == before
    events = lab.control.kubectl("get", "events", "--field-selector=reason=ForcedDetach", "-o", "yaml")
    assert f"involvedObject:\n    apiVersion: v1\n    kind: Node\n    name: {story.node.name}" in events
    lab.start(story.node)


def _says(lab: Cluster, story: Recorder, *codes: str) -> str:
    said = lab.parts.why(f"pod/{story.name}")
    return said if any(code in said for code in codes) else ""
