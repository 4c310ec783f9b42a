"""An answer of HTTP/1.1, however its bytes are cut."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.http1 import Answer, Malformed

BODY = st.binary(max_size=40)


def sized(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Some: a: b\r\n\r\n%b" % (len(body), body)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x;note=1\r\n%b\r\n" % (len(each), each) for each in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\nTrailer: 1\r\n\r\n" % chunks


def read(answer: Answer, data: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return b"".join(piece for start, end in pairwise(edges) for piece in answer.feed(data[start:end]))


@given(BODY, st.integers(1, 9), st.booleans(), st.booleans(), st.lists(st.integers(0, 1000), max_size=8))
def test_the_body_is_the_same_however_the_bytes_are_cut(
    body: bytes, size: int, in_chunks: bool, hint: bool, cuts: list[int]
):
    sent = (b"HTTP/1.1 103 Early Hints\r\n\r\n" if hint else b"") + (
        chunked(body, size) if in_chunks else sized(body)
    )
    answer = Answer()
    assert read(answer, sent, cuts) == body
    assert (answer.status, answer.complete, answer.lasting) == (200, True, True)


@given(BODY, st.lists(st.integers(0, 1000), max_size=8))
def test_a_body_without_a_length_lasts_until_the_connection_ends(body: bytes, cuts: list[int]):
    answer = Answer()
    assert read(answer, b"HTTP/1.1 200 OK\r\n\r\n" + body, cuts) == body
    assert not answer.complete
    answer.end()
    assert answer.complete
    assert not answer.lasting


@given(st.binary(min_size=1, max_size=40), st.booleans(), st.data())
def test_an_end_in_the_middle_is_noticed(body: bytes, in_chunks: bool, data: st.DataObject):
    sent = chunked(body, 7) if in_chunks else sized(body)
    answer = Answer()
    answer.feed(sent[: data.draw(st.integers(0, len(sent) - 1))])
    with pytest.raises(Malformed, match="closed"):
        answer.end()


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5"]
)
def test_some_answers_have_no_body_whatever_they_say(head: bytes):
    answer = Answer()
    assert answer.feed(head + b"\r\n\r\n") == []
    assert answer.complete


def test_an_answer_to_connect_has_no_body():
    answer = Answer(bodiless=True)
    answer.feed(b"HTTP/1.0 200 Connection established\r\n\r\n")
    assert answer.complete


@pytest.mark.parametrize(
    "sent",
    [
        sized(b"x") + b"y",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_after_some_answers_the_connection_cannot_be_used_again(sent: bytes):
    answer = Answer()
    answer.feed(sent)
    assert answer.complete
    assert not answer.lasting


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.7\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"x" * 300_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
    ],
)
def test_what_is_not_http_is_malformed(sent: bytes):
    with pytest.raises(Malformed):
        Answer().feed(sent)


def test_a_trailer_changes_nothing_that_the_head_has_said():
    answer = Answer()
    answer.feed(chunked(b"ab", 2).replace(b"Trailer: 1", b"Retry-After: 9\r\nTransfer-Encoding: gzip"))
    assert answer.complete
    assert answer.headers == {"transfer-encoding": "chunked"}


def outcome(sent: bytes, cuts: list[int]) -> object:
    answer = Answer()
    try:
        body = read(answer, sent, cuts)
    except Malformed:
        return Malformed
    return answer.status, answer.complete, answer.lasting, answer.headers, body


PARTS = st.sampled_from([
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404 \r\n", b"HTTP/1.1 100 \r\n", b"HTTP/1.1 101 \r\n", b"HTTP/1.1 204 x\r\n",
    b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"Upgrade: x\r\nConnection: upgrade\r\n", b"X: y\r\n", b"\r\n", b"\n", b"\r", b"ab", b"2\r\nab\r\n", b"0\r\n\r\n",
    b"0", b" ",
])  # fmt: skip


@given(
    st.lists(st.one_of(PARTS, st.binary(max_size=3)), max_size=12).map(b"".join),
    st.lists(st.integers(0, 200)),
)
def test_whatever_comes_is_the_same_answer_however_it_is_cut_or_malformed(sent: bytes, cuts: list[int]):
    assert outcome(sent, cuts) == outcome(sent, [])


def test_an_answer_that_was_read_is_no_garbage_that_has_to_be_collected():
    """Garbage is collected seldom, and there are thousands of answers."""
    gc.collect()
    gc.disable()
    try:
        assert read(Answer(), sized(b"ab"), []) == b"ab"
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("framing", [b"Content-Length: 2", b"Transfer-Encoding: chunked"])
def test_an_interim_answer_with_a_body_is_refused(framing: bytes):
    """Its body would come before that of the answer."""
    with pytest.raises(Malformed, match="interim"):
        Answer().feed(b"HTTP/1.1 103 Early Hints\r\n%b\r\n\r\nab" % framing + sized(b"cd"))
