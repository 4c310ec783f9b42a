"""What a namespace lacks for its pods' sake. Pure; rules of upstream's service account controller and of its
publisher of root certificates."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import ConfigMap, Namespace, ServiceAccount
from mooring.kube.reason import Reason

ACCOUNT, ROOT = "default", "kube-root-ca.crt"
"""The names of both in every namespace."""
KEY = "ca.crt"


class Action(Enum):
    """What to do about one of the two."""

    CREATE_ACCOUNT = "CreateAccount"
    CREATE_ROOT = "CreateRoot"
    MEND_ROOT = "MendRoot"  # it says something else
    SETTLED = "Settled"


AccountDecision = Decision[Action]


def decide(
    namespace: Namespace, account: ServiceAccount | None, root: ConfigMap | None, authority: str
) -> Iterator[AccountDecision]:
    """One decision for each of the two. `authority`: the certificate (PEM) that the API server is known by;
    "" if it has none of its own, and then none is published."""
    if namespace.deleting or namespace.status.phase == "Terminating":
        yield Decision(Action.SETTLED, Reason("NamespaceTerminating", f"namespace {namespace.name} ends"))
        return
    if account is None:
        yield Decision(
            Action.CREATE_ACCOUNT,
            Reason("AccountMissing", f"namespace {namespace.name} has no service account {ACCOUNT}"),
        )
    if authority:
        yield _about_root(namespace, root, authority)


def _about_root(namespace: Namespace, root: ConfigMap | None, authority: str) -> AccountDecision:
    where = f"ConfigMap {namespace.name}/{ROOT}"
    if root is None:
        return Decision(Action.CREATE_ROOT, Reason("RootMissing", f"{where} does not exist"))
    if root.data == {KEY: authority}:
        return Decision(Action.SETTLED, Reason("RootPublished", f"{where} has the API server's authority"))
    return Decision(
        Action.MEND_ROOT, Reason("RootDiffers", f"{where} has another authority than the API server")
    )
