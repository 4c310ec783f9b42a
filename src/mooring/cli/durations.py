"""Durations as people write them: `90`, `30s`, `5m`, `1h30m`."""

from __future__ import annotations

import re

import click

_UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_duration(text: str) -> int:
    """Seconds: `90`, `30s`, `5m`, `1h30m`. A usage error for anything else."""
    parts = re.findall(r"(\d+)([smh]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.UsageError(f"{text!r} is no duration: it has the form 30s, 5m or 1h30m")
    return sum(int(number) * _UNITS[unit or "s"] for number, unit in parts)
