"""The claims whose volumes are being made: each is marked before its storage is asked, and let go when it is
certain what was made.

Guarantees:
- A claim that `begin` returns stays until `end`: a volume that may be there for it is always named by it.
- What was decided on a claim before `begin` returned is refused from then on, by another process that has
  lost its Lease, or by this one and late: `begin` has changed the claim (docs/protocol.md, C3).
- A claim that `give_up` lets go is asked for by no other process that is known.
- `is_certain` is said of a claim for which nothing can have been made: this process marked it, it has had
  that mark ever since and no other signature, and the storage refused each try.

It knows of no storage: what a try has come to, its caller says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.controllers.provisioning.askers import ASKED_BY, others, signature, signatures, signed
from mooring.controllers.provisioning.decide import BEGUN
from mooring.kube.client import Client
from mooring.kube.errors import KubeError, conflict
from mooring.kube.first_seen import FirstSeen
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolumeClaim

LATEST_REQUEST_S = 150.0
"""After so long no request of a process is under way that has signed before, and not since."""


class BegunClaims:
    """Of one process. What is read or written gets into `claims`."""

    def __init__(self, client: Client, claims: Informer[PersistentVolumeClaim]) -> None:
        self._client = client
        self._claims = claims
        self._signed: dict[str, str] = {}
        """Uids of claims that this process asks for → its signature."""
        self._may_end: set[str] = set()
        """Uids of claims that this process was to let go, and has no answer: that may come late."""
        self._certain: set[str] = set()
        self._others: FirstSeen[str, str] = FirstSeen()
        """Uids of claims that are to go → the signatures of other processes."""
        claims.when_gone(self.forget)
        claims.add_handler(self._changed)

    async def begin(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Stores BEGUN before the storage is asked, or signs a claim that has it. Conflict or NotFound if
        that is not the claim any more."""
        if BEGUN in claim.metadata.finalizers:
            return await self._still_begun(claim)
        begun = await self._sign(claim, [*claim.metadata.finalizers, BEGUN])
        known = self._claims.get(claim.key)
        if known is not None and known.uid == claim.uid and self._is_ours_alone(known):
            self._certain.add(claim.uid)  # else its end, or that of the mark, was told already
        return begun

    async def end(self, claim: PersistentVolumeClaim, *annotations: str) -> None:
        """Lets the claim go, without these annotations."""
        finalizers = [each for each in claim.metadata.finalizers if each != BEGUN]
        try:
            await self._set_finalizers(claim, finalizers, dict.fromkeys((ASKED_BY, *annotations)))
        except KubeError:
            if self._claims.knows(claim):
                self._may_end.add(claim.uid)
            raise

    async def give_up(self, claim: PersistentVolumeClaim) -> None:
        """Of a claim for which the storage has refused this process: lets it go, unless another process may
        be asking for it."""
        own = self._signed.get(claim.uid)
        foreign = others(claim, own)
        ages = self._others.ages(claim.uid, dict.fromkeys(foreign, ""))
        if all(age >= LATEST_REQUEST_S for age in ages.values()):
            await self.end(claim)
        elif own in signatures(claim):
            self._signed.pop(claim.uid, None)  # if this is not answered, it may come late
            await self._set_finalizers(claim, claim.metadata.finalizers, {ASKED_BY: " ".join(foreign)})

    def is_certain(self, claim: PersistentVolumeClaim) -> bool:
        """Whether nothing can have been made for the claim."""
        return claim.uid in self._certain

    def may_be_made(self, claim: PersistentVolumeClaim) -> None:
        """From now on something may be there for the claim."""
        self._certain.discard(claim.uid)

    def forget(self, claim: PersistentVolumeClaim) -> None:
        """Of a claim that is done with, or gone."""
        self._certain.discard(claim.uid)
        self._signed.pop(claim.uid, None)
        self._may_end.discard(claim.uid)
        self._others.ages(claim.uid, {})

    def _changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """What is certain of a claim goes with its mark: the next one may be that of another process, which
        has lost its lease and does not know it yet. And it goes when another process asks, too."""
        if new is not None and not self._is_ours_alone(new):
            self._certain.discard(new.uid)

    def _is_ours_alone(self, claim: PersistentVolumeClaim) -> bool:
        return signatures(claim) == [self._signed.get(claim.uid)]

    async def _still_begun(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim as it is now, signed. The cache may be late, and the claim gone since with the volume
        that was made for it: one made then would be held by nothing, and be forgotten if its answer is
        lost."""
        live = await self._claims.same_live(claim)
        if BEGUN not in live.metadata.finalizers:
            raise conflict(f"claim {claim.key} is not held any more for the volume that was begun for it")
        if self._is_signed(live):
            return live
        return await self._sign(live, live.metadata.finalizers)

    def _is_signed(self, claim: PersistentVolumeClaim) -> bool:
        """Whether this process need not sign once more. Of a claim that is to go each does before it asks,
        where there are others."""
        own = self._signed.get(claim.uid)
        if own not in signatures(claim) or claim.uid in self._may_end:
            return False
        return not (claim.deleting and others(claim, own))

    async def _sign(self, claim: PersistentVolumeClaim, finalizers: Sequence[str]) -> PersistentVolumeClaim:
        """Stores that this process asks from now on: what another one, or this one, has decided before is
        refused."""
        own = self._signed.get(claim.uid)
        answer = await self._set_finalizers(claim, finalizers, {ASKED_BY: signed(claim, own)})
        self._may_end.discard(claim.uid)
        if self._claims.knows(claim):  # else its end was told already
            self._signed[claim.uid] = signature(claim)
        return answer

    async def _set_finalizers(
        self, claim: PersistentVolumeClaim, finalizers: Sequence[str], annotations: Mapping[str, str | None]
    ) -> PersistentVolumeClaim:
        metadata = {"finalizers": list(finalizers), "annotations": annotations}
        answer = await self._client.revise(claim, {"metadata": metadata})
        self._claims.accept(answer)
        return answer
