"""Volumes of a former in-tree plugin on a cluster with the cloud and its driver: in-tree-ebs.yaml."""

from __future__ import annotations

from collections.abc import Iterator

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
    lines = shell.run('mooring cloud env --data-dir "$MOORING_DATA_DIR/cloud"')[1].splitlines()
    said = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    ec2 = get_session().create_client(
        "ec2",
        region_name=said["AWS_REGION"],
        endpoint_url=said["AWS_ENDPOINT_URL_EC2"],
        aws_access_key_id=said["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=said["AWS_SECRET_ACCESS_KEY"],
    )
    return ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]


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
