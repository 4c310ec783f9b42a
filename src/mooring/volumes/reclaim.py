"""Which volumes are to be deleted or emptied, as their PersistentVolumes say: the mark that the reclaimer
and the attacher go by (docs/protocol.md, "Reclaim"). Pure."""

from __future__ import annotations

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim

MADE = "mooring.dev/provisioned"
"""Finalizer of a PersistentVolume whose disk is to be deleted with it."""
MADE_BY_DRIVER = "external-provisioner.volume.kubernetes.io/finalizer"
"""The same for volumes of CSI drivers, under upstream's name, so that either provisioner can
take over from the other."""
WITHOUT_CLAIM = ("Released", "Failed")
"""Phases of a volume whose claim is gone."""


def to_be_reclaimed(persistent_volume: PersistentVolume) -> bool:
    """Whether its claim is gone, and its policy does not retain it."""
    policy = persistent_volume.spec.persistent_volume_reclaim_policy
    return persistent_volume.status.phase in WITHOUT_CLAIM and policy in ("Delete", "Recycle")


def stays_for(persistent_volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that is being deleted stays until this claim is gone, bound or not: it was made for
    it, and goes with its disk alone, which is deleted after its claim."""
    reference = persistent_volume.spec.claim_ref
    goes_with_its_disk = not {MADE, MADE_BY_DRIVER}.isdisjoint(persistent_volume.metadata.finalizers)
    return goes_with_its_disk and reference is not None and reference.uid == claim.uid
