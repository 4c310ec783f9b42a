"""Writes that were decided in a copy of the process, on their way to the store of the process itself. Pure.

A rehearsed write carries a placeholder for its version: a number so high that no store reaches it, drawn at
random so that no client can put it into an object. When the write is made, its real version replaces the
placeholder in the stored bytes and in the answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from secrets import choice

from mooring.apiserver.store.history import ChangeType, Item, Key

_PLACEHOLDERS = range(10**17, 10**18)


def version_bytes(version: int) -> bytes:
    """A version as it stands in the JSON of an object."""
    return b'"resourceVersion":"%d"' % version


@dataclass(slots=True)
class Rehearsal:
    """The writes of a decision, in order, and the version of each object that it read; 0 for one that does
    not exist."""

    first_version: int = field(default_factory=lambda: choice(_PLACEHOLDERS))
    writes: list[tuple[str, ChangeType, Item]] = field(default_factory=list[tuple[str, ChangeType, Item]])
    seen: dict[tuple[str, Key], int] = field(default_factory=dict[tuple[str, Key], int])

    def note(self, resource: str, key: Key, item: Item | None) -> None:
        """The newest state of an object, the first time that it is looked at."""
        self.seen.setdefault((resource, key), item.version if item else 0)


@dataclass(slots=True)
class Performed:
    """The writes of a rehearsal in progress: the future of each, and the real version for each
    placeholder."""

    done: list[asyncio.Future[Item]] = field(default_factory=list[asyncio.Future[Item]])
    versions: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])

    def renumbered(self, body: bytes) -> bytes:
        """A body with the versions that the writes have now."""
        for rehearsed, made in self.versions:
            body = body.replace(rehearsed, made)
        return body
