"""What a program's words lead to, also where they stand behind more than is told."""

from __future__ import annotations

import pytest

from mooring.volumes.plugins.network_mount import advice
from mooring.volumes.plugins.programs import MESSAGE_CHARACTERS, Ended

TABLE = [("no such volume", "correct the volume's name"), ("timed out", "the server does not answer")]


@pytest.mark.parametrize("path", ["/p", "/p" * MESSAGE_CHARACTERS], ids=["short", "long"])
def test_what_to_do_follows_from_all_that_was_said(path: str):
    told = advice(Ended(32, errors=f"mount: {path}: no such volume\n"), TABLE)
    assert told.startswith("correct the volume's name (exit status 32")
    assert len(told) < MESSAGE_CHARACTERS + 100


def test_words_that_a_line_breaks_are_found():
    assert advice(Ended(1, output="the mount timed\nout"), TABLE).startswith("the server does not answer")


def test_what_is_not_known_is_told_as_it_is():
    assert advice(Ended(5, errors="odd"), TABLE) == "exit status 5: odd"
