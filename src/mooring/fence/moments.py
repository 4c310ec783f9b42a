"""When something was ordered or read, as evidence says it."""

from __future__ import annotations

from datetime import UTC, datetime


def moment() -> str:
    """Now (RFC 3339, to the millisecond)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
