"""Volumes of a former in-tree plugin on a cluster with the cloud and its driver: in-tree-ebs.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.session import get_session
from tests.cluster.scripted import Shell, cluster_and_shell

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]

QUICK = ("creating_s=0", "attaching_s=0", "detaching_s=0")
VOLUME = (
    "kubectl get volumeattachments -o jsonpath='{.items[*].spec.source.inlineVolumeSpec.csi.volumeHandle}'"
)
OF_INLINE = "--field-selector type=Warning,involvedObject.name=inline"
WARNINGS = f"kubectl get events {OF_INLINE} -o jsonpath='{{.items[*].reason}}'"


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with cluster_and_shell("--cloud", *(word for each in QUICK for word in ("--cloud-set", each))) as found:
        yield found


@pytest.fixture(scope="module")
def volume(shell: Shell) -> str:
    """A volume that somebody has made in EC2."""
    return _ec2(shell).create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]


def _ec2(shell: Shell) -> Any:
    lines = shell.run('mooring cloud env --data-dir "$MOORING_DATA_DIR/cloud"')[1].splitlines()
    said = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    return get_session().create_client(
        "ec2",
        region_name=said["AWS_REGION"],
        endpoint_url=said["AWS_ENDPOINT_URL_EC2"],
        aws_access_key_id=said["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=said["AWS_SECRET_ACCESS_KEY"],
    )


def apply(shell: Shell, volume: str, step: str) -> None:
    status, printed = shell.run(
        f"sed s/VOLUME/{volume}/ examples/in-tree-ebs.yaml | kubectl apply -f - -l step={step}"
    )
    assert status == 0, printed


def test_what_a_pod_wrote_by_its_own_volume_a_claim_of_the_old_form_reads(shell: Shell, volume: str):
    apply(shell, volume, "inline")
    shell.until("kubectl wait --for=condition=Ready pod/inline --timeout=1s", "pod/inline condition met")
    assert shell.run(VOLUME)[1] == volume
    assert "FileSystemResizeFailed" not in shell.run(WARNINGS)[1]
    assert shell.run("kubectl delete pod inline")[0] == 0
    apply(shell, volume, "claimed")
    shell.until("kubectl wait --for=condition=Ready pod/claimed --timeout=1s", "pod/claimed condition met")
    shell.until("kubectl exec claimed -- cat /data/stamp", "inline")
    assert shell.run("kubectl delete pod claimed")[0] == 0
    shell.until("kubectl get volumeattachments", "No resources found")


GP2 = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp2}
provisioner: kubernetes.io/aws-ebs
parameters: {type: gp2, fsType: ext4}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
"""


def claim(name: str, volume: str = "") -> str:
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  storageClassName: gp2
  volumeName: "{volume}"
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: any
    command: [sleep, "1000"]
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"""


def applied(shell: Shell, text: str) -> None:
    status, printed = shell.run(f"kubectl apply -f - <<'END'\n{text}\nEND")
    assert status == 0, printed


def test_a_class_of_the_former_provisioner_is_served_by_its_driver(shell: Shell):
    applied(shell, GP2)
    applied(shell, claim("new"))
    shell.until("kubectl wait --for=condition=Ready pod/new --timeout=1s", "pod/new condition met")
    asked = r"kubectl get pvc new -o jsonpath='{.metadata.annotations.volume\.kubernetes\.io/storage-provisioner}'"
    assert shell.run(asked)[1] == "ebs.csi.aws.com"
    made = shell.run("kubectl get pvc new -o jsonpath='{.spec.volumeName}'")[1]
    fields = "{.spec.csi.driver} {.spec.csi.fsType}"
    assert shell.run(f"kubectl get pv {made} -o jsonpath='{fields}'")[1] == "ebs.csi.aws.com ext4"
    assert shell.run("kubectl delete pod/new pvc/new")[0] == 0
    shell.until(f"kubectl get pv {made} -o name --ignore-not-found | wc -l", "0")


OLD = """
apiVersion: v1
kind: PersistentVolume
metadata:
  name: former
  annotations: {pv.kubernetes.io/provisioned-by: kubernetes.io/aws-ebs}
spec:
  storageClassName: gp2
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Delete
  claimRef: {namespace: default, name: former}
  awsElasticBlockStore: {volumeID: "aws://us-east-1a/VOLUME", fsType: ext4}
"""


def test_a_volume_that_the_former_provisioner_had_made_grows_and_is_deleted_with_its_claim(shell: Shell):
    made = _ec2(shell).create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    applied(shell, GP2)
    applied(shell, OLD.replace("VOLUME", made))
    applied(shell, claim("former", "former"))
    shell.until("kubectl wait --for=condition=Ready pod/former --timeout=1s", "pod/former condition met")
    grown = '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
    assert shell.run(f"kubectl patch pvc former -p '{grown}'")[0] == 0
    shell.until("kubectl get pv former -o jsonpath='{.spec.capacity.storage}'", "2Gi")
    (described,) = _ec2(shell).describe_volumes(VolumeIds=[made])["Volumes"]
    assert described["Size"] == 2
    assert shell.run("kubectl delete pod/former pvc/former")[0] == 0
    shell.until("kubectl get pv former -o name --ignore-not-found | wc -l", "0")
    states = [each["State"] for each in _ec2(shell).describe_volumes()["Volumes"] if each["VolumeId"] == made]
    assert states in ([], ["deleting"], ["deleted"])
