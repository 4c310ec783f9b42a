"""What is known of each reason code: what it means, what can be done, who says it.

It is read from this package's own file, so also where there is no network. `reason_pages.json` is made of the
code and of docs/reasons.toml (`python -m scripts.docs_site reasons`), as the site's pages are. A
code that is not in it was said by another program, such as upstream's kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("reason_pages.json")
MOST_NEAR = 5
MOST_NAMED = 4
"""Codes that one line names."""
_NEAR = 0.6


@dataclass(frozen=True)
class ReasonPage:
    """`says` are the code's messages, with "…" for what differs; `acts`: there is something to do;
    `said_by` are parts, and `event_types` the types of its events. All are for people, in one line each."""

    code: str
    means: str
    says: tuple[str, ...]
    do: str
    acts: bool
    said_by: tuple[str, ...]
    event_types: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yields the page, a paragraph each."""
        yield self.code
        if self.means:
            yield self.means
        if self.says:
            yield "It says:\n" + "\n".join(f"- {each}" for each in self.says)
        yield f"What to do: {self.do}"
        yield f"Said by {', '.join(self.said_by)}."
        if self.event_types:
            yield f"It is the reason of an event of type {' or '.join(self.event_types)}."


@cache
def pages() -> Mapping[str, ReasonPage]:
    """All pages by code."""
    found = msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, object]])
    return {code: msgspec.convert({"code": code, **held}, ReasonPage) for code, held in found.items()}


def near(code: str) -> list[str]:
    """Returns the codes that were perhaps meant: the same in another case first, then those that are much
    like it, or that have it as a part."""
    by_lower: dict[str, list[str]] = {}
    for each in pages():
        by_lower.setdefault(each.lower(), []).append(each)
    wanted = code.lower()
    alike = [wanted, *get_close_matches(wanted, by_lower, MOST_NEAR, _NEAR)]
    parts = [each for each in by_lower if wanted and (wanted in each)]
    found = (known for each in (*alike, *parts) for known in by_lower.get(each, ()))
    return list(dict.fromkeys(found))[:MOST_NEAR]


def more(codes: Iterable[str]) -> str:
    """Returns the command that prints the pages of these codes; "" if there are none."""
    known = [code for code in dict.fromkeys(codes) if code in pages()]
    return f"mooring reason {' '.join(known[:MOST_NAMED])}" if known else ""
