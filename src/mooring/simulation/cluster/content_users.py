"""Users who change the ConfigMap and the Secret that the pods of a workload show, and who label its pods."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.kube.objects import ConfigMap, Object, Pod, Secret
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import Users, insist
from mooring.simulation.cluster.workloads import NAMESPACE, Body, credentials, settings
from mooring.simulation.engine.randomness import stream

SHOWN = "example.com/shown"
"""A label that users give to pods."""
AGAIN_AND_AGAIN, ANEW = 1, 2
"""`how` of changes that follow each other, and of an object that is deleted, and made anew after a while."""
CHANGES = 5
BETWEEN_S = (0.004, 0.02, 0.1, 1.0)
"""Seconds between one change and the next, on average: often less than it takes to read what has changed."""


class ContentUsers:
    """All of them; `edit_content` is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._users, self._cluster, self._api = users, users.cluster, users.api
        self._edition = 0

    async def edit_content(self, step: PlanStep) -> None:
        """Changes the ConfigMap, the Secret, or a label of one of the pods, each at its turn."""
        self._edition += 1
        if self._edition % 3 == 0:
            await self._label(step)
            return
        kind, body = ((ConfigMap, settings), (Secret, credentials))[self._edition % 3 - 1]
        if step.how == ANEW:
            await self._cluster.as_user(lambda: self._api.delete(kind, step.on, NAMESPACE))
            await asyncio.sleep(step.value)
        chance = stream(self._cluster.seed, f"changes of {step.on} {self._edition}")
        between = chance.choice(BETWEEN_S)
        for number in range(CHANGES if step.how == AGAIN_AND_AGAIN else 1):
            await asyncio.sleep(chance.expovariate(1 / between) if number else 0)
            edition = self._edition * CHANGES + number
            await insist(lambda e=edition: self._write(kind, step.on, body(step.on, e)))

    async def _write(self, kind: type[Object], name: str, body: Body) -> None:
        """The object as it is to be, whatever it was."""
        found: Any = await self._api.find(kind, name, NAMESPACE)
        if found is None:
            await self._api.create(kind, body, NAMESPACE)
            return
        others = dict.fromkeys(found.data.keys() - body["data"].keys())
        await self._api.revise(found, {"data": body["data"] | others})

    async def _label(self, step: PlanStep) -> None:
        pod = await self._users.pod(step)
        if pod is not None and not pod.deleting:
            labels = {"metadata": {"labels": {SHOWN: f"edition-{self._edition}"}}}
            await self._cluster.as_user(
                lambda: self._api.patch(Pod, pod.name, labels, NAMESPACE, uid=pod.uid)
            )
