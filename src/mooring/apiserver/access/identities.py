"""Who sends a request: from its bearer token to a user.

A service account's token counts only while the account, and the pod, Secret or Node that it is bound to, are
there with the same uid, as upstream judges it (pkg/serviceaccount/claims.go, legacy tokens excluded).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from mooring.apiserver.access.account_claims import ISSUER, Claims, Named
from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.errors import Unauthorized
from mooring.apiserver.message import User
from mooring.apiserver.store.object_store import Store, decode
from mooring.apiserver.values.dotted import text_at
from mooring.apiserver.values.timestamps import parse

GOING = timedelta(seconds=60)
"""How long a token counts past the time at which what it is bound to should have been deleted."""
_EXTRA = "authentication.kubernetes.io"


class Identities:
    """The users of one server, by the committed state of its store."""

    def __init__(self, tokens: Tokens, store: Store, now: Callable[[], datetime]) -> None:
        self.tokens = tokens
        self._store, self._now = store, now

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """The user of a request's bearer token. Raises Unauthorized."""
        scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized
        return self.user(credentials.strip())

    def user(self, token: str) -> User:
        """The user of a token that is for this server. Raises Unauthorized."""
        return self.review(token, ())[0]

    def review(self, token: str, audiences: Sequence[str]) -> tuple[User, Sequence[str]]:
        """The user of a token, and those of the audiences (none: this server) that it is for. Raises
        Unauthorized."""
        wanted = [*audiences] or [ISSUER]
        if not _is_signed(token):
            return self.tokens.user(token), wanted if audiences else ()
        claims = self.tokens.of_accounts.read(token, wanted, self._now())
        self._check(claims)
        return _user(claims), [each for each in wanted if each in claims.audiences]

    def _check(self, claims: Claims) -> None:
        """Raises Unauthorized unless all that the token names is there."""
        subject = claims.subject
        self._check_one("serviceaccounts", subject.namespace, subject.serviceaccount)
        self._check_one("pods", subject.namespace, subject.pod)
        self._check_one("secrets", subject.namespace, subject.secret)
        if subject.pod is None:  # a pod's token goes with the pod, and so with its node
            self._check_one("nodes", "", subject.node)

    def _check_one(self, resource: str, namespace: str, named: Named | None) -> None:
        if named is None:
            return
        item = self._store.get(resource, (namespace, named.name))
        if item is None or item.uid != named.uid:
            raise Unauthorized
        deleted = text_at(decode(item.body), "metadata.deletionTimestamp")
        if deleted and self._now() > parse(deleted) + GOING:
            raise Unauthorized


def _is_signed(token: str) -> bool:
    """Whether it has the form of a JSON Web Token; the server's other tokens begin with their kind."""
    return token.startswith("ey") and token.isascii()


def _user(claims: Claims) -> User:
    subject = claims.subject
    namespace, account = subject.namespace, subject.serviceaccount
    extra = {f"{_EXTRA}/credential-id": (f"JTI={claims.id}",)}
    for kind, named in (("node", subject.node), ("pod", subject.pod)):
        if named is not None:
            extra |= {f"{_EXTRA}/{kind}-name": (named.name,), f"{_EXTRA}/{kind}-uid": (named.uid,)}
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{account.name}", groups, account.uid, extra)
