"""A cluster in this process: what a test does to it, and what happens then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.testing import Options, PlayedCluster, in_process
from mooring.testing.logs import routed

PAGE = Path(__file__).parents[2] / "docs/csi-driver-tutorial.md"
DRIVER = "folder.example.com"


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "command": ["run"]}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(**spec: Any) -> dict[str, Any]:
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": size, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}


@pytest.fixture
def cluster() -> Iterator[PlayedCluster]:
    with routed(), in_process(Options(node_monitor_grace_period=2)) as cluster:
        yield cluster


def phase(cluster: PlayedCluster, target: str) -> str:
    found = cluster.get(target)
    return found["status"].get("phase", "") if found else ""


def ready(cluster: PlayedCluster, node: str) -> str:
    found = cluster.get(f"node/{node}")
    assert found is not None
    return next(each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready")


def test_a_claim_of_the_default_class_gets_a_disk_for_its_pod(cluster: PlayedCluster):
    cluster.apply(claim())
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.apply(pod(volumes=[volume]))
    cluster.eventually(lambda: phase(cluster, "pod/web") == "Running")
    assert phase(cluster, "pvc/data") == "Bound"
    assert any(each.startswith("SuccessfulAttachVolume:") for each in cluster.events("pod/web"))


def test_a_pod_runs_with_what_pods_commonly_mount(cluster: PlayedCluster):
    volumes = [{"name": "c", "configMap": {"name": "none"}}, {"name": "e", "emptyDir": {"medium": "Memory"}}]
    cluster.apply(pod(volumes=volumes))
    cluster.eventually(lambda: phase(cluster, "pod/web") == "Running")


def test_a_node_that_is_cut_off_is_unknown_until_it_is_healed(cluster: PlayedCluster):
    cluster.cut("node-1")
    cluster.eventually(lambda: ready(cluster, "node-1") == "Unknown")
    cluster.heal("node-1")
    cluster.eventually(lambda: ready(cluster, "node-1") == "True")


def test_a_node_that_is_killed_comes_back_when_it_is_started(cluster: PlayedCluster):
    cluster.kill("node-2")
    cluster.eventually(lambda: ready(cluster, "node-2") == "Unknown")
    cluster.start("node-2")
    cluster.eventually(lambda: ready(cluster, "node-2") == "True")


def test_an_order_that_makes_no_sense_is_refused(cluster: PlayedCluster):
    with pytest.raises(ValueError, match="there are node-1, node-2"):
        cluster.cut("node-9")
    with pytest.raises(ValueError, match="node-1 is on"):
        cluster.start("node-1")


def test_a_job_ends_when_the_test_says_that_its_pod_does(cluster: PlayedCluster):
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    spec = {"template": template}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": spec})
    running = cluster.eventually(
        lambda: [p for p in cluster.list("pods") if p["status"]["phase"] == "Running"]
    )
    cluster.exit(running[0]["metadata"]["name"])
    cluster.eventually(lambda: (cluster.get("job/once") or {})["status"].get("succeeded") == 1)


def test_a_pod_that_does_not_run_cannot_end(cluster: PlayedCluster):
    with pytest.raises(LookupError, match="default/web"):
        cluster.exit("web")


def test_objects_of_a_kind_that_was_just_defined_are_applied(cluster: PlayedCluster):
    cluster.apply("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: ferry}
spec: {length: 30}
""")
    found = cluster.get("bt/ferry")
    assert found is not None
    assert found["spec"] == {"length": 30}
    cluster.patch("boats/ferry", {"spec": {"length": 31}})
    assert [boat["spec"] for boat in cluster.list("boat")] == [{"length": 31}]
    cluster.delete("boat/ferry")
    cluster.delete("boat/ferry")
    assert cluster.get("boat/ferry") is None


def test_a_kind_that_is_not_there_is_named(cluster: PlayedCluster):
    with pytest.raises(LookupError, match="no kind 'ship'"):
        cluster.get("ship/ferry")


def test_what_is_stuck_is_explained_where_a_condition_asked_for_nothing(cluster: PlayedCluster):
    cluster.apply(pod(nodeSelector={"disk": "fast"}))
    cluster.eventually(lambda: phase(cluster, "pod/web") == "Pending")
    with pytest.raises(AssertionError, match=r"mooring why --all:\n.*pod/default/web"):
        cluster.eventually(lambda: None, within=1)


def test_a_cluster_leaves_nothing_behind():
    with routed(), in_process(Options(nodes=1)) as cluster:
        where = cluster.data_dir
        assert where.is_dir()
    assert not where.exists()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[str]:
    """The driver of the tutorial runs; its address."""
    program = tmp_path / "folder_driver.py"
    program.write_text(PAGE.read_text().split("```python\n")[1].split("```")[0])
    address = f"unix://{tmp_path}/csi.sock"
    words = [sys.executable, str(program), address, "node-1", str(tmp_path / "volumes"), str(tmp_path)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    yield address
    process.terminate()
    process.wait(10)


def test_the_controller_service_of_a_csi_driver_makes_a_volume(driver: str, tmp_path: Path):
    with routed(), in_process(Options(csi={DRIVER: driver})) as cluster:
        apply_folders(cluster)
        cluster.eventually(lambda: phase(cluster, "pvc/data") == "Bound")
    assert len(list((tmp_path / "volumes").glob("*.size"))) == 1


def apply_folders(cluster: PlayedCluster) -> None:
    storage = "storage.k8s.io/v1"
    cluster.apply({"apiVersion": storage, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {}})
    metadata = {"name": "folders"}
    cluster.apply(
        {"apiVersion": storage, "kind": "StorageClass", "metadata": metadata, "provisioner": DRIVER}
    )
    cluster.apply(claim(storageClassName="folders"))


def test_a_fault_strikes_calls_of_a_driver_until_its_context_is_left(driver: str, tmp_path: Path):
    with routed(), in_process(Options(csi={DRIVER: driver})) as cluster:
        with cluster.csi_fault(DRIVER, "CreateVolume", "RESOURCE_EXHAUSTED"):
            apply_folders(cluster)
            cluster.eventually(
                lambda: any("a fault that was asked for" in e for e in cluster.events("pvc/data"))
            )
            assert not list((tmp_path / "volumes").glob("*.size"))
        cluster.eventually(lambda: phase(cluster, "pvc/data") == "Bound")


def test_a_fault_that_cannot_be_says_which_there_are(cluster: PlayedCluster):
    with (
        pytest.raises(ValueError, match="is no method of CSI"),
        cluster.csi_fault("x", "MakeVolume", "UNKNOWN"),
    ):
        pass
    with (
        pytest.raises(ValueError, match="no CSI driver 'x'"),
        cluster.csi_fault("x", "CreateVolume", "UNKNOWN"),
    ):
        pass
