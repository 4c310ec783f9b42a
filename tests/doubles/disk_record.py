"""A VolumeAttachment of a played disk, and an attacher that looks at it, at a desk (tests/controllers/conftest.py)."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.array import DISK


async def wanted(desk: Any) -> VolumeAttachment:
    """A PersistentVolume of disk d, and a VolumeAttachment that wants it on n."""
    desk.array.disks.add("d")
    source = {"flexVolume": {"driver": DISK, "options": {"disk": "d"}}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    await desk.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
    return await wanted_again(desk)


async def wanted_again(desk: Any) -> VolumeAttachment:
    """The VolumeAttachment alone."""
    annotations = {"mooring.dev/plugin": DISK, "mooring.dev/volume-name": "d"}
    spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    return await desk.api.create(
        VolumeAttachment, {"metadata": {"name": "va", "annotations": annotations}, "spec": spec}
    )


async def reconciled(desk: Any, controller: Any) -> VolumeAttachment | None:
    """Reconciles with a cache that is up to date."""
    live = await desk.api.find(VolumeAttachment, "va")
    controller._records.accept(live)
    await controller.reconcile("va")
    return await desk.api.find(VolumeAttachment, "va")
