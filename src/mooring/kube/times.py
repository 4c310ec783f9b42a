"""RFC 3339 times as the API writes them: seconds for `metav1.Time`, microseconds for `metav1.MicroTime`,
always UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Now = Callable[[], datetime]
"""The wall clock as a parameter: an aware datetime in UTC."""


def wall_clock() -> datetime:
    """The real wall clock; production code receives it as a `Now`, it never calls it by name."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """`metav1.Time`: whole seconds."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def format_micro_time(moment: datetime) -> str:
    """`metav1.MicroTime`: microseconds."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def parse_time(text: str) -> datetime:
    """Either form; ValueError if it is neither."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
