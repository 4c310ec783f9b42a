"""Volumes that pods define themselves, on storage beyond their node, without claim and PersistentVolume.

What a pod keeps on its node or takes from the API (emptyDir, hostPath, configMap, secret, ...) is none of
these. A generic ephemeral volume has a claim, and so a row already. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.kube.objects import Pod, Volume

OWN = "own "
"""Before a pod's key, a slash and the volume's name in it: the id of its row among the volumes."""

SOURCES = (
    *("csi", "nfs", "iscsi", "fc", "flex_volume", "glusterfs", "rbd", "azure_file", "azure_disk"),
    *("cephfs", "quobyte", "flocker", "photon_persistent_disk"),
    *("aws_elastic_block_store", "gce_persistent_disk", "cinder", "vsphere_volume", "portworx_volume"),
)
"""Fields of a pod's volume, of which at most one is set."""


def source_of(volume: Volume) -> str:
    """The field that says which storage the volume is on; "" if it is on none beyond the node."""
    return next((field for field in SOURCES if getattr(volume, field) is not None), "")


def own_volumes(pod: Pod) -> Iterator[str]:
    """Keys of the volumes that the pod defines itself."""
    return (f"{pod.key}/{volume.name}" for volume in pod.spec.volumes if source_of(volume))


def split_own(key: str) -> tuple[str, str]:
    """The pod's key and the volume's name."""
    pod, _, volume = key.rpartition("/")
    return pod, volume
