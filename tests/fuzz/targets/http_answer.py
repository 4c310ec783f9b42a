"""Answers of an API server: the same answer however the bytes are cut, or Malformed; what is framed is not
exceeded."""

from __future__ import annotations

from mooring.kube.http1 import LONGEST_HEAD, Answer, Malformed

SEEDS = [
    b"\x05HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
    b"\x11HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n",
    b"\x09HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"\x03HTTP/1.0 200 OK\r\n\r\nuntil the end",
    b"\x21HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"\x02HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"\x07HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"\x04HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
]


def check(data: bytes) -> None:
    width, sent = (data[0] or 1) if data else 1, data[1:]
    whole = _outcome([sent])
    assert _outcome([sent[at : at + width] for at in range(0, len(sent), width)]) == whole
    if whole is not None:
        status, headers, body, complete = whole
        assert status == 0 or 200 <= status <= 999 or status < 100, status
        if complete and "content-length" in headers and body:
            assert len(body) == int(headers["content-length"])
        assert status or len(sent) <= LONGEST_HEAD


def _outcome(pieces: list[bytes]) -> tuple[int, dict[str, str], bytes, bool] | None:
    answer = Answer()
    try:
        body = b"".join(part for piece in pieces for part in answer.feed(piece))
    except Malformed:
        return None
    return answer.status, answer.headers, body, answer.complete
