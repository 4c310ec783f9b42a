"""Users who make a mistake in a StorageClass or a VolumeAttributesClass: the driver refuses what they want.
A claim of theirs waits until they have read why, and delete it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.kube.objects import PersistentVolumeClaim, StorageClass, VolumeAttributesClass
from mooring.simulation.cluster.disk_classes import MISTAKES, UNKNOWN_TO_ALL
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import Users, insist
from mooring.simulation.cluster.workloads import CLASS, MISTAKEN, NAMESPACE, ONE_NODE_MODE


class MistakenUsers:
    """Each method is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._cluster, self._api = users.cluster, users.api

    async def mistake_class(self, step: PlanStep) -> None:
        """Makes a claim of a class with a mistake (`how`: which), and deletes it after a while, also when the
        API server is away for long: one that stayed would be tried again for ever."""
        like = await self._api.find(StorageClass, CLASS)
        if like is None:
            return  # another user is at it
        name = f"{MISTAKEN}{step.at:.3f}"
        mistakes = MISTAKES if self._cluster.ec2 is not None else UNKNOWN_TO_ALL
        parameters, attributes = mistakes[step.how % len(mistakes)]
        body: dict[str, Any] = {"metadata": {"name": name}}
        of_class = body | {"provisioner": like.provisioner, "parameters": parameters}
        await self._cluster.as_user(lambda: self._api.create(StorageClass, of_class))
        if attributes:
            named = body | {"driverName": like.provisioner, "parameters": attributes}
            await self._cluster.as_user(lambda: self._api.create(VolumeAttributesClass, named))
        claim = {"metadata": {"name": name}, "spec": _claim_of(name, with_attributes=bool(attributes))}
        await self._cluster.as_user(lambda: self._api.create(PersistentVolumeClaim, claim, NAMESPACE))
        await asyncio.sleep(step.value)
        await insist(lambda: self._api.delete(PersistentVolumeClaim, name, NAMESPACE))
        if attributes:
            await insist(lambda: self._api.delete(VolumeAttributesClass, name))


def _claim_of(name: str, *, with_attributes: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [ONE_NODE_MODE],
        "storageClassName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return spec | ({"volumeAttributesClassName": name} if with_attributes else {})
