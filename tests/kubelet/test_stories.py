"""Volumes of pods on real kubelets: Mooring attaches, provisions and mounts; the kubelets are upstream's."""

from __future__ import annotations

import pytest
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.objects import recorder

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


def test_a_claim_is_bound_mounted_drained_and_comes_back_with_every_record(lab: Cluster):
    lab.control.apply(recorder("drained"))
    pod = lab.until_running("drained-0")
    for _ in range(2):
        before = lab.until("it has written", lambda: lab.read("drained-0", "/data/log"))
        node = pod["spec"]["nodeName"]
        lab.control.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
        pod = lab.until_running("drained-0", not_uid=pod["metadata"]["uid"])
        assert pod["spec"]["nodeName"] != node
        assert lab.read("drained-0", "/data/log")[: len(before)] == before
        lab.control.kubectl("uncordon", node)
    assert list(lab.attachments().values()) == [pod["spec"]["nodeName"]]
    lab.control.kubectl("delete", "statefulset", "drained")
    lab.control.kubectl("delete", "pod", "drained-0", "--ignore-not-found")
    lab.control.kubectl("delete", "pvc", "data-drained-0")
    lab.until("its volume is gone", lambda: not lab.control.get("pv")["items"])
