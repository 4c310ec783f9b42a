"""The tokens of service accounts that the pods of this node have in their volumes.

A token is asked for once and kept until a fifth of its time is left, or for a day, as the kubelet does
(pkg/kubelet/token): volumes are written again and again, and an API server that is away for a while is no
harm. Kept in memory alone.

When it expires is told by the API server's clock. By one that is behind that, a token would be renewed too
late: pods would have one that has expired. So it counts from when it was asked for, by a clock that is not
set and does not stand while the machine sleeps, and for as long as the answer says that it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from mooring.kube.client import Client
from mooring.kube.objects import Pod, ServiceAccount
from mooring.this_boot import boottime
from mooring.volumes.errors import ContentMissing
from mooring.volumes.host import AccountToken

LONGEST_S = 24 * 3600.0
_USED = 0.8

_Key = tuple[str, str, int]
"""Uid of the pod, audience, seconds."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str
    expiration_timestamp: datetime


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    expiration_seconds: int


class _Answer(msgspec.Struct, frozen=True):
    """`spec`: as the API server has granted it, which may be less than was asked for."""

    spec: _Spec
    status: _Status


class _Kept(NamedTuple):
    """Times are the event loop's."""

    made: AccountToken
    renew: float
    expires: float


class AccountTokens:
    """Those of one node's pods. `clock`: seconds, which count on while the machine sleeps."""

    def __init__(self, client: Client, clock: Callable[[], float] = boottime) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[_Key, _Kept] = {}

    async def get(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        """A token of the pod's service account, bound to the pod, for the audience ("": the API server) and
        for that many seconds. One that is old but has not expired is given if no new one can be had. Raises
        ContentMissing if the pod has no service account, and what the API client raises."""
        key, now = (pod.uid, audience, seconds), self._clock()
        kept = self._kept.get(key)
        if kept is not None and now < kept.renew:
            return kept.made
        try:
            self._kept[key] = asked = await self._ask(pod, audience, seconds, now)
        except Exception:
            if kept is None or now >= kept.expires:
                raise
            return kept.made
        self._kept = {key: each for key, each in self._kept.items() if now < each.expires}
        return asked.made

    async def _ask(self, pod: Pod, audience: str, seconds: int, now: float) -> _Kept:
        account = pod.spec.service_account_name
        if not account:
            raise ContentMissing(
                f"pod {pod.key} has a volume that needs a token of its service account, and no serviceAccountName: "
                "name one"
            )
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        spec = {"expirationSeconds": seconds, "boundObjectRef": bound} | (
            {"audiences": [audience]} if audience else {}
        )
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._client.create_raw(
            ServiceAccount, body, name=account, namespace=pod.namespace, sub="token"
        )
        granted = msgspec.json.decode(answer, type=_Answer)
        lasts, token = granted.spec.expiration_seconds, granted.status.token
        made = AccountToken(token, granted.status.expiration_timestamp)
        return _Kept(made, now + min(LONGEST_S, lasts * _USED), now + lasts)
