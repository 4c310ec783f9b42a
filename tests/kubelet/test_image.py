"""The image of `deploy/image`, installed by `mooring install`, as the cluster's attach/detach controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubelet.lab import our_image
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.lab.upstream import Upstream
from tests.kubelet.objects import recorder

from mooring.install.components import Settings, objects

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
LEASE = "mooring-attachdetach"
ITS_PROCESS = "[c]ontrollers=attachdetach"
LABEL = "app.kubernetes.io/name=mooring-attach-detach"


@pytest.fixture(scope="module")
def deployed(lab: Cluster, archive: Path) -> Iterator[Cluster]:
    """With the Deployment in place of the process."""
    for node in lab.nodes.values():
        node.import_image(archive)
    lab.parts.stop("attachdetach")
    manifests = yaml.safe_dump_all(objects(["attach-detach"], Settings(our_image.NAME)))
    lab.control.kubectl("apply", "-f", "-", given=manifests)
    lab.until("both candidates run", lambda: len(_running(lab)) == 2)
    yield lab
    lab.control.kubectl(
        "apply", "-f", "-", given=manifests
    )  # the rights of the process, where a story took them
    lab.control.kubectl("delete", "deployment", "mooring-attach-detach", "-n", "kube-system")
    lab.until("its pods are gone", lambda: not _pods(lab))
    lab.parts.start_attach_detach()


def _pods(lab: Cluster) -> list[dict[str, Any]]:
    found = lab.control.kubectl("get", "pods", "-n", "kube-system", "-l", LABEL, "-o", "json")
    return json.loads(found)["items"]


def _running(lab: Cluster) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in _pods(lab)
        if "deletionTimestamp" not in each["metadata"]
        and all(said["ready"] for said in each["status"].get("containerStatuses", [{"ready": False}]))
    ]


def _leader(lab: Cluster) -> str:
    """The pod that holds the Lease; empty if none does."""
    found = lab.control.kubectl(
        "get", "lease", LEASE, "-n", "kube-system", "-o", "json", "--ignore-not-found"
    )
    holder = json.loads(found)["spec"].get("holderIdentity", "") if found else ""
    return next((each for each in _running(lab) if each in holder), "")


def _marks(lab: Cluster) -> list[str]:
    listed = lab.control.kubectl("get", "pv,pvc,volumeattachments,nodes,pods", "-A", "-o", "json")
    return [
        f"{each['kind']} {each['metadata']['name']}: {key}"
        for each in json.loads(listed)["items"]
        for key in (each["metadata"].get("annotations") or {})
        if "mooring.dev/" in key and key != "volume.kubernetes.io/storage-provisioner"
    ]


def test_its_pods_have_no_rights_on_their_nodes(deployed: Cluster):
    pod = next(each for each in _pods(deployed) if each["metadata"]["name"] == _running(deployed)[0])
    node = deployed.node_of(pod)
    process = node.run("pgrep", "-f", ITS_PROCESS).split()[0]
    status = dict(
        line.split(":", 1) for line in node.run("cat", f"/proc/{process}/status").splitlines() if ":" in line
    )
    assert status["Uid"].split() == ["65532"] * 4
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    mounts = node.run("cat", f"/proc/{process}/mounts").splitlines()
    (root,) = [line for line in mounts if line.split()[1] == "/"]
    assert "ro" in root.split()[3].split(",")
    assert (
        node.run("sh", "-c", f"ls /proc/{process}/root/bin/sh /proc/{process}/root/usr/bin/apt; true") == ""
    )


def test_a_volume_moves_and_moves_on_when_the_leader_is_killed(deployed: Cluster):
    lab = deployed
    lab.control.apply(recorder("with-image"))
    pod = lab.until_running("with-image-0")
    before = lab.until("it has written", lambda: lab.read("with-image-0", "/data/log"))
    leader = lab.until("one leads", lambda: _leader(lab))
    on = next(each["spec"]["nodeName"] for each in _pods(lab) if each["metadata"]["name"] == leader)
    lab.nodes[on].run("sh", "-c", f"kill -9 $(pgrep -f {ITS_PROCESS!r})")
    lab.control.kubectl("cordon", pod["spec"]["nodeName"])
    lab.control.kubectl("delete", "pod", "with-image-0", "--wait=false")
    moved = lab.until_running("with-image-0", not_uid=pod["metadata"]["uid"])
    lab.control.kubectl("uncordon", pod["spec"]["nodeName"])
    assert moved["spec"]["nodeName"] != pod["spec"]["nodeName"]
    assert lab.read("with-image-0", "/data/log")[: len(before)] == before
    assert list(lab.attachments().values()) == [moved["spec"]["nodeName"]]
    lab.control.kubectl("delete", "statefulset", "with-image")
    lab.control.kubectl("delete", "pvc", "data-with-image-0")
    lab.until("its volume is gone", lambda: not lab.control.get("pv")["items"])


def test_metrics_and_health_are_asked_for_by_the_clusters_own(deployed: Cluster):
    (name, *_) = _running(deployed)
    path = f"/api/v1/namespaces/kube-system/pods/{name}:10270/proxy/metrics"
    assert "mooring_" in deployed.control.kubectl("get", "--raw", path)


def test_uninstalled_it_leaves_a_volume_attached_and_no_mark_on_it(deployed: Cluster):
    lab = deployed
    lab.control.apply(recorder("stays"))
    pod = lab.until_running("stays-0")
    assert _marks(lab)
    said = lab.parts.command("uninstall", "--confirm")
    assert "deployments/mooring-attach-detach deleted" in said
    assert _pods(lab) == []
    names = lab.control.kubectl("get", "clusterroles,serviceaccounts,leases", "-A", "-o", "name")
    assert "mooring-attach" not in names
    assert _marks(lab) == []
    assert list(lab.attachments().values()) == [pod["spec"]["nodeName"]]
    written = len(lab.read("stays-0", "/data/log"))
    lab.until("it writes on", lambda: len(lab.read("stays-0", "/data/log")) > written)
    assert isinstance(lab.control, Upstream)
    with lab.control.attach_detach():
        lab.control.kubectl("delete", "statefulset", "stays")
        lab.control.kubectl("delete", "pod", "stays-0", "--ignore-not-found")
        lab.until("upstream's controller detaches it", lambda: not lab.attachments())
    lab.control.kubectl("delete", "pvc", "data-stays-0")
    lab.until("its volume is gone", lambda: not lab.control.get("pv")["items"])
