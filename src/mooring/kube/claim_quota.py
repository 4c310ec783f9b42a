"""What a ResourceQuota counts of PersistentVolumeClaims: the rule that admission and the controller share.

Pure; claims and quotas are JSON objects. Counted are `persistentvolumeclaims`, `requests.storage`, the same
for each StorageClass (`<class>.storageclass.storage.k8s.io/...`), and `count/persistentvolumeclaims`. A scope
covers claims only if it is VolumeAttributesClass. Rules: upstream's quota evaluator of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from mooring.kube.quantity import format_bytes, parse_quantity
from mooring.kube.selectors import label_selector_from_object

CLAIMS, STORAGE, COUNT = "persistentvolumeclaims", "requests.storage", "count/persistentvolumeclaims"
OF_CLASS = ".storageclass.storage.k8s.io/"
ATTRIBUTES_SCOPE = "VolumeAttributesClass"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

Json = Mapping[str, Any]
Amounts = dict[str, Decimal]


def counts_claims(resource: str) -> bool:
    """Whether a quota's resource is one of claims."""
    return resource in (CLAIMS, STORAGE, COUNT) or resource.endswith((OF_CLASS + CLAIMS, OF_CLASS + STORAGE))


def limits(quota: Json) -> Amounts:
    """The quota's hard limits that are about claims."""
    hard: Json = _at(quota, "spec").get("hard") or {}
    return {name: parse_quantity(amount) for name, amount in hard.items() if counts_claims(name)}


def usage(claim: Json) -> Amounts:
    """What one claim counts for. Storage in bytes: what is asked for, or allocated if that is more."""
    requested = _storage(_at(_at(claim, "spec"), "resources").get("requests"))
    size = max(requested, _storage(_at(claim, "status").get("allocatedResources")))
    found: Amounts = {CLAIMS: Decimal(1), COUNT: Decimal(1), STORAGE: size}
    if name := _class_of(claim):
        found |= {f"{name}{OF_CLASS}{CLAIMS}": Decimal(1), f"{name}{OF_CLASS}{STORAGE}": size}
    return found


def covers(quota: Json, claim: Json) -> bool:
    """Whether the quota counts the claim: by its scopes; without scopes it counts every claim."""
    spec = _at(quota, "spec")
    named = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    terms: list[Json] = [*named, *(_at(spec, "scopeSelector").get("matchExpressions") or ())]
    return all(_in_scope(term, claim) for term in terms)


def total(quota: Json, claims: Iterable[Json]) -> Amounts:
    """What the claims of a namespace come to, for each limit of the quota."""
    found = dict.fromkeys(limits(quota), Decimal(0))
    for claim in claims:
        if covers(quota, claim):
            for name, amount in usage(claim).items():
                if name in found:
                    found[name] += amount
    return found


def texts(amounts: Amounts) -> dict[str, str]:
    """Amounts as quantities."""
    return {name: format_bytes(int(amount)) for name, amount in amounts.items()}


def _in_scope(term: Json, claim: Json) -> bool:
    if term.get("scopeName") != ATTRIBUTES_SCOPE:
        return False
    spec, status = _at(claim, "spec"), _at(claim, "status")
    target = _at(status, "modifyVolumeStatus").get("targetVolumeAttributesClassName")
    names = {spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target}
    known = {name for name in names if name}
    if term.get("operator") == "Exists":
        return bool(known)
    requirement = {"key": ATTRIBUTES_SCOPE, "operator": term.get("operator"), "values": term.get("values")}
    selector = label_selector_from_object({"matchExpressions": [requirement]})
    labels = [{ATTRIBUTES_SCOPE: name} for name in known] or [{}]
    return any(selector.matches(each) for each in labels)


def _class_of(claim: Json) -> str:
    annotated = _at(_at(claim, "metadata"), "annotations").get(_CLASS_ANNOTATION)
    return annotated or _at(claim, "spec").get("storageClassName") or ""


def _storage(amounts: Json | None) -> Decimal:
    return parse_quantity((amounts or {}).get("storage") or "0").to_integral_value(ROUND_CEILING)


def _at(obj: Json, field: str) -> Json:
    found: Json = obj.get(field) or {}
    return found
