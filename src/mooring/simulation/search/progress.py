"""Stores the progress of a campaign in one file, so that it can be stopped and go on later.

The file is replaced as a whole, so it is never half written. A campaign of other content is refused.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from mooring.simulation.search.summary import Summary

EVERY_S = 5.0
"""How often the file is written, in seconds of real time."""
NAME = "progress.json"


class SavedProgressError(Exception):
    """The directory keeps the progress of another campaign."""


class SavedProgress:
    """`what` says which campaign it is. `batches` done are kept as ranges."""

    def __init__(self, directory: Path, what: str) -> None:
        self._path = directory / NAME
        self._what = what
        self._summary = Summary()
        self._done: set[int] = set()
        self._written = 0.0
        directory.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._read()

    def _read(self) -> None:
        kept = msgspec.json.decode(self._path.read_bytes(), type=dict[str, msgspec.Raw])
        what = msgspec.json.decode(kept["what"], type=str)
        if what != self._what:
            raise SavedProgressError(
                f"{self._path} keeps the progress of another campaign ({what}), not of {self._what}; "
                "give another directory, or remove this one"
            )
        self._summary = msgspec.json.decode(kept["summary"], type=Summary)
        for first, last in msgspec.json.decode(kept["done"], type=list[tuple[int, int]]):
            self._done.update(range(first, last + 1))

    def done(self, number: int) -> bool:
        """Whether this batch was played."""
        return number in self._done

    def so_far(self) -> Summary:
        """What came of all batches that were played."""
        return self._summary

    def note(self, number: int, summary: Summary) -> None:
        """One more batch was played; `summary` is of all."""
        self._done.add(number)
        self._summary = summary
        if time.monotonic() - self._written > EVERY_S:
            self.write()

    def write(self) -> None:
        """Puts it on disk."""
        self._written = time.monotonic()
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(
            msgspec.json.encode({"what": self._what, "done": _ranges(self._done), "summary": self._summary})
        )
        os.replace(fresh, self._path)


def _ranges(numbers: set[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
