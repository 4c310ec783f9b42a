"""Credentials of the client: fixed ones, and token files that are rotated, which are read again when they
change.

Guarantees: a token file is read again after a minute, and at once when the server did not accept what it
held. A rotation that fails half-way (the file is missing for a moment) keeps the token that worked. No secret
is ever in a message or a representation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

log = structlog.get_logger(component="credentials")

REREAD_S = 60.0


class Credential(NamedTuple):
    """A bearer token, a client certificate with its key (PEM), both, or nothing."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return f"Credential(token={'…' if self.token else None}, certificate={'…' if self.certificate else None})"


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """What to show with the next request. CredentialError if there is nothing to show."""
        ...

    def refused(self, credential: Credential) -> None:
        """The server did not accept it (401): the next `current` looks anew."""
        ...


class Given:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self, credential: Credential) -> None:
        """There is no other."""


class TokenFile:
    """A bearer token in a file that is rotated, beside a client certificate that stays."""

    def __init__(self, path: Path, beside: Credential = Credential()) -> None:  # noqa: B008 - immutable
        self._path = path
        self._held = beside._replace(token=path.read_text().strip())
        self._read_at: float | None = None

    async def current(self) -> Credential:
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now >= self._read_at + REREAD_S:
            self._read_at = now
            self._reread()
        return self._held

    def refused(self, credential: Credential) -> None:
        if credential == self._held:
            self._read_at = None

    def _reread(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, ValueError) as error:
            log.warning("token file not read, the last token is used", path=str(self._path), error=str(error))
            return
        if token:
            self._held = self._held._replace(token=token)
