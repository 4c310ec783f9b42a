"""What pods ask of volumes beyond a plain directory, on real kubelets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.objects import DATA, claim, of_claim, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(200)]
FOREVER = "; sleep infinity"
Apply = Callable[..., None]


@pytest.fixture
def apply(lab: Cluster) -> Iterator[Apply]:
    """Applies objects that are deleted at the end, pods first."""
    made: list[tuple[str, str]] = []

    def applied(*objects: dict[str, Any]) -> None:
        made.extend((each["kind"], each["metadata"]["name"]) for each in objects)
        lab.control.apply(*objects)

    yield applied
    for kind, name in sorted(made, key=lambda each: each[0] != "Pod"):
        lab.control.kubectl("delete", kind, name, "--ignore-not-found")


def test_a_raw_block_volume_is_a_device_in_the_pod(lab: Cluster, apply: Apply):
    devices = {"volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]}
    script = "echo kept | dd of=/dev/data conv=sync 2>/dev/null; sync" + FOREVER
    apply(claim("raw", volumeMode="Block"), pod("raw", script, of_claim("raw"), container=devices))
    lab.until_running("raw")
    lab.until("it is written", lambda: lab.output("raw", "dd", "if=/dev/data", "bs=4", "count=1") == "kept")
    assert lab.output("raw", "blockdev", "--getsize64", "/dev/data").strip() == str(64 << 20)


def test_a_claim_for_one_pod_alone_keeps_a_second_pod_waiting(lab: Cluster, apply: Apply):
    apply(claim("one-pod", modes=("ReadWriteOncePod",)), pod("first", "true" + FOREVER, of_claim("one-pod")))
    lab.until_running("first")
    apply(pod("second", "true" + FOREVER, of_claim("one-pod")))
    lab.until(
        "the scheduler refuses",
        lambda: "ReadWriteOncePod" in lab.control.kubectl("describe", "pod", "second"),
    )
    lab.control.kubectl("delete", "pod", "first")
    lab.until_running("second")


def test_a_volume_has_the_group_that_its_pod_asks_for_also_in_a_sub_path(lab: Cluster, apply: Apply):
    mounts = {"volumeMounts": [DATA, {"name": "data", "mountPath": "/part", "subPath": "deep/part"}]}
    security = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 4711}
    script = "touch /data/mine /part/mine" + FOREVER
    apply(claim("group"), pod("group", script, of_claim("group"), container=mounts, securityContext=security))
    lab.until_running("group")
    files = "/data/mine", "/part/mine", "/data/deep/part/mine"
    for file in files:
        lab.until(
            f"{file} is there",
            lambda file=file: lab.output("group", "stat", "-c", "%g", file).strip() == "4711",
        )


def test_an_ephemeral_volume_comes_and_goes_with_its_pod(lab: Cluster, apply: Apply):
    template = {"spec": claim("unnamed")["spec"]}
    apply(
        pod(
            "brief",
            "echo hello > /data/it" + FOREVER,
            {"name": "data", "ephemeral": {"volumeClaimTemplate": template}},
        )
    )
    lab.until_running("brief")
    volume = lab.control.get("pvc", "brief-data")["spec"]["volumeName"]
    assert lab.control.find("pv", volume)
    lab.control.kubectl("delete", "pod", "brief")
    lab.until("its volume is deleted", lambda: lab.control.find("pv", volume) is None)
    assert volume not in lab.attachments()


def test_a_volume_grows_at_the_latest_when_its_next_pod_mounts_it(lab: Cluster, apply: Apply):
    """No mounted ext4 grows without CAP_SYS_RESOURCE: the driver says so, and the kubelet waits."""
    user = pod("grows", "true" + FOREVER, of_claim("grows"))
    apply(claim("grows"), user)
    lab.until_running("grows")
    before = _blocks(lab)
    _ask(lab, "grows", "128Mi")
    lab.until("the storage has grown it", lambda: _capacity(lab, "pv", "spec") == "128Mi")
    lab.control.kubectl("delete", "pod", "grows")
    apply(user)
    lab.until_running("grows")
    lab.until("the claim says so", lambda: _capacity(lab, "pvc", "status") == "128Mi")
    assert _blocks(lab) > before * 1.8
    status = lab.control.get("pvc", "grows")["status"]
    assert not status.get("conditions") and not status.get("allocatedResourceStatuses"), status


def test_a_claim_that_asks_for_what_no_disk_can_have_is_told_and_may_ask_for_less(lab: Cluster, apply: Apply):
    apply(claim("greedy"), pod("greedy", "true" + FOREVER, of_claim("greedy")))
    lab.until_running("greedy")
    _ask(lab, "greedy", "100Ti")

    def status() -> dict[str, Any]:
        return lab.control.get("pvc", "greedy")["status"]

    infeasible = {"storage": "ControllerResizeInfeasible"}
    lab.until("it is told", lambda: status().get("allocatedResourceStatuses") == infeasible)
    assert "ask for less" in lab.parts.why("pvc/greedy")
    _ask(lab, "greedy", "96Mi")
    lab.until("the storage has grown it", lambda: status().get("allocatedResources") == {"storage": "96Mi"})
    lab.until(
        "the node is asked", lambda: status()["allocatedResourceStatuses"]["storage"].startswith("Node")
    )


def _ask(lab: Cluster, name: str, size: str) -> None:
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    lab.control.kubectl("patch", "pvc", name, "-p", json.dumps(patch))


def _capacity(lab: Cluster, kind: str, part: str) -> str:
    name = "grows" if kind == "pvc" else lab.control.get("pvc", "grows")["spec"]["volumeName"]
    return lab.control.get(kind, name)[part]["capacity"]["storage"]


def _blocks(lab: Cluster) -> int:
    return int(lab.output("grows", "stat", "-f", "-c", "%b", "/data"))
