"""docs/plugins.md says of each bundled plugin what its code declares."""

from __future__ import annotations

import re

from tests.plugin_table import PAGE, bundled, page_with, table


def test_the_table_is_what_the_plugins_declare():
    assert PAGE.read_text() == page_with(table()), "write it anew: python -m tests.plugin_table"


def test_every_bundled_plugin_is_described():
    described = set(
        re.findall(r"^\| `([^`]+)` \| ", PAGE.read_text().partition("What they declare")[0], re.MULTILINE)
    )
    assert bundled().keys() <= described
