"""A moment as one file: it stands alone, and no name in it becomes markup or script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from mooring.page.export import embedded, standalone
from mooring.page.scripts import as_one
from mooring.page.server import asset

HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028 & ]]>"


class Read(HTMLParser):
    """The elements of a file, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.comments: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", {}))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.texts.append((self.tags[-1][0], data))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def file(moment: object) -> Read:
    return Read(standalone(asset("page.html"), asset("page.css"), as_one(asset), moment))


def test_a_hostile_name_stays_a_text_in_the_state():
    read = file({"volumes": {HOSTILE: {}}})
    assert [tag for tag, _ in read.tags if tag in ("img", "iframe")] == []
    assert [attributes.get("type") for tag, attributes in read.tags if tag == "script"] == [
        "application/json",
        "module",
    ]
    assert read.comments == []
    state = next(text for tag, text in read.texts if tag == "script")
    assert list(json.loads(state)["volumes"]) == [HOSTILE]


def test_no_character_that_ends_an_element_is_left_in_the_state():
    assert not re.search("[<>&\u2028\u2029]", embedded({HOSTILE: HOSTILE}))
    assert json.loads(embedded({HOSTILE: 1})) == {HOSTILE: 1}


def test_the_file_names_no_address():
    read = file({})
    assert [
        (tag, attributes) for tag, attributes in read.tags if {"src", "href", "action"} & attributes.keys()
    ] == []


def test_its_policy_allows_its_own_script_and_style_by_their_hashes_only():
    read = file({})
    policy = next(
        attributes["content"] or "" for tag, attributes in read.tags if attributes.get("http-equiv")
    )
    script = [text for tag, text in read.texts if tag == "script"][1:]
    style = [text for tag, text in read.texts if tag == "style"]
    for name, texts in (("script-src", script), ("style-src", style)):
        hashed = base64.b64encode(hashlib.sha256("".join(texts).encode()).digest()).decode()
        assert f"{name} 'sha256-{hashed}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_a_script_that_would_end_its_element_is_refused():
    with pytest.raises(ValueError, match="would end its element"):
        standalone("", "", "a = '</script>'", {})
