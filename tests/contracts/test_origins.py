"""docs/origins.md names modules, attributes and tests: each of them exists, and no row is without a word."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "origins.md"
MODULE = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
OTHER = re.compile(r"`((?:tests|docs|examples)/[\w./-]+)`")
ROW = re.compile(r"^\| (?!---|origin)(.+) \|$", re.MULTILINE)
WORDS = ("replaced by", "not yet", "left out")


@cache
def names(path: Path) -> frozenset[str]:
    """Every top-level name of a module, and every member of its classes as Class.member."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found |= _named(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member}" for each in node.body for member in _named(each)}
    return frozenset(found)


def _named(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


def module_path(name: str) -> Path:
    return ROOT / name if name.startswith("tests/") else ROOT / "src" / "mooring" / name


@pytest.mark.parametrize(("module", "attribute"), sorted(set(MODULE.findall(PAGE.read_text()))))
def test_every_module_and_attribute_exists(module: str, attribute: str):
    path = module_path(module)
    assert path.is_file(), path
    assert not attribute or attribute in names(path), f"{path} has no {attribute}"


@pytest.mark.parametrize(("file", "test"), sorted(set(TEST.findall(PAGE.read_text()))))
def test_every_test_exists(file: str, test: str):
    assert test in names(ROOT / file), f"{file} has no {test}"


@pytest.mark.parametrize("path", sorted(set(OTHER.findall(PAGE.read_text()))))
def test_every_other_file_exists(path: str):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("row", ROW.findall(PAGE.read_text()))
def test_every_row_names_where_it_is_or_says_why_it_is_not(row: str):
    where = row.split(" | ", 1)[1]
    assert (
        MODULE.search(where)
        or TEST.search(where)
        or OTHER.search(where)
        or any(word in where for word in WORDS)
    )


def test_each_of_the_five_documents_has_its_part():
    assert re.findall(r"^## ([A-E])\. ", PAGE.read_text(), re.MULTILINE) == list("ABCDE")
