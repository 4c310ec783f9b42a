"""Credentials of the client: fixed ones, and those in files that are rotated (tokens, client certificates),
which are read again when they change.

Guarantees: files are read again after a minute, and at once when the server did not accept what they held. A
rotation that is half-way (a file is missing for a moment, a certificate is not of its key yet) keeps what
worked. No secret is ever in a message or a representation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


class Files:
    """What is in files that are rotated. `read` reads all of them: it raises OSError or ValueError where they
    cannot be used."""

    def __init__(self, read: Callable[[], Credential]) -> None:
        self._read = read
        self._held = read()
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
            fresh = self._read()
        except (OSError, ValueError) as error:
            log.warning("credentials not read, the last ones are used", error=str(error))
            return
        held = self._held  # of what is empty for a moment, the last one is used
        self._held = Credential(
            fresh.token or held.token, fresh.certificate or held.certificate, fresh.key or held.key
        )


def token_in(path: Path) -> str:
    """The bearer token in a file. Raises OSError or ValueError."""
    return path.read_text().strip()


class TokenFile(Files):
    """A bearer token in a file that is rotated."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: Credential(token_in(path)))
