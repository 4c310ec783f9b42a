"""The ephemeral volume controller. A key is a pod."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, assert_never

from mooring.controllers.ephemeral.decide import Action, decide
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Object, PersistentVolumeClaim, Pod
from mooring.kube.times import Now

STALE_CACHE_S = 0.05
"""Seconds after which a pod is looked at again whose claim exists and is not in the cache yet."""


class EphemeralController(Controller[str]):
    """Upstream's ephemeral volume controller."""

    name = "ephemeral-volume-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._pods = self.watch(
            Pod, lambda pod: [pod.key] if any(v.ephemeral for v in pod.spec.volumes) else []
        )
        self._claims = self.watch(PersistentVolumeClaim, _owner)

    def concerned(self, key: str) -> list[tuple[Object | None, str]]:
        return [(self._pods.get(key), "FailedBinding")]

    async def reconcile(self, key: str) -> None:
        """Creates the claims that the pod's volumes lack."""
        pod = self._pods.get(key)
        if pod is None:
            return
        for decision in decide(pod, self._claims.get):
            match decision.action:
                case Action.CREATE:
                    await self._create(pod, decision.body)
                case Action.REFUSE:
                    self.recorder.event(pod, "Warning", *decision.reason)
                case Action.SETTLED:
                    pass
                case _:
                    assert_never(decision.action)

    async def _create(self, pod: Pod, body: Mapping[str, Any]) -> None:
        """Creates a claim, if the pod, read live, is the same and still needs one: with a cache that does not
        show yet that the pod is gone, the garbage collector would take away what is made, again and again,
        each time with a disk."""
        live = await self.client.find(Pod, pod.name, pod.namespace)
        if live is None or live.uid != pod.uid or live.deleting or live.finished:
            return  # the watch will say so
        try:
            self._claims.accept(await self.client.create(PersistentVolumeClaim, body, pod.namespace))
        except AlreadyExists:
            self.queue.add_after(pod.key, STALE_CACHE_S)


def _owner(claim: PersistentVolumeClaim) -> list[str]:
    owner = claim.controller
    return [f"{claim.namespace}/{owner.name}"] if owner is not None and owner.kind == "Pod" else []
