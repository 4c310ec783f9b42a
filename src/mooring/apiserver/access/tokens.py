"""Tokens of the administrator, of nodes and of roles, and the users that they make. `identities` reads the
tokens of requests, `authorizer` decides what a user may do.

It derives all tokens from one secret and keeps no other state.
"""

from __future__ import annotations

import hmac
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from mooring.apiserver.access.roles import ROLES
from mooring.apiserver.errors import Unauthorized
from mooring.apiserver.message import ADMIN, User, node_user, role_user

if TYPE_CHECKING:
    from mooring.apiserver.access.account_tokens import AccountTokens

ANONYMOUS_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class Tokens:
    """Tokens made from one secret. A token is derived from its user's name, so another process that has the
    secret can mint it while a server is running."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signatures = lru_cache(maxsize=1024)(self._sign)

    @cached_property
    def of_accounts(self) -> AccountTokens:
        """Those of service accounts."""
        from mooring.apiserver.access.account_tokens import AccountTokens

        return AccountTokens(hmac.digest(self._secret, b"service accounts", "sha256"))

    def admin(self) -> str:
        """The administrator's token."""
        return f"admin.{self._signatures('admin')}"

    def node(self, name: str) -> str:
        """The token of node `name`."""
        return f"node.{name}.{self._signatures(f'node:{name}')}"

    def role(self, name: str) -> str:
        """The token of a role (`roles`)."""
        return f"role.{name}.{self._signatures(f'role:{name}')}"

    def endpoint(self, name: str) -> str:
        """The token with which this server authenticates itself to the agent of node `name`. It is not valid
        here."""
        return self._sign(f"endpoint:{name}")

    def user(self, token: str) -> User:
        """The user of the token. Raises Unauthorized."""
        if not token.isascii():  # no valid token has other letters, and lone surrogates cannot be encoded
            raise Unauthorized
        kind, _, name = token.rpartition(".")[0].partition(".")
        match kind:
            case "node" if name:
                expected, user = self.node(name), node_user(name)
            case "role" if name in ROLES:
                expected, user = self.role(name), role_user(name)
            case _:
                expected, user = self.admin(), ADMIN
        if not hmac.compare_digest(token.encode(), expected.encode()):
            raise Unauthorized
        return user

    def _sign(self, subject: str) -> str:
        return hmac.new(self._secret, subject.encode(), sha256).hexdigest()
