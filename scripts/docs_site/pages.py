"""The pages of the repository, as the site has them: links follow, and what is not on the site is named instead.

A page of docs/ keeps its path; those beside it (CONTRIBUTING.md, ...) are below project/.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^\s*(```|~~~)")
_ITEM = re.compile(r"^(\s*)([-*]|\d+\.) ")


def copied() -> Mapping[Path, str]:
    """Every page of the repository that the site has, and its path there."""
    found = {path: str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))}
    return found | {ROOT / name: f"project/{name.lower()}" for name in PROJECT}


def write(folder: Path) -> None:
    """All pages and pictures, in the folder."""
    for source, where in copied().items():
        target = folder / where
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(source.read_text(), source))
    shutil.copytree(DOCS / "images", folder / "images", dirs_exist_ok=True)


def page(text: str, source: Path) -> str:
    """The text of a page, for the site."""
    lines: list[str] = []
    prose: list[str] = []  # a link may go on on the next line
    for line, is_code in _lines(text):
        if is_code:
            lines += _linked(prose, source)
            prose = []
            lines.append(line)
            continue
        if _ITEM.match(line) and prose and prose[-1].strip() and not _within_list(prose):
            prose.append("")  # where GitHub needs no empty line before a list
        prose.append(line)
    return "\n".join([*lines, *_linked(prose, source)]) + "\n"


def _linked(prose: list[str], source: Path) -> list[str]:
    return _LINK.sub(lambda found: _link(found, source), "\n".join(prose)).split("\n") if prose else []


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
            yield line, True
        elif found and found[1] == fence:
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def _within_list(lines: list[str]) -> bool:
    """Whether the paragraph before is an item of a list, or goes on with one."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if _ITEM.match(line):
            return True
        if not line.startswith(" "):
            return False
    return False


def _link(found: re.Match[str], source: Path) -> str:
    picture, shown, target, anchor = found[1], found[2], found[3], found[4] or ""
    if not target:
        return found[0]
    there = (source.parent / target).resolve()
    here = Path(copied()[source]).parent
    if (where := copied().get(there)) is not None:
        return f"[{shown}]({os.path.relpath(where, here)}{anchor})"
    if there.is_relative_to(DOCS / "images"):
        return f"{picture}[{shown}]({os.path.relpath(there.relative_to(DOCS), here)})"
    named = f"`{os.path.relpath(there, ROOT)}`"
    plain = shown.strip("`")
    return named if plain in (target, target.rstrip("/"), os.path.relpath(there, ROOT)) else f"{shown} ({named})"
