"""Pictures of terminals: each is shown, is what its commands say, and fetches nothing."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest
from scripts import recordings
from scripts.recordings import IMAGES, RECORDINGS, ROOT, in_terminal, of_this_reader

from mooring.cli.main import ROOMS


def words(svg: str) -> str:
    """The text of a picture."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")


def test_each_recording_is_there_and_no_other():
    assert {path.stem for path in IMAGES.glob("terminal-*.svg")} == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_picture_shows_its_commands_which_exist(name: str):
    shown = words((IMAGES / f"{name}.svg").read_text())
    for command in RECORDINGS[name].shown:
        assert f"$ {command}" in shown
        assert command.split()[1] in ROOMS


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_page_shows_it(name: str):
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert any(f"images/{name}.svg)" in page.read_text() for page in pages)


@pytest.mark.parametrize("name", RECORDINGS)
def test_it_fetches_nothing_and_names_no_folder_of_the_machine_that_it_was_made_on(name: str):
    svg = (IMAGES / f"{name}.svg").read_text()
    assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg
    assert "/tmp/" not in svg
    assert str(ROOT) not in svg


def test_a_command_believes_that_it_has_a_terminal():
    printed = in_terminal("test -t 1 && printf 'a\\nb\\n'; echo late >&2", os.environ)
    assert printed == "a\nb\nlate\n"


def test_fonts_and_comments_are_left_out():
    svg = "<svg><!-- x --><style>@font-face { src: url('https://a') }\n.m { font-family: Fira Code, monospace }</style>"
    assert of_this_reader(svg) == (
        "<svg><style>.m { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }</style>"
    )


def test_a_picture_is_made_of_what_is_printed(tmp_path: Path):
    recording = recordings.Recording("two words", ["echo one two"])
    svg = recordings.picture(recording, os.environ)
    assert "$ echo one two" in words(svg)
    assert "one two" in words(svg).replace("$ echo one two", "")
