"""Kubernetes' wall-clock stamps: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(when: datetime) -> str:
    """`when` as Kubernetes prints it."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def since(text: str, now: datetime) -> str:
    """How long ago a stamp was, as kubectl prints it: `5m10s`, `3h`, `2d4h`; `<unknown>` for no stamp."""
    return human((now - parse(text)).total_seconds()) if text else "<unknown>"


def human(duration: float) -> str:
    """A duration in seconds in at most two units, the coarser the longer (apimachinery's `HumanDuration`)."""
    seconds = int(duration)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    for limit, coarse, fine in (
        (minutes < 10, f"{minutes}m", (seconds % 60, "s")),
        (minutes < 180, f"{minutes}m", (0, "")),
        (hours < 8, f"{hours}h", (minutes % 60, "m")),
        (hours < 48, f"{hours}h", (0, "")),
        (hours < 192, f"{days}d", (hours % 24, "h")),
        (days < 730, f"{days}d", (0, "")),
        (days < 2920, f"{days // 365}y", (days % 365, "d")),
    ):
        if limit:
            return coarse + (f"{fine[0]}{fine[1]}" if fine[0] else "")
    return f"{days // 365}y"


def parse(text: str) -> datetime:
    """The moment of an RFC 3339 stamp. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)
