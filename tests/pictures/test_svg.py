"""The document: well-formed whatever the names are, legible in renderers that know less than a browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from pictures_drawn import pictures

from mooring.pictures.looks import LEGEND, LOOKS, PAINTS, Look
from mooring.pictures.model import Band, Group, Lane, Mark, Panel, Picture, Row
from mooring.pictures.picture import render

HOSTILE = "</text><script>alert(1)</script>'\"&\x00\x1b[2J\u202e"


def picture(name: str) -> Picture:
    row = Row(name, [Lane(name, [Band(1, 2, Look.MOUNTED, silent=True)])])
    panel = Panel([Group(name, [row])], 10, marks=[Mark(3, name)], title=name, notes=[name])
    return Picture(name, [panel], [name], [name])


def tags(text: str) -> set[str]:
    return {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}


@settings(max_examples=100, deadline=None)
@given(pictures)
def test_every_picture_is_well_formed(drawn: Picture):
    assert ET.fromstring(render(drawn)).tag.endswith("svg")


def test_a_hostile_name_is_text_wherever_it_stands():
    text = render(picture(HOSTILE))
    assert tags(text) == tags(render(picture("node-1")))
    assert not {"\x00", "\x1b", "\u202e"} & {*text}


def test_a_name_is_bounded():
    assert len(render(picture("x" * 1_000_000))) < 100_000


def test_nothing_is_fetched_and_nothing_runs():
    text = render(picture("node-1")).replace("http://www.w3.org/2000/svg", "")
    assert not [word for word in ("http", "href", "<script", "onload", "@import") if word in text]


def test_texts_need_no_paint_order_and_no_style_sheet():
    """A halo painted over its own letters hides them; without a style sheet the light paints count."""
    root = ET.fromstring(render(picture("node-1")))
    for element in root.iter():
        assert "paint-order" not in element.attrib
        if element.tag.endswith(("text", "rect")):
            assert "fill" in element.attrib
        if element.tag.endswith("text"):
            assert "stroke" not in element.attrib


def test_every_look_has_a_paint_and_a_word():
    assert {*LOOKS} == {*LEGEND} == {*Look}
    assert {*LOOKS.values()} <= {*PAINTS}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["ink", "faint", "alarm", "wait-ink", "runs"])
def test_texts_stand_out_from_their_paper(theme: str, ink: str):
    values = sorted(luminance(getattr(PAINTS[name], theme)) for name in (ink, "paper"))
    assert (values[1] + 0.05) / (values[0] + 0.05) >= 4.5
