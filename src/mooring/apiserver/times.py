"""Kubernetes' wall-clock stamps: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime


def stamp(when: datetime) -> str:
    """`when` as Kubernetes prints it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """The moment of an RFC 3339 stamp. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)
