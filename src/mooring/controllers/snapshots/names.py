"""The names that both halves agree on: the CSI community's."""

from __future__ import annotations

SNAPSHOT_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
SOURCE_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
"""Upstream's controller sets it, too; it is removed when the snapshot is released."""
CLAIM_FINALIZER = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
"""On a claim: a snapshot is being taken of its volume, which stays until then."""
CONTENT_FINALIZER = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
BEING_CREATED = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
"""On a content: the storage was asked for the snapshot, and has not answered."""
DELETION_SECRET_NAME = "snapshot.storage.kubernetes.io/deletion-secret-name"
DELETION_SECRET_NAMESPACE = "snapshot.storage.kubernetes.io/deletion-secret-namespace"
DEFAULT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"


def snapshot_name(uid: str) -> str:
    """Returns the name that the storage is asked to give the snapshot. As upstream, so that a request that
    one implementation has sent is the same request when the other one sends it."""
    return f"snapshot-{uid}"
