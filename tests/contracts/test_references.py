"""Whatever the code, the tests and the pages refer to is in this repository: files, headings, rules, tests,
names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from .references import FILE, LINK, MODULE, PAGES, ROOT, TEST, anchors, file_names, modules, names

HISTORY = {ROOT / "CHANGELOG.md"}
"""Tells of what was there, too."""
MADE_BY_THE_READER = {"folder_driver.py"}
"""Of the tutorial."""
TEXTS = sorted(
    path
    for folder in ("src", "tests", "docs", "deploy", "benchmarks", "scripts", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".yaml", ".txt", ""}
    and path.is_file()
    and "__pycache__" not in path.parts
)
PAGE = re.compile(
    r"\bdocs/([\w-]+)\.md(?:[,:]? ((?:[CR]\d+b?|[SL]\d+'?|D1|P1)(?:, (?:[CR]\d+b?|[SL]\d+'?))*))?"
)
ELSEWHERE = re.compile(
    r"design section|reference section|\b(?:design|reference) \d"
    r"|\bdesign\.md\b|\breference/\w|(?<!docs/)(?<!\w/)(?<![(\[\x22])\bprotocol\.md\b"
)
"""Documents that are not in this repository, and pages that are named without their folder."""
OWN = Path(__file__)


@cache
def rules(page: str) -> frozenset[str]:
    """The rules, schedules and invariants that a page explains: in headings, and first in the rows of
    tables."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return frozenset(re.findall(r"^(?:### |\| )([A-Z]\d+b?'?)\b", text, re.MULTILINE)) | frozenset(
        re.findall(r"^\| ([SLDP]\d+'?) \|", text, re.MULTILINE)
    )


def broken_links(page: Path) -> Iterator[str]:
    """Links whose file, or heading, is missing."""
    for target, anchor in LINK.findall(page.read_text()):
        there = (page.parent / target).resolve() if target else page
        if not there.exists():
            yield target
        elif anchor and anchor not in anchors(there):
            yield f"{target}#{anchor}"


def missing_names(page: Path) -> Iterator[str]:
    """Modules, what is in them, tests and other files that a page names and that do not exist."""
    text = page.read_text()
    yield from (f"{file}::{test}" for file, test in TEST.findall(text) if test not in names(ROOT / file))
    yield from (file for file in FILE.findall(text) if not any(ROOT.glob(file)))
    for module, attribute in MODULE.findall(text):
        if "/" not in module and not attribute:
            if not modules(module) and module not in file_names() and module not in MADE_BY_THE_READER:
                yield module
        elif not any(not attribute or attribute in names(path) for path in modules(module)):
            yield f"{module}:{attribute}"


def missing_rules(path: Path) -> Iterator[str]:
    """Documents, pages and rules that a text names and that do not exist here."""
    text = path.read_text(errors="replace")
    yield from (found.group() for found in ELSEWHERE.finditer(text))
    for page, named in PAGE.findall(text):
        if not (ROOT / "docs" / f"{page}.md").is_file():
            yield f"docs/{page}.md"
        else:
            yield from (
                f"docs/{page}.md {rule}" for rule in named.split(", ") if rule and rule not in rules(page)
            )


def found(search: Callable[[Path], Iterator[str]], paths: Iterable[Path]) -> list[str]:
    """What the search finds in each of the files."""
    return [f"{path.relative_to(ROOT)}: {each}" for path in paths for each in search(path)]


def test_every_link_of_a_page_leads_to_a_file_and_a_heading() -> None:
    assert not found(broken_links, PAGES)


def test_every_module_name_and_test_that_a_page_names_exists() -> None:
    assert not found(missing_names, (page for page in PAGES if page not in HISTORY))


def test_every_page_rule_and_invariant_that_a_text_names_exists() -> None:
    assert not found(missing_rules, (path for path in TEXTS if path != OWN))


def test_a_reference_that_leads_nowhere_is_found() -> None:
    """Each pattern finds what it is for."""
    assert ELSEWHERE.search("the rules (design section 2; protocol.md C10)")
    assert ELSEWHERE.search("rule C4 of protocol.md")
    assert ELSEWHERE.search("integration (reference 7.1)")
    assert not ELSEWHERE.search("docs/protocol.md C10; [protocol](protocol.md)")
    assert PAGE.findall("docs/protocol.md C5, C6 say") == [("protocol", "C5, C6")]
    assert LINK.findall("[a](b.md#c) [d](https://e/f)") == [("b.md", "c")]
    assert {"R1", "R5", "C1", "C12b", "C16"} <= rules("protocol")
    assert {"S1", "S4'", "S20", "L8", "D1"} <= rules("invariants")
