"""Questions, statements and words on the wire: what is read, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes.peers import (
    ASK_BYTES,
    MOST_CHARACTERS,
    MOST_PEERS,
    Heard,
    Question,
    Statement,
    answer,
    ask,
    door_of,
    encoded,
    heard,
    questions_of,
    said,
    statements_of,
)

NONCE, OTHER = "0" * 31 + "1", "0" * 31 + "2"
QUESTION = Question("a", "boot-1", "10.0.0.1:7000", NONCE)


@pytest.mark.parametrize("hears_api", [True, False])
def test_the_boot_that_was_asked_about_is_known_by_its_answer(hears_api: bool):
    got = answer(ask(NONCE), "boot-1", hears_api=hears_api)
    assert got is not None
    found = said(got)
    assert heard(QUESTION, found) is Heard.YES
    assert found is not None
    assert found.hears_api is hears_api


def test_another_boot_of_the_machine_is_not_the_one_that_was_asked_about():
    got = answer(ask(NONCE), "boot-2", hears_api=True)
    assert got is not None
    assert heard(QUESTION, said(got)) is Heard.ANOTHER_BOOT


def test_an_answer_to_an_earlier_question_says_nothing():
    got = answer(ask(OTHER), "boot-1", hears_api=True)
    assert got is not None
    assert heard(QUESTION, said(got)) is Heard.NO


def test_what_the_node_says_of_the_api_server_cannot_be_changed_on_the_way():
    got = answer(ask(NONCE), "boot-1", hears_api=False)
    assert got is not None
    assert heard(QUESTION, said(got[:-1] + b"1")) is Heard.ANOTHER_BOOT


def test_silence_is_not_hearing():
    assert heard(QUESTION, None) is Heard.NO


def test_an_answer_is_shorter_than_its_question():
    got = answer(ask(NONCE), "boot-1", hears_api=True)
    assert got is not None
    assert len(got) < len(ask(NONCE)) == ASK_BYTES


@given(st.binary(max_size=200))
def test_whatever_else_comes_is_not_answered(data: bytes):
    assert data == ask(NONCE) or answer(data, "boot-1", hears_api=True) is None
    assert said(data) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a:1",
        "10.0.0.1",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "0.0.0.0:1",
        "224.0.0.1:1",
        "10.0.0.1:1²",
        "x" * 99,
    ],
)
def test_what_is_no_door_is_not_knocked_at(text: str):
    assert door_of(text) is None


def test_doors_of_both_families_are_known():
    assert door_of("10.0.0.1:7000") == ("10.0.0.1", 7000)
    assert door_of("[fd00::1]:7000") == ("fd00::1", 7000)


def test_questions_and_statements_are_read_as_they_were_written():
    statement = Statement("a", "boot-1", NONCE, Heard.YES, hears_api=True)
    assert questions_of(encoded((QUESTION,))) == (QUESTION,)
    assert statements_of(encoded((statement,))) == (statement,)
    assert encoded(()) == ""


def test_no_more_than_five_are_read():
    many = tuple(msgspec.structs.replace(QUESTION, nonce=f"{number:032x}") for number in range(9))
    assert len(questions_of(encoded(many))) == MOST_PEERS
    stated = tuple(Statement("a", "b", f"{number:032x}", Heard.NO) for number in range(9))
    assert len(statements_of(encoded(stated))) == MOST_PEERS


def test_a_text_that_is_too_long_is_not_read_in_part():
    padded = encoded((QUESTION,)) + " " * MOST_CHARACTERS
    assert questions_of(padded) == ()
    assert statements_of(padded) == ()


@pytest.mark.parametrize(
    "changes", [{"nonce": "x"}, {"nonce": NONCE.upper() + "\n"}, {"boot_id": ""}, {"door": "nowhere"}]
)
def test_a_question_that_cannot_be_asked_is_none(changes: dict[str, str]):
    assert questions_of(encoded((msgspec.structs.replace(QUESTION, **changes),))) == ()
