"""What a ResourceQuota's status should say about claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from mooring.kube.claim_quota import counts_claims, texts, total
from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolumeClaim, ResourceQuota
from mooring.kube.reason import Reason


class Action(Enum):
    """What to do with a quota's status."""

    UPDATE = "Update"
    KEEP = "Keep"


class QuotaDecision(Decision[Action], frozen=True, gc=False):
    """What to do with one quota's status. `status`: a merge patch, for UPDATE."""

    status: Mapping[str, Any] = {}


def decide(quota: ResourceQuota, claims: Sequence[PersistentVolumeClaim]) -> QuotaDecision:
    """Returns the status that the quota should have. `claims`: those of its namespace. What it says of other
    resources than claims is left as it is."""
    described = msgspec.to_builtins(quota)
    used = texts(total(described, map(msgspec.to_builtins, claims)))
    hard = {name: amount for name, amount in quota.spec.hard.items() if name in used}
    reason = Reason("Counted", ", ".join(f"{name} {used[name]} of {hard[name]}" for name in sorted(used)))
    if hard == _of_claims(quota.status.hard) and used == _of_claims(quota.status.used):
        return QuotaDecision(Action.KEEP, reason)
    gone = dict.fromkeys({*_of_claims(quota.status.hard), *_of_claims(quota.status.used)} - hard.keys())
    return QuotaDecision(Action.UPDATE, reason, {"hard": gone | hard, "used": gone | used})


def _of_claims(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if counts_claims(name)}
