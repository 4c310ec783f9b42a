"""Admission of claims by the ResourceQuotas of their namespace.

What a claim takes is added to `status.used` of its quotas in the same step that stores the claim, so that two
claims that come together cannot both have what is left. The quota controller counts anew when claims go. Of a
quota that it has not counted yet the claims are counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from decimal import Decimal

from mooring.apiserver.errors import Obj, Resource, forbidden
from mooring.apiserver.values.dotted import object_at, text_at
from mooring.kube.claim_quota import Amounts, covers, limits, texts, total, usage
from mooring.kube.quantity import parse_quantity

CLAIMS = Resource("", "persistentvolumeclaims")


def charged(claim: Obj, old: Obj | None, quotas: Sequence[Obj], claims: Iterable[Obj]) -> list[Obj]:
    """The quotas of the claim's namespace with what the claim takes, or takes more than `old`.

    `quotas`, `claims`: those of all namespaces. Raises Forbidden, with upstream's words, if a quota has not
    so much left.
    """
    if old is not None and old.get("spec") == claim.get("spec"):
        return []
    namespace = text_at(claim, "metadata.namespace")
    here = [each for each in quotas if text_at(each, "metadata.namespace") == namespace]
    found: list[Obj] = []
    for quota in here:
        hard = limits(quota)
        more = {name: amount for name, amount in _more(quota, claim, old).items() if name in hard}
        if not more:
            continue
        used = _used(quota, hard) or _counted(quota, claims)
        _check(claim, quota, more, used, hard)
        after = {name: amount + more.get(name, Decimal(0)) for name, amount in used.items()}
        found.append(_with_status(quota, hard, after))
    return found


def _more(quota: Obj, claim: Obj, old: Obj | None) -> Amounts:
    if not covers(quota, claim):
        return {}
    before = usage(old) if old is not None and covers(quota, old) else {}
    more = {name: amount - before.get(name, Decimal(0)) for name, amount in usage(claim).items()}
    return {name: amount for name, amount in more.items() if amount > 0}


def _used(quota: Obj, hard: Amounts) -> Amounts:
    """What the quota's status says; empty if it does not say it for all of its present limits."""
    used = object_at(quota, "status.used")
    return {name: parse_quantity(used[name]) for name in hard} if all(name in used for name in hard) else {}


def _counted(quota: Obj, claims: Iterable[Obj]) -> Amounts:
    namespace = text_at(quota, "metadata.namespace")
    return total(quota, (each for each in claims if text_at(each, "metadata.namespace") == namespace))


def _check(claim: Obj, quota: Obj, more: Amounts, used: Amounts, hard: Amounts) -> None:
    over = {name for name, amount in more.items() if used[name] + amount > hard[name]}
    if over:
        requested, taken, limited = (
            ",".join(f"{name}={text}" for name, text in sorted(texts(amounts).items()) if name in over)
            for amounts in (more, used, hard)
        )
        name = text_at(quota, "metadata.name")
        why = f"exceeded quota: {name}, requested: {requested}, used: {taken}, limited: {limited}"
        raise forbidden(CLAIMS, text_at(claim, "metadata.name"), why)


def _with_status(quota: Obj, hard: Amounts, used: Amounts) -> Obj:
    after = deepcopy(quota)
    status = object_at(after, "status")
    after["status"] = status | {
        "hard": object_at(status, "hard") | {name: object_at(quota, "spec.hard")[name] for name in hard},
        "used": object_at(status, "used") | texts(used),
    }
    return after
