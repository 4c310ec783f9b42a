"""Text from other parties cannot control a terminal or forge a line of a log."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.printable import counted, printable


@given(st.text())
def test_no_character_is_left_that_a_terminal_acts_upon(text: str):
    made = printable(text)
    assert not [char for char in made if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert len(made.splitlines()) <= 1


@pytest.mark.parametrize(("text", "shown"), [
    ("web-0", "web-0"),
    ("Größe 容量 ✓ →", "Größe 容量 ✓ →"),
    ("a\nlevel=error", "a\\nlevel=error"),
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
    ("\x9b2J\r\ud800", "\\x9b2J\\r\\ud800"),
])  # fmt: skip
def test_how_text_is_shown(text: str, shown: str):
    assert printable(text) == shown


def test_one_thing_is_not_counted_as_several():
    assert [counted(number, "volume") for number in (0, 1, 2)] == ["0 volumes", "1 volume", "2 volumes"]
