"""Cron schedules and time zones, as robfig/cron v3 (`ParseStandard`) and Go's time package read them."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = {
    name: n
    for n, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0", re.ASCII)
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def schedule_error(schedule: str) -> str | None:
    """Why a schedule cannot be read, or None."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        if not text or zone_error(zone.partition("=")[2]) is not None:
            return f"provided bad location {zone}"
        text = text.strip()
    if text.startswith("@"):
        return _descriptor_error(text)
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: {fields}"
    pairs = zip(fields, _FIELDS, strict=True)
    return next(
        (
            error
            for field, bounds in pairs
            for part in field.split(",")
            if (error := _part_error(part, *bounds))
        ),
        None,
    )


def _descriptor_error(text: str) -> str | None:
    if text in _NAMED:
        return None
    if text.startswith("@every "):
        return (
            None if _DURATION.fullmatch(text.removeprefix("@every ")) else f"failed to parse duration {text}"
        )
    return f"unrecognized descriptor: {text}"


def _part_error(part: str, low: int, high: int, names: dict[str, int]) -> str | None:
    """A range, perhaps with a step: `*`, `5`, `1-5`, `*/2`, `1-5/2`."""
    if not part:
        return None
    span, *steps = part.split("/")
    ends = span.split("-")
    if len(steps) > 1:
        return f"too many slashes: {part}"
    if span in ("*", "?"):
        start, end = low, high
    elif len(ends) > 2:
        return f"too many hyphens: {part}"
    else:
        errors = [_number(each, names) for each in ends]
        if any(each is None for each in errors):
            return f"failed to parse int from {span}"
        start, end = errors[0] or 0, errors[-1] or 0
        if steps and len(ends) == 1:
            end = high
    step = _number(steps[0], {}) if steps else 1
    if step is None:
        return f"failed to parse int from {steps[0]}"
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return None if step else f"step of range should be a positive number: {part}"


def _number(text: str, names: dict[str, int]) -> int | None:
    if text.lower() in names:
        return names[text.lower()]
    return int(text) if re.fullmatch(r"\+?\d+", text, re.ASCII) else None


def zone_error(zone: str) -> str | None:
    """Why a text is no time zone of the IANA's, or None."""
    if not zone:
        return "timeZone must be nil or non-empty string"
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in parts):
        return f"unknown time zone {zone}"
    if zone.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {zone}"
    return None
