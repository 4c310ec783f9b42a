"""The pages of the reason codes: what each means, who says it, and what can be done about it.

Which codes there are is read from the code (`declared`); what can be done is in docs/reasons.toml.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .commands import anchor, cell, text
from .declared import Declared, reasons

ADVICE = Path(__file__).parents[2] / "docs" / "reasons.toml"
SETTLED = "Nothing: it is as it should be."
UNDER_WAY = "Nothing: it goes on by itself. If it lasts, `mooring why` says what it waits for."
FOLDER = "reasons"
DATA = Path(__file__).parents[2] / "src/mooring/why/reason_pages.json"
_PARTS = {
    "controllers": "the controller `{}`",
    "node": "the node agent",
    "why": "`mooring why`",
    "kube": "the controllers of sets of pods",
    "volumes": "whichever part resolves a pod's volumes",
    "csi": "the CSI plugin",
}


@dataclass(frozen=True)
class Reason:
    """A code, what it means, and what to do."""

    declared: Declared
    means: str
    do: str
    acts: bool

    @property
    def code(self) -> str:
        return self.declared.code


@cache
def advice() -> Mapping[str, Reason]:
    """All reasons by code. Raises KeyError for a code about which docs/reasons.toml says nothing."""
    given = tomllib.loads(ADVICE.read_text())
    quiet = dict.fromkeys(given["settled"], SETTLED) | dict.fromkeys(given["under_way"], UNDER_WAY)
    found: dict[str, Reason] = {}
    for code, declared in reasons().items():
        do = given["act"].get(code) or quiet[code]
        found[code] = Reason(declared, given["means"].get(code, ""), do, code in given["act"])
    return found


def pages() -> Iterator[tuple[str, str]]:
    """File names and texts: the table of all, and a page for each code."""
    by_file: dict[str, list[Reason]] = {}
    for reason in advice().values():
        by_file.setdefault(file_of(reason.code), []).append(reason)
    yield "reasons.md", _table(advice().values())
    for name, held in by_file.items():
        yield f"{FOLDER}/{name}.md", "\n".join(line for reason in held for line in _page(reason))


def file_of(code: str) -> str:
    """Without a suffix. Codes that differ in case only share a page: some file systems know no case."""
    return code.lower()


def _table(held: Iterable[Reason]) -> str:
    lines = [
        "# Reason codes",
        "",
        "Every decision has a reason: a code, which is stable, and a sentence. Events, metric labels and "
        "[`mooring why`](../why.md) are those reasons. Each code has a page that says what can be done.",
        "",
        "| code | what it means | |",
        "|---|---|---|",
    ]
    for reason in held:
        where = f"{FOLDER}/{file_of(reason.code)}.md#{anchor(reason.code)}"
        about = cell(reason.means or shown(reason.declared.says[0]))
        lines.append(f"| [{reason.code}]({where}) | {about} | {'to do' if reason.acts else ''} |")
    return "\n".join(lines) + "\n"


def shown(says: str) -> str:
    """A message for readers."""
    return says.removeprefix(": ").replace("{...}", "…").strip()


def _page(reason: Reason) -> Iterator[str]:
    yield from (f"# {reason.code}", "")
    if reason.means:
        yield from (reason.means, "")
    if reason.declared.says:
        yield from ("It says:", "")
        yield from (f"- {text(shown(says))}" for says in reason.declared.says)
        yield ""
    # links of the advice are as from a page of reference/
    do = reason.do.replace("](../", "](../../")
    yield from ("**What to do.** " + do, "", f"Said by {', '.join(_by(reason.declared.where))}.", "")
    if reason.declared.types:
        yield from (f"It is the reason of an event of type {' or '.join(sorted(reason.declared.types))}.", "")
    yield from ("[All reason codes](../reasons.md)", "")


def data() -> str:
    """src/mooring/why/reason_pages.json: what `mooring reason` prints. A line for each code, so that changes of
    different codes meet in no line."""
    also = tomllib.loads(ADVICE.read_text())["also"]
    held = {code: _held(reason) for code, reason in advice().items()}
    held |= {other: held[code] for other, code in also.items()}
    lines = [f"{json.dumps(code)}: {json.dumps(held[code], ensure_ascii=False)}" for code in sorted(held)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _held(reason: Reason) -> dict[str, object]:
    return {
        "means": _plain(reason.means),
        "says": [shown(says) for says in reason.declared.says],
        "do": _plain(reason.do),
        "acts": reason.acts,
        "said_by": [_plain(each) for each in _by(reason.declared.where)],
        "event_types": sorted(reason.declared.types),
    }


def _plain(markdown: str) -> str:
    """For terminals: a link to a page names it."""
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (docs/\2)", markdown)


def _by(modules: Iterable[str]) -> list[str]:
    said: dict[str, None] = {}
    for module in modules:
        room, *rest = module.split("/")
        said[_PARTS.get(room, f"`{room}`").format(rest[0] if rest else room)] = None
    return list(said)
