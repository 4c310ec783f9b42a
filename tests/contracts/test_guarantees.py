"""docs/guarantees.md names a test for each of its sentences. That the tests exist, `test_references`
checks."""

from __future__ import annotations

import re

import pytest

from .references import ROOT, TEST

PAGE = ROOT / "docs" / "guarantees.md"
ROW = re.compile(r"^\| (?!---|guarantee)(.+) \|$", re.MULTILINE)
ROWS = [row for row in ROW.findall(PAGE.read_text()) if row.strip() != "| test"]


def test_there_are_guarantees():
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS)
def test_every_guarantee_names_its_tests(row: str):
    assert TEST.search(row.rpartition(" | ")[2])
