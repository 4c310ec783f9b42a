"""Which processes have asked for a claim's volume: each signs the claim before its first request. Pure.

A process that takes over goes on with a claim that is marked already. If it wrote nothing, a write of the
former one would be accepted still, late or by what that one knew: the claim would be let go while the storage
is asked for it again (docs/protocol.md, C1 and C3: a change of nothing leaves late writes valid).

Two may ask at the same time: without a Lease, or as one does not know yet that it has lost it. What the
storage refuses to one of them it may be doing for the other. So of a claim that is to go each takes its
signature back when it is refused, and signs anew before it asks again; who finds no other one lets the claim
go.
"""

from __future__ import annotations

from mooring.controllers.provisioning.decide import BEGUN
from mooring.kube.objects import PersistentVolumeClaim

ASKED_BY = "mooring.dev/provisioning-asked-by"
"""Annotation of a claim that is begun: the signatures of the processes that ask for its volume."""
MOST = 8
"""So many signatures are kept: a claim may wait through any number of restarts."""


def signature(claim: PersistentVolumeClaim) -> str:
    """Of the process whose write upon this claim is accepted: no other write upon this version is."""
    return claim.metadata.resource_version


def signatures(claim: PersistentVolumeClaim) -> list[str]:
    """Who asks, the first one first; none of a claim that is not begun."""
    begun = BEGUN in claim.metadata.finalizers
    return claim.metadata.annotations.get(ASKED_BY, "").split() if begun else []


def others(claim: PersistentVolumeClaim, own: str | None) -> list[str]:
    """The signatures of other processes than the one whose last is `own`."""
    return [each for each in signatures(claim) if each != own]


def signed(claim: PersistentVolumeClaim, own: str | None = None) -> str:
    """The annotation after a write upon this claim, by the process whose last signature is `own`."""
    return " ".join([*others(claim, own), signature(claim)][-MOST:])
