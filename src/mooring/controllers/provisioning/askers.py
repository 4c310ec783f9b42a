"""Which processes have asked for a claim's volume: each signs the claim before its first request. Pure.

A process that takes over goes on with a claim that is marked already. If it wrote nothing, a write of the
former one would be accepted still, late or by what that one knew: the claim would be let go while the storage
is asked for it again (docs/protocol.md, C1 and C3: a change of nothing leaves late writes valid).
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


def signed(claim: PersistentVolumeClaim) -> str:
    """The annotation after a write upon this claim."""
    return " ".join([*signatures(claim), signature(claim)][-MOST:])
