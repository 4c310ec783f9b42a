"""The tokens of service accounts that the pods of this node have in their volumes.

A token is asked for once and kept until a fifth of its time is left, or for a day, as the kubelet does
(pkg/kubelet/token): volumes are written again and again, and an API server that is away for a while is no
harm. Kept in memory alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from mooring.kube.client import Client
from mooring.kube.objects import Pod, ServiceAccount
from mooring.volumes.errors import ContentMissing
from mooring.volumes.host import AccountToken

LONGEST = timedelta(hours=24)
_USED = 0.8

_Key = tuple[str, str, int]
"""Uid of the pod, audience, seconds."""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str
    expiration_timestamp: datetime


class _Answer(msgspec.Struct, frozen=True):
    status: _Status


class _Kept(NamedTuple):
    made: AccountToken
    renew: datetime


class AccountTokens:
    """Those of one node's pods."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client, self._now = client, now
        self._kept: dict[_Key, _Kept] = {}

    async def get(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        """A token of the pod's service account, bound to the pod, for the audience ("": the API server) and
        for that many seconds. One that is old but has not expired is given if no new one can be had. Raises
        ContentMissing if the pod has no service account, and what the API client raises."""
        key, now = (pod.uid, audience, seconds), self._now()
        kept = self._kept.get(key)
        if kept is not None and now < kept.renew:
            return kept.made
        try:
            self._kept[key] = asked = await self._ask(pod, audience, seconds, now)
        except Exception:
            if kept is None or now >= kept.made.expires:
                raise
            return kept.made
        self._kept = {key: each for key, each in self._kept.items() if now < each.made.expires}
        return asked.made

    async def _ask(self, pod: Pod, audience: str, seconds: int, now: datetime) -> _Kept:
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
        status = msgspec.json.decode(answer, type=_Answer).status
        expires = status.expiration_timestamp
        renew = now + min(LONGEST, (expires - now) * _USED)
        return _Kept(AccountToken(status.token, expires), renew)
