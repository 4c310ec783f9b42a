"""Client tokens: a repeated request gets the resources of the first one, in their present state.

The scope of a token is the action, the region and, for zonal resources, the zone: the same token in another
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
    """The resources that the same request made before; None for a new request or one without a token.

    Raises Ec2Error: InvalidParameterValue (malformed token), IdempotentParameterMismatch (the token belongs
    to another request, or its resource is deleted).
    """
    token = text(request, "ClientToken")
    if len(token) > 64 or not token.isascii():
        invalid("clientToken", token, "A client token has at most 64 ASCII characters.")
    used = region.store.tokens.get(_id(action, zone, token)) if token else None
    if used is None or used.used + region.settings.token_life_s <= region.clock():
        return None
    # Compared before the resources are looked up: EC2 names another request's token as such even after that
    # request's resource is gone.
    if used.digest != _digest(request):
        raise Ec2Error("IdempotentParameterMismatch", _OTHER)
    if not all(map(exists, used.resources)):
        raise Ec2Error("IdempotentParameterMismatch", _DELETED)
    return used.resources


def remember(region: Region, request: Request, action: str, zone: str, resources: tuple[str, ...]) -> None:
    """Records that the request's token, if any, is used, and drops expired tokens."""
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
    """A parameter in the form that is compared: without the order of lists, and without empty members."""
    if isinstance(value, Mapping):
        members = cast(Mapping[object, object], value).items()
        given = [(str(name), _plain(each)) for name, each in members if each is not None and each != ""]
        return [repr(pair) for pair in sorted(given, key=repr) if pair[0] not in _NOT_COMPARED]
    if isinstance(value, (list, tuple)):
        return sorted(repr(_plain(each)) for each in cast(Sequence[object], value))
    return repr(value)
