"""Client tokens: the same request again gives the first one's resources, in their present state.

The scope of a token is the action, the region and, for what is in a zone, the zone: the same token in another
zone is another token (EC2 API reference, "Ensuring idempotency"). The token of a deleted resource stays used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Token
from mooring.cloud.region import Region
from mooring.cloud.requests.parameters import Request, invalid, text

_NOT_COMPARED = ("ClientToken", "DryRun", "AvailabilityZone", "AvailabilityZoneId")

_OTHER = "Parameters on this idempotent request are inconsistent with parameters used in previous request(s)"
_DELETED = (
    "The client token you have provided is associated with a resource that is already deleted. "
    "Please use a different client token for this request."
)


def earlier(
    region: Region, request: Request, action: str, zone: str, exists: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """The resources that the same request has made before; None: it is new.

    Raises Ec2Error: InvalidParameterValue (not a token), IdempotentParameterMismatch (another request had the
    token, or what it made is deleted).
    """
    token = text(request, "ClientToken")
    if len(token) > 64 or not token.isascii():
        invalid("clientToken", token, "A client token has at most 64 ASCII characters.")
    found = region.store.tokens.get(_id(action, zone, token)) if token else None
    if found is None or found.used + region.settings.token_life_s <= region.clock():
        return None
    if found.digest != _digest(request):
        raise Ec2Error("IdempotentParameterMismatch", _OTHER)
    if not all(map(exists, found.resources)):
        raise Ec2Error("IdempotentParameterMismatch", _DELETED)
    return found.resources


def remember(region: Region, request: Request, action: str, zone: str, resources: tuple[str, ...]) -> None:
    """The request's token, if it has one, is used; tokens that are too old are forgotten."""
    tokens = region.store.tokens
    oldest = region.clock() - region.settings.token_life_s
    while tokens.records and (first := next(iter(tokens.records.values()))).used <= oldest:
        region.store.remove(first)
    if token := text(request, "ClientToken"):
        id = _id(action, zone, token)
        region.store.put(Token(id=id, digest=_digest(request), resources=resources, used=region.clock()))


def _id(action: str, zone: str, token: str) -> str:
    return f"{action} {zone} {token}"


def _digest(request: Request) -> str:
    return hashlib.sha256(json.dumps(_plain(request)).encode()).hexdigest()


def _plain(value: object) -> object:
    """What of a parameter counts: neither the order of lists nor what is empty."""
    if isinstance(value, Mapping):
        members = cast(Mapping[object, object], value).items()
        told = [(str(name), _plain(each)) for name, each in members if each is not None and each != ""]
        return [repr(pair) for pair in sorted(told, key=repr) if pair[0] not in _NOT_COMPARED]
    if isinstance(value, (list, tuple)):
        return sorted(repr(_plain(each)) for each in cast(Sequence[object], value))
    return repr(value)
