"""What a new cluster is given: the default classes of volumes and of snapshots."""

from __future__ import annotations

from typing import Any

DEFAULT_STORAGE_CLASS: dict[str, Any] = {
    "metadata": {
        "name": "mooring-disk",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
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
