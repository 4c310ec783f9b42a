"""The ephemeral volume controller. A key is a pod."""

from __future__ import annotations

from random import Random

from mooring.controllers.ephemeral.decide import missing
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.times import Now


class EphemeralController(Controller):
    """Upstream's ephemeral volume controller."""

    name = "ephemeral-volume-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._pods = self.watch(Pod, lambda pod: [pod.key] if any(v.ephemeral for v in pod.spec.volumes) else [])
        self._claims = self.watch(PersistentVolumeClaim, _owner)

    async def reconcile(self, key: str) -> None:
        """Creates what the pod's volumes lack."""
        pod = self._pods.get(key)
        if pod is None:
            return
        found = missing(pod, self._claims.get)
        for body in found.claims:
            try:
                self._claims.accept(await self.client.create(PersistentVolumeClaim, body, pod.namespace))
            except AlreadyExists:
                self.queue.add_after(key, 0.05)  # the cache is late
        for reason in found.refused:
            self.recorder.event(pod, "Warning", *reason)


def _owner(claim: PersistentVolumeClaim) -> list[str]:
    owner = claim.controller
    return [f"{claim.namespace}/{owner.name}"] if owner is not None and owner.kind == "Pod" else []
