"""Users who change what volumes are like while they are used: a claim names one VolumeAttributesClass, and
then another one; and a class, which cannot be changed, is deleted and made anew with other parameters.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolumeClaim, VolumeAttributesClass
from mooring.simulation.cluster.attribute_classes import FEASIBLE, INFEASIBLE, MISSING, class_body
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import Users
from mooring.simulation.cluster.workloads import NAMESPACE
from mooring.simulation.engine.randomness import stream
from mooring.simulation.parts.plugins import DRIVERS

THEN_ANOTHER, BACK, INFEASIBLE_FIRST, MISSING_FIRST, STAYS_INFEASIBLE, STAYS_MISSING = range(1, 7)
"""`how` of a claim that soon names yet another class, that goes back to the one before, that names first one
that the storage refuses or that there is not, or stays with that."""
FIRST = {
    INFEASIBLE_FIRST: INFEASIBLE,
    STAYS_INFEASIBLE: INFEASIBLE,
    MISSING_FIRST: MISSING,
    STAYS_MISSING: MISSING,
}
SECOND = (THEN_ANOTHER, BACK, INFEASIBLE_FIRST, MISSING_FIRST)
AT_ONCE = 1
"""`how` of a class that is made anew in the moment in which a claim begins to name it."""


class AttributeUsers:
    """Each method is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._users, self._cluster, self._api = users, users.cluster, users.api
        self._driver = DRIVERS[users.cluster.scenario.driver]
        self._editions = dict.fromkeys(FEASIBLE, 0)

    async def name_attributes(self, step: PlanStep) -> None:
        """A claim in use names another class, and `value` seconds later (`how`) one more."""
        claim = await self._claim(step)
        if claim is None:
            return
        chance, before = self._chance(step), claim.spec.volume_attributes_class_name or ""
        others = [name for name in FEASIBLE if name != before]
        chance.shuffle(others)
        await self._name(claim, FIRST.get(step.how, others[0]))
        if step.how in SECOND:
            await asyncio.sleep(step.value)
            goes_back = step.how == BACK and before in FEASIBLE
            await self._name(claim, before if goes_back else others[1])

    async def replace_attributes(self, step: PlanStep) -> None:
        """Deletes a class, and makes it anew after `value` seconds with other parameters; `how` 1: while a
        claim begins to name it. Not while a volume is made by it: what a driver has made by the former one,
        and not answered, it does not find by the new one."""
        name = self._chance(step).choice(FEASIBLE)
        if step.how == AT_ONCE and (claim := await self._claim(step)) is not None:
            await self._name(claim, name)
        found = await self._api.find(VolumeAttributesClass, name)
        if found is None or await self._is_being_made(name):
            return  # another user is at it
        await self._cluster.as_user(lambda: self._api.delete(VolumeAttributesClass, name, uid=found.uid))
        await asyncio.sleep(step.value)
        self._editions[name] += 1
        body = class_body(name, self._editions[name], self._driver)
        await self._users.create_when_gone(VolumeAttributesClass, body)

    async def _is_being_made(self, name: str) -> bool:
        claims = (await self._api.list(PersistentVolumeClaim, NAMESPACE)).items
        named = (each for each in claims if each.spec.volume_attributes_class_name == name)
        return any(not each.spec.volume_name for each in named)

    def _chance(self, step: PlanStep) -> Random:
        return stream(self._cluster.seed, f"{step.what} at {step.at}")

    async def _claim(self, step: PlanStep) -> PersistentVolumeClaim | None:
        """One of the workload's claims that have a volume; None: there is none."""
        claims = (await self._api.list(PersistentVolumeClaim, NAMESPACE)).items
        ours = [each for each in claims if each.name.rpartition("-")[0].endswith(f"-{step.on}")]
        bound = [each for each in ours if each.status.phase == "Bound" and not each.deleting]
        return self._chance(step).choice(bound) if bound else None

    async def _name(self, claim: PersistentVolumeClaim, name: str) -> None:
        """Of that very claim: one made anew under its name is another's business."""
        patch = {"metadata": {"uid": claim.uid}, "spec": {"volumeAttributesClassName": name}}
        with suppress(KubeError):
            await self._cluster.as_user(
                lambda: self._api.patch(PersistentVolumeClaim, claim.name, patch, NAMESPACE)
            )
