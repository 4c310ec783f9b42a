"""`deploy/ebs-driver` with the image, as `mooring install` prints it, on real kubelets that are instances of
`mooring cloud`: its controller and node service are pods, with the rights that the manifests give them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubelet.lab import our_image
from tests.kubelet.lab.cloud import ENDPOINT, IN_NODE, Cloud, cloud
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.objects import claim, of_claim, pod, recorder
from tests.real.server import process

from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.install.components import PART_OF, Settings, objects

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]
DRIVER, LOG = "ebs.csi.aws.com", "/data/log"
CLASSES: list[dict[str, Any]] = [
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "ebs"},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    },
    {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "ebs"},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    },
]


def on_this_cloud(each: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """An object of the driver's, where EC2 is elsewhere and an instance's devices are in a folder. The lab's
    own driver has the same accounts, which `mooring uninstall` must leave it."""
    del each["metadata"]["labels"][PART_OF]
    if each["kind"] == "Deployment":
        names = ("AWS_ENDPOINT_URL_EC2", "AWS_REGION")
        told = {**given, "AWS_ENDPOINT_URL_EC2": ENDPOINT}
        container = each["spec"]["template"]["spec"]["containers"][0]
        container["env"] += [{"name": name, "value": told[name]} for name in names]
    if each["kind"] == "DaemonSet":
        spec = each["spec"]["template"]["spec"]
        container = spec["containers"][0]
        container["args"].append("--device-dir=/instance")
        container["volumeMounts"].append({"name": "instance", "mountPath": "/instance"})
        spec["volumes"].append({"name": "instance", "hostPath": {"path": IN_NODE, "type": "Directory"}})
    return each


@pytest.fixture(scope="module")
def ec2(lab: Cluster, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """With the driver at work on both nodes."""
    for node in lab.nodes.values():
        node.import_image(archive)
    folder = tmp_path_factory.mktemp("cloud")
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kinds = [{**head, **each} for each in DEFINITIONS]
    with cloud(folder / "data", list(lab.nodes.values())) as running:
        given = running.environment()
        keys = {"key_id": given["AWS_ACCESS_KEY_ID"], "access_key": given["AWS_SECRET_ACCESS_KEY"]}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws-secret", "namespace": "kube-system"},
                  "stringData": keys}  # fmt: skip
        lab.control.apply(*kinds, secret)
        driver = objects(["ebs-driver-with-snapshots"], Settings(our_image.NAME))
        made = [on_this_cloud(each, given) for each in driver]
        lab.control.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", given=yaml.safe_dump_all(made)
        )
        lab.control.apply(*CLASSES)
        snapshots = [
            "--kubeconfig",
            str(lab.control.kubeconfig),
            "--feature-gates=CSIVolumeGroupSnapshot=false",
        ]
        with process(
            [str(lab.programs / "snapshot-controller"), *snapshots], folder / "snapshot-controller.log"
        ):
            lab.until("both kubelets know the driver", lambda: all(knows(lab, name) for name in lab.nodes))
            yield running
        for kind in ("deployment/ebs-csi-controller", "daemonset/ebs-csi-node"):
            lab.control.kubectl("delete", kind, "-n", "kube-system")
        lab.control.kubectl("delete", "csidriver", DRIVER)


def knows(lab: Cluster, node: str) -> bool:
    found = lab.control.find("csinode", node) or {}
    return any(each["name"] == DRIVER for each in found.get("spec", {}).get("drivers") or ())


@pytest.fixture
def story(lab: Cluster, ec2: Cloud) -> Iterator[str]:
    """A StatefulSet's pod that writes to an EBS volume of one GiB."""
    made = recorder("on-ebs")
    (template,) = made["spec"]["volumeClaimTemplates"]
    template["spec"] |= {"storageClassName": "ebs", "resources": {"requests": {"storage": "1Gi"}}}
    lab.control.apply(made)
    lab.until_running("on-ebs-0")
    yield "on-ebs-0"
    lab.control.kubectl("delete", "statefulset", "on-ebs")
    lab.control.kubectl("delete", "pod", "on-ebs-0", "restored", "--ignore-not-found")
    lab.control.kubectl("delete", "pvc", "--all")
    lab.until("all volumes are gone", lambda: not lab.control.get("pv")["items"])
    assert ec2.attached() == {}


def instance_of(lab: Cluster, node: str) -> str:
    """As the node service has told the kubelet."""
    (found,) = [
        each for each in lab.control.get("csinode", node)["spec"]["drivers"] if each["name"] == DRIVER
    ]
    return found["nodeID"]


def test_a_volume_of_ec2_grows_moves_and_is_restored_from_a_snapshot(lab: Cluster, ec2: Cloud, story: str):
    before = lab.until_running(story)
    node = before["spec"]["nodeName"]
    records = lab.until("it has written", lambda: lab.read(story, LOG))
    assert list(ec2.attached().values()) == [instance_of(lab, node)]

    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    lab.control.kubectl("patch", "pvc", f"data-{story}", "-p", json.dumps(patch))
    lab.until("its disk has grown", lambda: capacity(lab) == "2Gi")

    lab.control.kubectl(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector", "app=on-ebs"
    )
    moved = lab.until_running(story, not_uid=before["metadata"]["uid"])
    lab.control.kubectl("uncordon", node)
    assert moved["spec"]["nodeName"] != node
    assert lab.read(story, LOG)[: len(records)] == records
    assert list(ec2.attached().values()) == [instance_of(lab, moved["spec"]["nodeName"])]

    lab.until("its file system has grown", lambda: kib(lab, story) > 1.5 * 2**20)

    snapshot = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "kept"},
        "spec": {
            "volumeSnapshotClassName": "ebs",
            "source": {"persistentVolumeClaimName": f"data-{story}"},
        },
    }
    kept = lab.read(story, LOG)
    lab.control.apply(snapshot)
    lab.until("the snapshot is ready", lambda: ready_to_use(lab, "kept"), 120)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "kept"}
    lab.control.apply(
        claim("restored", size="2Gi", storageClassName="ebs", dataSource=source),
        pod("restored", "cat /data/log; sleep 1000", of_claim("restored")),
    )
    lab.until_running("restored")
    assert lab.read("restored", LOG)[: len(kept)] == kept
    lab.control.kubectl("delete", "volumesnapshot", "kept")


def capacity(lab: Cluster) -> str:
    (volume,) = lab.control.get("pv")["items"]
    return volume["spec"]["capacity"]["storage"]


def kib(lab: Cluster, name: str) -> float:
    """The size of its file system, which grows at the latest when its next pod mounts it."""
    said = lab.output(name, "stat", "-f", "-c", "%b %S", "/data").split()
    return int(said[0]) * int(said[1]) / 1024 if len(said) == 2 else 0


def ready_to_use(lab: Cluster, name: str) -> bool:
    return bool((lab.control.find("volumesnapshot", name) or {}).get("status", {}).get("readyToUse"))
