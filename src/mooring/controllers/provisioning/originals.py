"""Keeps claims that others are being made copies of: an original that goes while it is copied takes its disk
with it, and all that the copy was to have.

The finalizer is that of upstream's external-provisioner (cloning protection), so that either provisioner lets
go what the other one has held.
"""

from __future__ import annotations

from functools import partial

from mooring.kube.client import Client
from mooring.kube.holding import Holder
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
        self._holder = Holder(client, claims, CLONED)

    async def hold(self, original: PersistentVolumeClaim, copy: PersistentVolumeClaim) -> None:
        """Before the storage is asked for the copy: this very original stays until there is one. Raises
        InvalidSpec if it is being deleted, and takes no finalizer any more (upstream refuses it, too), and
        NotFound or Conflict if it has gone. A copy that goes itself is only to be found, and needs none."""
        if not copy.deleting and not self._holder.has(await self._holder.hold(original)):
            raise InvalidSpec(
                f"claim {copy.key} is to be a copy of claim {original.name}, which is being deleted"
            )

    async def let_go(self, key: str) -> None:
        """If the claim is held, and no copy of it is waited for."""
        await self._holder.let_go(key, partial(self._is_copied, key))

    async def _is_copied(self, key: str) -> bool:
        if self._claims.by_index(INDEX, key):
            return True
        namespace, _, _ = key.partition("/")
        live = (await self._client.list(PersistentVolumeClaim, namespace)).items
        return any(key in copied_from(each) for each in live)
