"""The quota controller, for claims. A key is a ResourceQuota.

The API server adds what a claim takes when it stores the claim. So a quota is read, then its claims, and the
write carries the quota's version: what is stored between the two makes the write fail, and is counted then.
"""

from __future__ import annotations

from random import Random
from typing import assert_never

from mooring.controllers.quota.decide import Action, decide
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.objects import PersistentVolumeClaim, ResourceQuota
from mooring.kube.times import Now


class QuotaController(Controller[str]):
    """The part of upstream's resourcequota controller that is about claims."""

    name = "resourcequota-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._quotas = self.watch(
            ResourceQuota, lambda quota: [quota.key], indexers={"namespace": lambda quota: [quota.namespace]}
        )
        self.watch(PersistentVolumeClaim, self._touched, matters=_counts)

    async def reconcile(self, key: str) -> None:
        """Counts the claims of one quota's namespace."""
        cached = self._quotas.get(key)
        quota = await self.client.find(ResourceQuota, cached.name, cached.namespace) if cached else None
        if quota is None or quota.deleting:
            return
        claims = (await self.client.list(PersistentVolumeClaim, quota.namespace)).items
        decision = decide(quota, claims)
        match decision.action:
            case Action.KEEP:
                return
            case Action.UPDATE:
                body = {"status": decision.status}
                self._quotas.accept(await self.client.revise(quota, body, subresource="status"))
                self.log.info("counted", quota=key, reason=decision.reason.message)
            case _:
                assert_never(decision.action)

    def _touched(self, claim: PersistentVolumeClaim) -> list[str]:
        return [quota.key for quota in self._quotas.by_index("namespace", claim.namespace)]


def _counts(claim: PersistentVolumeClaim) -> object:
    """What of a claim a quota depends on."""
    status = claim.status
    return claim.spec, status.allocated_resources, status.current_volume_attributes_class_name
