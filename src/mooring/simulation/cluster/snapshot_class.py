"""What a simulated cluster has where users take snapshots: the kinds, which no API server has by itself, and
a class for each policy of deletion."""

from __future__ import annotations

from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.kube.client import Client
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import VolumeSnapshotClass

SNAPSHOT_CLASS, RETAINED_CLASS = "snapshots", "retained-snapshots"
POLICIES = {SNAPSHOT_CLASS: "Delete", RETAINED_CLASS: "Retain"}


async def create_snapshot_classes(api: Client, driver: str) -> None:
    """For the disks of this driver."""
    for body in DEFINITIONS:
        await api.create(CustomResourceDefinition, body)
    for name, policy in POLICIES.items():
        body = {"metadata": {"name": name}, "driver": driver, "deletionPolicy": policy}
        await api.create(VolumeSnapshotClass, body)
