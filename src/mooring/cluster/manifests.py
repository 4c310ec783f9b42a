"""What a new cluster is given: the default classes of volumes and of snapshots, and with a cloud its driver
and its."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.kube.objects import CSIDriver, Object, StorageClass
from mooring.kube.objects.snapshots import VolumeSnapshotClass

_EBS = "ebs.csi.aws.com"
_DEFAULT_CLASS = {"storageclass.kubernetes.io/is-default-class": "true"}

DEFAULT_STORAGE_CLASS: dict[str, Any] = {
    "metadata": {
        "name": "mooring-disk",
        "annotations": _DEFAULT_CLASS,
    },
    "provisioner": "mooring.dev/disk",
    "parameters": {"fsType": "ext4"},
    "reclaimPolicy": "Delete",
    "allowVolumeExpansion": True,
    "volumeBindingMode": "WaitForFirstConsumer",
}

DEFAULT_SNAPSHOT_CLASS: dict[str, Any] = {
    "metadata": {
        "name": "mooring-disk",
        "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
    },
    "driver": "mooring.dev/disk",
    "deletionPolicy": "Delete",
}

EBS_DRIVER: dict[str, Any] = {
    "metadata": {"name": _EBS},
    "spec": {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "File"},
}

EBS_STORAGE_CLASS: dict[str, Any] = {
    "metadata": {"name": "gp3", "annotations": _DEFAULT_CLASS},
    "provisioner": _EBS,
    "parameters": {"type": "gp3", "csi.storage.k8s.io/fstype": "ext4"},
    "reclaimPolicy": "Delete",
    "allowVolumeExpansion": True,
    "volumeBindingMode": "WaitForFirstConsumer",
}

EBS_SNAPSHOT_CLASS: dict[str, Any] = {
    "metadata": {"name": "ebs"},
    "driver": _EBS,
    "deletionPolicy": "Delete",
}


def objects(cloud: bool) -> dict[type[Object], Sequence[dict[str, Any]]]:
    """What is created at the start unless it is there. With a cloud, its class is the default one."""
    if not cloud:
        return {StorageClass: [DEFAULT_STORAGE_CLASS], VolumeSnapshotClass: [DEFAULT_SNAPSHOT_CLASS]}
    plain = {**DEFAULT_STORAGE_CLASS, "metadata": {"name": DEFAULT_STORAGE_CLASS["metadata"]["name"]}}
    return {
        CSIDriver: [EBS_DRIVER],
        StorageClass: [EBS_STORAGE_CLASS, plain],
        VolumeSnapshotClass: [EBS_SNAPSHOT_CLASS, DEFAULT_SNAPSHOT_CLASS],
    }
