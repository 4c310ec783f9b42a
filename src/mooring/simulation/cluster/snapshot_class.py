"""What a simulated cluster has where users take snapshots: the kinds, which no API server has by itself, and
a class."""

from __future__ import annotations

from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.kube.client import Client
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.snapshots import VolumeSnapshotClass

SNAPSHOT_CLASS = "snapshots"


async def create_snapshot_class(api: Client, driver: str) -> None:
    """For the disks of this driver."""
    for body in DEFINITIONS:
        await api.create(CustomResourceDefinition, body)
    body = {"metadata": {"name": SNAPSHOT_CLASS}, "driver": driver, "deletionPolicy": "Delete"}
    await api.create(VolumeSnapshotClass, body)
