"""The service account controller. A key is a namespace."""

from __future__ import annotations

import contextlib
from random import Random
from typing import assert_never

from mooring.controllers.serviceaccounts.decide import ACCOUNT, KEY, ROOT, AccountDecision, Action, decide
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.objects import ConfigMap, Namespace, Object, ServiceAccount
from mooring.kube.selectors import field_equals
from mooring.kube.times import Now


class ServiceAccountController(Controller[str]):
    """Upstream's service account controller and root-ca-certificate-publisher. `authority`: PEM."""

    name = "service-account-controller"

    def __init__(self, client: Client, *, now: Now, random: Random, authority: str = "") -> None:
        super().__init__(client, now=now, random=random)
        self._authority = authority
        self._namespaces = self.watch(Namespace, lambda namespace: [namespace.name])
        self._accounts = self.watch(
            ServiceAccount, _namespace, field_selector=field_equals("metadata.name", ACCOUNT)
        )
        self._roots = self.watch(ConfigMap, _namespace, field_selector=field_equals("metadata.name", ROOT))

    async def reconcile(self, key: str) -> None:
        """Makes what one namespace lacks."""
        namespace = self._namespaces.get(key)
        if namespace is None:
            return
        root = self._roots.get(f"{key}/{ROOT}")
        decisions = decide(namespace, self._accounts.get(f"{key}/{ACCOUNT}"), root, self._authority)
        await one_by_one(decisions, lambda decision: self._try(decision, key, root))

    async def _try(self, decision: AccountDecision, namespace: str, root: ConfigMap | None) -> None:
        """What another process has made, the watch will say, and that the namespace ends or has gone. What is
        refused for another reason (a quota, an admission webhook) is tried again."""
        with contextlib.suppress(AlreadyExists, NotFound):
            await self._carry_out(decision, namespace, root)

    async def _carry_out(self, decision: AccountDecision, namespace: str, root: ConfigMap | None) -> None:
        published = {"data": {KEY: self._authority}}
        match decision.action:
            case Action.CREATE_ACCOUNT:
                body = {"metadata": {"name": ACCOUNT}}
                self._accounts.accept(await self.client.create(ServiceAccount, body, namespace))
            case Action.CREATE_ROOT:
                body = {"metadata": {"name": ROOT}, **published}
                self._roots.accept(await self.client.create(ConfigMap, body, namespace))
            case Action.MEND_ROOT:
                assert root is not None
                surplus = dict.fromkeys(key for key in root.data if key != KEY)
                self._roots.accept(
                    await self.client.revise(root, {"data": {**surplus, KEY: self._authority}})
                )
            case Action.SETTLED:
                pass
            case _:
                assert_never(decision.action)


def _namespace(obj: Object) -> list[str]:
    return [obj.namespace]
