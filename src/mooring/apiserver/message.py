"""Requests and responses as plain values, independent of the transport.

`mooring.apiserver.transport.http` translates HTTP into these; in-process callers build them directly. This
module knows nothing of Kubernetes objects or of any web framework.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

Sink: TypeAlias = Callable[[bytes], bool]
"""Takes a piece of a stream without waiting. Returns False if it did not take it, because it is full or
gone."""


class User(msgspec.Struct, frozen=True):
    """The user of a request. `system:masters` may do anything, `system:nodes` what a node needs."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_admin(self) -> bool:
        return "system:masters" in self.groups

    @property
    def node_name(self) -> str | None:
        """The name of the node whose user this is; None for other users."""
        if "system:nodes" in self.groups and self.name.startswith("system:node:"):
            return self.name.removeprefix("system:node:")
        return None

    @property
    def is_service_account(self) -> bool:
        return "system:serviceaccounts" in self.groups

    @property
    def role(self) -> str | None:
        """The role of a part that is neither administrator nor node (`access.roles`), or None."""
        return self.name.removeprefix(_ROLE) if self.name.startswith(_ROLE) else None


_ROLE = "system:mooring:"
ADMIN = User("admin", ("system:masters", "system:authenticated"))


@lru_cache(maxsize=1024)
def node_user(name: str) -> User:
    """The user that node `name`'s credential authenticates as."""
    return User(f"system:node:{name}", ("system:nodes", "system:authenticated"))


def role_user(role: str) -> User:
    """The user that a role's credential authenticates as."""
    return User(f"{_ROLE}{role}", ("system:authenticated",))


class Request(msgspec.Struct, frozen=True):
    """One request. `path` carries no query; `headers` have lower-case names; `query` keeps order and
    repetition.

    `user` is set by a caller in the same process that has authenticated the user itself; when it is None the
    server authenticates the bearer token of the `authorization` header.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: User | None = None
    sink: Sink | None = None
    """Where a watch may write new events itself while the reader of its stream waits."""
    warnings: list[str] = []
    """Warnings for the client beside the answer; the code that answers adds to it."""

    def by(self, user: User) -> Request:
        """The same, of a user that has been authenticated."""
        if user is self.user:
            return self
        return Request(
            self.method,
            self.path,
            self.query,
            self.headers,
            self.body,
            user,
            sink=self.sink,
            warnings=self.warnings,
        )

    def parameter(self, name: str) -> str:
        """The first value of a query parameter, or the empty string."""
        return next((value for key, value in self.query if key == name), "") if self.query else ""

    def flag(self, name: str) -> bool:
        """A boolean query parameter, read as upstream reads it: anything but `false` and `0` is true."""
        return bool(self.query) and any(
            key == name and value.lower() not in ("false", "0") for key, value in self.query
        )


class Response(msgspec.Struct, frozen=True):
    """One answer: either a whole `body`, or a `stream` of chunks (a watch) that must be closed with
    `aclose()`."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
