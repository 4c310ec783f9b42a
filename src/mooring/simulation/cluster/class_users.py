"""What users of a simulated cluster do with StorageClasses: one that there is cannot be changed, so it is
deleted, and made anew under its name.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from mooring.controllers.provisioning.decide import BEGUN
from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolumeClaim, StorageClass
from mooring.simulation.cluster.careless_users import POLL_S
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import AGAIN_S, AT_ONCE_S, Users
from mooring.simulation.cluster.workloads import CLASS, NAMESPACE, RETAINED, RETAINING_CLASS

GOES_TOO = 2
"""`how` of a class that is made anew after the claim was deleted for which a volume was being made."""


class ClassUsers:
    """Each method is a kind of action."""

    def __init__(self, users: Users) -> None:
        self._users, self._cluster, self._api = users, users.cluster, users.api

    async def replace_class(self, step: PlanStep) -> None:
        """Deletes the StorageClass of a workload's claims, and makes it anew after a pause, with another
        parameter where its driver takes any: one that there is cannot be changed. `how` 1: while a volume is
        being made for a claim. 2: and that claim is deleted in the pause."""
        begun: set[str] = set()
        if step.how:
            await self._users.delete_claim(msgspec.structs.replace(step, how=0))
            begun = await self._until_begun(step.on)
        name = RETAINING_CLASS if self._cluster.scenario.workloads.get(step.on) in RETAINED else CLASS
        found = await self._api.find(StorageClass, name)
        if found is None:
            return  # another user is at it
        await self._cluster.as_user(lambda: self._api.delete(StorageClass, name, uid=found.uid))
        self._cluster.user.start(self._make_class(found, step))
        if step.how == GOES_TOO:
            await asyncio.sleep(min(step.value, AT_ONCE_S))
            for claim in sorted(begun):
                await self._cluster.as_user(
                    lambda c=claim: self._api.delete(PersistentVolumeClaim, c, NAMESPACE)
                )
            await self._users.delete_pod(msgspec.structs.replace(step, how=0))

    async def _make_class(self, former: StorageClass, step: PlanStep) -> None:
        await asyncio.sleep(step.value)
        body = {
            key: each
            for key, each in msgspec.to_builtins(former).items()
            if key not in ("metadata", "status")
        }
        if self._cluster.ec2 is None:
            body["parameters"] = {"since": f"{step.at:.3f}"}
        await self._users.create_when_gone(StorageClass, {**body, "metadata": {"name": former.name}})

    async def _until_begun(self, name: str) -> set[str]:
        """The names of a workload's claims for which a volume is being made, when there is one; none, if
        there is none for long."""
        until = asyncio.get_running_loop().time() + AGAIN_S
        while asyncio.get_running_loop().time() < until:
            with suppress(KubeError):
                claims = (await self._api.list(PersistentVolumeClaim, NAMESPACE)).items
                ours = (claim for claim in claims if claim.name.rpartition("-")[0].endswith(f"-{name}"))
                if found := {each.name for each in ours if BEGUN in each.metadata.finalizers}:
                    return found
            await asyncio.sleep(POLL_S)
        return set()
