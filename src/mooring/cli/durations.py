"""Durations as people write them: `90`, `30s`, `5m`, `1h30m`; delays, `200ms`; shares, `10%`."""

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


def parse_delay(text: str) -> float:
    """Seconds: `200ms`, `1.5s`, `0`. A usage error for anything else."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s)|0", text, re.ASCII)
    if match is None:
        raise click.UsageError(f"{text!r} is no delay: it has the form 200ms or 1.5s")
    return float(match[1] or 0) / (1000 if match[2] == "ms" else 1)


def parse_offset(text: str) -> float:
    """Seconds with a sign: `+30s`, `-5m`, `0`. A usage error for anything else."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("+", text)
    try:
        seconds = parse_duration(rest)
    except click.UsageError:
        raise click.UsageError(f"{text!r} is no offset: it has the form +30s or -5m") from None
    return float(-seconds if sign == "-" else seconds)


def parse_percent(text: str) -> float:
    """A share, 0 to 1: `10%`, `0.5%`. A usage error for anything else."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", text, re.ASCII)
    if match is None or float(match[1]) > 100:
        raise click.UsageError(f"{text!r} is no share: it has the form 10%, and is at most 100%")
    return float(match[1]) / 100
