"""A VolumeAttachment of a played disk, and an attacher that looks at it, at a stage
(tests/controllers/conftest.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from controller_stage import ControllerStage

from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.parts.array_plugin import DISK, ArrayPlugin


async def wanted(stage: ControllerStage, **names: str) -> VolumeAttachment:
    """A PersistentVolume of disk d, and a VolumeAttachment that wants it on n; or of other names, as
    `wanted_again`."""
    disk, pv = names.get("disk", "d"), names.get("pv", "pv")
    stage.array.disks.add(disk)
    source = {"flexVolume": {"driver": DISK, "options": {"disk": disk}}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    await stage.api.create(PersistentVolume, {"metadata": {"name": pv}, "spec": spec})
    return await wanted_again(stage, **names)


async def wanted_again(
    stage: ControllerStage, *, record: str = "va", node: str = "n", disk: str = "d", pv: str = "pv"
) -> VolumeAttachment:
    """The VolumeAttachment alone."""
    annotations = {"mooring.dev/plugin": DISK, "mooring.dev/volume-name": disk}
    spec = {"attacher": "plugins.mooring.dev", "nodeName": node, "source": {"persistentVolumeName": pv}}
    return await stage.api.create(
        VolumeAttachment, {"metadata": {"name": record, "annotations": annotations}, "spec": spec}
    )


async def reconciled(stage: ControllerStage, controller: Any) -> VolumeAttachment | None:
    """Reconciles with a cache that is up to date."""
    live = await stage.api.find(VolumeAttachment, "va")
    controller.cache(VolumeAttachment).accept(live)
    await controller.reconcile("va")
    return await stage.api.find(VolumeAttachment, "va")


def slow_requests(monkeypatch: pytest.MonkeyPatch, validity_s: float) -> None:
    """The array's requests may be carried out for so long after they were sent."""
    whole = ArrayPlugin.capabilities
    monkeypatch.setattr(
        ArrayPlugin,
        "capabilities",
        lambda self, spec: replace(whole(self, spec), request_validity_s=validity_s),
    )


def unanswered(stage: ControllerStage, name: str) -> list[Any]:
    """The array's next request of that name is carried out when it is called for, and not answered."""
    whole, held = getattr(stage.array, name), []

    async def lost(disk: str, node: str) -> None:
        held.append(lambda: whole(disk, node))
        setattr(stage.array, name, whole)
        raise TimeoutError("no answer")

    setattr(stage.array, name, lost)
    return held


def before_the_answer(stage: ControllerStage, name: str, happens: Callable[[], Awaitable[object]]) -> None:
    """The array's next request of that name is carried out, and this happens before it is answered."""
    whole = getattr(stage.array, name)

    async def late(disk: str, node: str) -> None:
        setattr(stage.array, name, whole)
        await whole(disk, node)
        await happens()

    setattr(stage.array, name, late)


async def struck(stage: ControllerStage) -> bool:
    """Whether the record says that the volume is attached, and it is not."""
    live = await stage.api.find(VolumeAttachment, "va")
    return live is not None and live.status.attached and not live.deleting and stage.array.attached == {}
