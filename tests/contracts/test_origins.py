"""Each row of docs/origins.md names where its claim is kept, or says why it is not."""

from __future__ import annotations

import re

import pytest

from .references import MODULE, OTHER, ROOT, TEST

PAGE = ROOT / "docs" / "origins.md"

ROW = re.compile(r"^\| (?!---|origin)(.+) \|$", re.MULTILINE)
WORDS = ("replaced by", "left out")


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
