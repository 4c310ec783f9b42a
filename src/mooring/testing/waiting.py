"""Waiting until something holds, and what is said where it never does."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import TypeVar

from mooring.kube.errors import KubeError
from mooring.kube.printable import printable

Found = TypeVar("Found")
EVERY_S = 0.05
LONGEST = 4000
"""Characters of what was seen last, and of a line of it."""
_LONGEST_LINE = 400


class NotYet(AssertionError):
    """What was waited for did not come. The message has what was seen last, and what explains it."""


def until(holds: Callable[[], Found], within: float, explain: Callable[[], str]) -> Found:
    """Returns what `holds` gives once that is true. An AssertionError or a KubeError of it means "not yet".

    Raises NotYet after `within` seconds, with what `explain` says then.
    """
    __tracebackhide__ = True
    end = time.monotonic() + within
    while True:
        error: AssertionError | KubeError | None = None
        seen: object = None
        try:
            found = holds()
            if found:
                return found
            seen = found
        except (AssertionError, KubeError) as caught:
            error = caught
        if time.monotonic() >= end:
            raise NotYet(_in_vain(holds, within, seen, error, explain())) from error
        time.sleep(EVERY_S)


def _in_vain(
    holds: Callable[[], object], within: float, seen: object, error: Exception | None, explained: str
) -> str:
    last = f"{type(error).__name__}: {error}" if error is not None else repr(seen)
    lines = [f"not so within {within:g} s: {_source(holds)}", f"last seen: {_bounded(last)}"]
    return "\n".join([*lines, explained] if explained else lines)


def _bounded(text: str) -> str:
    """What is seen comes from a cluster: its lines are kept, and nothing in it acts upon a terminal."""
    lines = [printable(line)[:_LONGEST_LINE] for line in text[:LONGEST].splitlines()]
    return "\n  ".join(lines) + (" ..." if len(text) > LONGEST else "")


def _source(holds: Callable[[], object]) -> str:
    """The condition as it is written, as far as Python knows it: a function by its name, a lambda by its
    line."""
    name = getattr(holds, "__name__", "")
    if name and name != "<lambda>":
        return name
    try:
        return " ".join(inspect.getsource(holds).split())[:300]
    except (OSError, TypeError):
        return repr(holds)[:300]
