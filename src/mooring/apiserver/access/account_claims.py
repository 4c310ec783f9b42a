"""What a token of a service account says. Plain values."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

ISSUER = "https://kubernetes.default.svc.cluster.local"
"""Upstream's usual one, and the audience of the API server itself."""
ALGORITHM = "ES256"


class Named(msgspec.Struct, frozen=True):
    """An object as a token names it."""

    name: str
    uid: str


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims `kubernetes.io` of a token: the service account, and what else the token is bound to."""

    namespace: str
    serviceaccount: Named
    pod: Named | None = None
    secret: Named | None = None
    node: Named | None = None


class Claims(msgspec.Struct, frozen=True):
    """What a token that this server has signed, and that has not expired, says."""

    subject: Subject
    audiences: Sequence[str]
    id: str
