"""Explanations for people: a tree of causes, each with its time and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from mooring.kube.printable import printable
from mooring.kube.times import parse_time
from mooring.why.cause import Cause
from mooring.why.reason_pages import more

Paint = Callable[[str, str], str]
"""Text and colour ("red", "green", "yellow", "bold") to text; the identity where colour is not wanted."""


def lines(cause: Cause, now: datetime, paint: Paint) -> Iterator[str]:
    """Yields the lines of one explanation as a tree, the object first."""
    if cause.ok:
        yield f"{paint(printable(cause.about), 'bold')}  {paint('ok', 'green')}  {printable(cause.reason.message)}"
        return
    yield from _tree(cause, now, paint, "", "")


def _tree(cause: Cause, now: datetime, paint: Paint, first: str, rest: str) -> Iterator[str]:
    yield f"{first}{_head(cause, cause, now, paint)}"
    bar = f"{rest}│  " if cause.causes else f"{rest}   "
    yield from (
        f"{bar}{printable(line.strip())}" for line in cause.reason.message.splitlines() if line.strip()
    )
    if cause.until:
        yield f"{bar}{printable(cause.then)} {_left(cause, now)}"
    if cause.next_step:
        yield f"{bar}{paint('next:', 'green')} {printable(cause.next_step)}"
    for number, each in enumerate(cause.causes, 1):
        last = number == len(cause.causes)
        branch, below = (f"{rest}└─ ", f"{rest}   ") if last else (f"{rest}├─ ", f"{rest}│  ")
        yield from _tree(each, now, paint, branch, below)


def more_line(cause: Cause, paint: Paint) -> str:
    """Returns the line that names the pages of what the chain of causes ends with; "" if there is none."""
    command = "" if cause.ok else more(root.reason.code for root in cause.roots)
    return f"{paint('more:', 'green')} {command}" if command else ""


def one_line(cause: Cause, now: datetime, paint: Paint) -> str:
    """Returns the object, and where its chain of causes ends, in one line."""
    root = next(cause.roots)
    return f"{_head(cause, root, now, paint)}  {_end(cause)}"


def reason_line(cause: Cause) -> str:
    """Returns where the chain of causes ends, without the object that it began with, and without times."""
    return f"{printable(next(cause.roots).reason.code)}  {_end(cause)}"


def _end(cause: Cause) -> str:
    root = next(cause.roots)
    whence = "" if root is cause else f"{root.about}: "
    return printable(f"{whence}{' '.join(root.reason.message.split())}")


def _head(about: Cause, why: Cause, now: datetime, paint: Paint) -> str:
    return f"{paint(printable(about.about), 'bold')}  {paint(printable(why.reason.code), 'yellow')}{_age(why, now)}"


def _left(cause: Cause, now: datetime) -> str:
    seconds = round((parse_time(cause.until) - now).total_seconds())
    return f"in {seconds}s" if seconds > 0 else "now"


def _age(cause: Cause, now: datetime) -> str:
    if not cause.since:
        return ""
    seconds = max(int((now - parse_time(cause.since)).total_seconds()), 0)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"  for {seconds // length}{unit} (since {cause.since})"
    return f"  for {seconds}s (since {cause.since})"
