"""Why something was decided: the one form in which controllers, events, metrics and `mooring why` say it."""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """`code` is CamelCase and stable (an event reason, a metric label); `message` is a sentence for a
    person."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
