"""The sockets of a running server: who may keep a connection, and what is answered to what is no request."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.fuzz.served import Answer, Served, served

from mooring.apiserver import process
from mooring.apiserver.transport import limits

MAPS = "/api/v1/namespaces/default/configmaps"
MIB = 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with served(tmp_path_factory.mktemp("gate")) as one:
        yield one


def head(server: Served, line: str, *headers: str) -> bytes:
    given = ("Host: x", f"Authorization: Bearer {server.running.tokens.admin()}", *headers)
    return "\r\n".join((line, *given, "", "")).encode("latin-1")


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def is_our_fault(answer: Answer) -> bool:
    """Upstream answers some bad requests with 500 and no reason, and versions of the future with 504: so do
    we."""
    if answer.status < 500 or answer.status == 504:
        return False
    return not answer.body or json.loads(answer.body).get("reason") is not None


def works(server: Served) -> bool:
    return server.send("GET", MAPS).status == 200


def test_a_connection_that_never_shakes_hands_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "HANDSHAKE_S", 0.2)
    with served(tmp_path) as hasty, hasty.connect(tls=False) as connection:
        assert closed(connection)


def test_a_connection_that_asks_nothing_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "IDLE_S", 0.2)
    with served(tmp_path) as hasty, hasty.connect() as connection, hasty.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert closed(connection)
        assert closed(slow)


def test_of_many_silent_connections_the_oldest_go(monkeypatch: pytest.MonkeyPatch, server: Served) -> None:
    monkeypatch.setattr(limits, "MOST_SILENT", 4)
    with server.connect() as known:
        known.sendall(head(server, f"GET {MAPS} HTTP/1.1"))
        assert known.recv(12) == b"HTTP/1.1 200"
        silent = [server.connect() for _ in range(9)]
        assert all(closed(each) for each in silent[:4])
        known.settimeout(0.2)
        with pytest.raises(TimeoutError):
            while known.recv(65536):
                pass
        silent[-1].sendall(head(server, f"GET {MAPS} HTTP/1.1"))
        assert silent[-1].recv(12) == b"HTTP/1.1 200"
        for each in silent:
            each.close()


@pytest.mark.parametrize("token", [b"\xff", b"admin.\xff\xfe", b"node.\xc3\x28.x", b"a" * 8000, b""])
def test_a_token_that_is_no_text_is_no_token(server: Served, token: bytes) -> None:
    answer = server.raw(b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
    assert answer.status == 401


def test_an_expectation_that_is_no_text_is_not_met(server: Served) -> None:
    request = head(
        server, f"POST {MAPS} HTTP/1.1", "Expect: 100-\xff", "Content-Length: 2", "Connection: close"
    )
    assert server.raw(request + b"{}").status == 417


def test_a_stranger_is_refused_before_the_body_arrives(server: Served) -> None:
    answer = server.raw(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n".encode())
    assert answer.status == 401


def test_a_body_that_says_that_it_is_too_large_is_refused_unread(server: Served) -> None:
    answer = server.raw(head(server, f"POST {MAPS} HTTP/1.1", f"Content-Length: {3 * MIB + 1}"))
    assert answer.status == 413
    assert json.loads(answer.body)["message"] == f"Request entity too large: limit is {3 * MIB}"


def test_a_body_that_turns_out_to_be_too_large_is_refused(server: Served) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = server.raw(
        head(server, f"POST {MAPS} HTTP/1.1", "Transfer-Encoding: chunked") + piece * 60 + b"0\r\n\r\n"
    )
    assert answer.status == 413


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch, server: Served) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.2)
    answer = server.raw(head(server, f"POST {MAPS} HTTP/1.1", "Content-Length: 100") + b"{")
    assert answer.status == 408


@pytest.mark.parametrize("limit", ["MOST_REQUESTS", "MOST_BODY_BYTES"])
def test_a_request_too_many_is_told_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch, server: Served, limit: str
) -> None:
    monkeypatch.setattr(limits, limit, 0)
    answer = server.send("POST", MAPS, b"{}")
    assert answer.status == 429
    assert b"\r\nretry-after: 1" in answer.head.lower()


def test_a_compressed_body_is_not_decompressed(server: Served) -> None:
    body = gzip.compress(json.dumps({"metadata": {"name": "zipped"}}).encode())
    assert server.send("POST", MAPS, body, {"Content-Encoding": "gzip"}).status == 400


def test_a_large_object_is_stored_and_read_back(server: Served) -> None:
    data = {f"k{n}": "v" * 100 for n in range(5000)}
    made = server.json("POST", MAPS, {"metadata": {"name": "large"}, "data": data})
    assert made.status == 201
    read = server.send("GET", f"{MAPS}/large")
    assert read.body == made.body
    assert json.loads(read.body)["data"] == data
    assert server.send("DELETE", f"{MAPS}/large").status == 200
    assert server.send("GET", f"{MAPS}/large").status == 404


def _smuggled(server: Served) -> dict[str, bytes]:
    get, post = f"GET {MAPS} HTTP/1.1", f"POST {MAPS} HTTP/1.1"
    inner = b"GET /api/v1/secrets HTTP/1.1\r\n\r\n"
    return {
        "both lengths": head(server, post, "Content-Length: 4", "Transfer-Encoding: chunked")
        + b"0\r\n\r\n"
        + inner,
        "two lengths": head(server, post, "Content-Length: 4", "Content-Length: 5") + b"{}   ",
        "a signed length": head(server, post, "Content-Length: +4") + b"{}  ",
        "a negative length": head(server, post, "Content-Length: -4") + b"{}  ",
        "a huge length": head(server, post, f"Content-Length: {'9' * 40}") + b"{}",
        "a folded header": head(server, get, "X: a\r\n b"),
        "a header with a blank": head(server, get, "X : a"),
        "a bare return": head(server, get, "X: a\rY: b"),
        "a null": head(server, get, "X: a\x00b"),
        "an odd encoding": head(server, post, "Transfer-Encoding: chunked, identity") + b"0\r\n\r\n",
        "a bad chunk": head(server, post, "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n",
        "a chunk's extension": head(server, post, "Transfer-Encoding: chunked")
        + b"2;"
        + b"a" * 20000
        + b"\r\n{}\r\n0\r\n\r\n",
        "many small chunks": head(server, post, "Transfer-Encoding: chunked")
        + b"1\r\n \r\n" * 50_000
        + b"0\r\n\r\n",
        "HTTP/0.9": b"GET /api\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "HTTP/9.9": head(server, f"GET {MAPS} HTTP/9.9"),
        "no method": b" / HTTP/1.1\r\n\r\n",
        "many headers": head(server, get, *(f"X-{n}: a" for n in range(3000))),
        "a long header": head(server, get, "X: " + "a" * 100_000),
        "a long line": head(server, f"GET /{'a' * 100_000} HTTP/1.1"),
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        "bytes": bytes(range(256)) * 10,
    }


SMUGGLED = (
    "both lengths", "two lengths", "a signed length", "a negative length", "a huge length", "a folded header",
    "a header with a blank", "a bare return", "a null", "an odd encoding", "a bad chunk", "a chunk's extension",
    "many small chunks", "HTTP/0.9", "HTTP/2", "HTTP/9.9", "no method", "many headers", "a long header", "a long line",
    "TLS", "bytes",
)  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_is_no_request_is_refused_and_nothing_is_smuggled(server: Served, name: str) -> None:
    answer = server.raw(_smuggled(server)[name])
    assert answer.status in (0, 400, 401, 413, 422, 431, 505), answer
    assert answer.body.count(b"HTTP/1.1 200") == 0
    assert works(server)


@pytest.mark.parametrize("name", SMUGGLED)
def test_each_of_them_is_tried(server: Served, name: str) -> None:
    assert set(SMUGGLED) == _smuggled(server).keys()


ODD = [
    "GET /api/v1/namespaces/default/configmaps/%00",
    "GET /api/v1/namespaces/default/configmaps/%ff%fe",
    "GET /api/v1/namespaces/default/configmaps/a%2Fb",
    "GET /api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
    "GET /api/v1/../v1/namespaces",
    "GET //api//v1",
    "GET /api/v1/namespaces/default/configmaps?labelSelector=%ff",
    "GET /api/v1/namespaces/default/configmaps?fieldSelector=%00%01,==",
    "GET /api/v1/namespaces/default/configmaps?limit=1e99",
    "GET /api/v1/namespaces/default/configmaps?limit=-1",
    "GET /api/v1/namespaces/default/configmaps?limit=999999999999999999999",
    "GET /api/v1/namespaces/default/configmaps?resourceVersion=%D9%A3",
    "GET /api/v1/namespaces/default/configmaps?resourceVersion=-1",
    "GET /api/v1/namespaces/default/configmaps?resourceVersionMatch=Exact",
    "GET /api/v1/namespaces/default/configmaps?continue=AAAA",
    "GET /api/v1/namespaces/default/configmaps?continue=%ff%00",
    "GET /api/v1/namespaces/default/configmaps?continue=eyJ2IjoxZTMwOCwic3RhcnQiOlsiIiwiIl19",
    "GET /api/v1/namespaces/default/configmaps?continue=eyJ2IjotMSwic3RhcnQiOlsiIiwiIl19",
    "GET /api/v1/namespaces/default/configmaps?continue=bnVsbA",
    "GET /api/v1/namespaces/default/configmaps?timeoutSeconds=-1&watch=1",
    "GET /api/v1/namespaces/default/configmaps?timeoutSeconds=1e9&watch=1",
    "GET /api/v1/namespaces/default/configmaps?watch=1&resourceVersion=x",
    "GET https://elsewhere.example/api/v1/namespaces",
    "GET *",
    "OPTIONS *",
    "OPTIONS /api/v1/namespaces",
    "TRACE /api/v1/namespaces",
    "HEAD /api/v1/namespaces",
    "CONNECT 127.0.0.1:1",
    "PROPFIND /api/v1/namespaces",
    "GET /api/v1/nodes/%00/proxy/x",
    "GET /api/v1/nodes/..%2f..%2fapi/proxy/x",
    "GET /api/v1/namespaces/%ff/pods/%00/exec?command=x",
    "GET /api/v1/namespaces/default/pods/x/log?follow=%ff&tailLines=1e9",
    "GET /openapi/v3/%ff",
    "GET /apis/%ff/v1",
]


@pytest.mark.parametrize("line", ODD)
def test_an_odd_request_is_answered_and_is_no_error_of_the_server(server: Served, line: str) -> None:
    for extra in (("Connection: close",), ("Connection: Upgrade, close", "Upgrade: websocket")):
        answer: Answer = server.raw(head(server, f"{line} HTTP/1.1", *extra, "Content-Length: 0"))
        assert not is_our_fault(answer), answer
    assert works(server)
