"""Keeps claims that others are being made copies of: an original that goes while it is copied takes its disk
with it, and all that the copy was to have.

The finalizer is that of upstream's external-provisioner (cloning protection), so that either provisioner lets
go what the other one has held.
"""

from __future__ import annotations

from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolumeClaim
from mooring.volumes.claims import waits_for_copy_of
from mooring.volumes.errors import InvalidSpec

CLONED = "provisioner.storage.kubernetes.io/cloning-protection"
INDEX = "original"
"""Of the claims' cache, by `copied_from`."""


def copied_from(claim: PersistentVolumeClaim) -> list[str]:
    """Returns the key of the claim that this one is to be a copy of, as long as it has no volume."""
    return waits_for_copy_of(claim, "", "PersistentVolumeClaim")


class Originals:
    """Holds originals, and lets them go. `claims` has the index."""

    def __init__(self, client: Client, claims: Informer[PersistentVolumeClaim]) -> None:
        self._client = client
        self._claims = claims

    async def hold(self, copy: PersistentVolumeClaim) -> None:
        """Before the storage is asked for the copy: its original stays until there is one. Raises InvalidSpec
        for one that is being deleted, and takes no finalizer any more; upstream refuses it, too. A copy that
        goes itself is only to be found, and needs none."""
        for original in filter(None, map(self._claims.get, copied_from(copy))):
            held = original.metadata.finalizers
            if CLONED in held or (original.deleting and copy.deleting):
                continue
            if original.deleting:
                raise InvalidSpec(
                    f"claim {copy.key} is to be a copy of claim {original.name}, which is being deleted"
                )
            await self._set_finalizers(original, [*held, CLONED])

    async def let_go(self, original: PersistentVolumeClaim) -> None:
        """If no copy of it is waited for. The cache may be late, and a finalizer that is removed need not
        come back, so it is not the last to be asked."""
        held = original.metadata.finalizers
        if CLONED not in held or self._claims.by_index(INDEX, original.key):
            return
        live = (await self._client.list(PersistentVolumeClaim, original.namespace)).items
        if not any(original.key in copied_from(each) for each in live):
            await self._set_finalizers(original, [each for each in held if each != CLONED])

    async def _set_finalizers(self, original: PersistentVolumeClaim, finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers or None}}
        self._claims.accept(await self._client.revise(original, patch))
