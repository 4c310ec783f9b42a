"""Authentication: from bearer tokens to users. What they may do is decided by `authorizer`.

Pure but for the secret that tokens are made from.
"""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from mooring.apiserver.access.roles import ROLES
from mooring.apiserver.errors import Unauthorized
from mooring.apiserver.message import ADMIN, User, node_user, role_user

ANONYMOUS_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class Tokens:
    """Tokens made from one secret: a node's is derived from its name, so it can be minted while a server is
    running."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signatures = lru_cache(maxsize=1024)(self._sign)

    def admin(self) -> str:
        """The administrator's token."""
        return f"admin.{self._signatures('admin')}"

    def node(self, name: str) -> str:
        """The token of node `name`."""
        return f"node.{name}.{self._signatures(f'node:{name}')}"

    def role(self, name: str) -> str:
        """The token of a role (`authorization.roles`)."""
        return f"role.{name}.{self._signatures(f'role:{name}')}"

    def endpoint(self, name: str) -> str:
        """What this server shows to the agent of node `name`. It opens nothing here."""
        return self._sign(f"endpoint:{name}")

    def user(self, token: str) -> User:
        """Whose token it is. Raises Unauthorized."""
        if not token.isascii():  # no token has other letters, and not every text can be encoded
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


def authenticate(headers: Mapping[str, str], tokens: Tokens) -> User:
    """The user of a request's bearer token. Raises Unauthorized."""
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized
    return tokens.user(credentials.strip())
