"""Bytes at the server's socket: no answer is an error of the server's own, and afterwards it still
answers."""

from __future__ import annotations

import atexit
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.fuzz.served import Served, served

_PATH = b"/api/v1/namespaces/default/configmaps"
TOKEN = b"TOKEN"
SEEDS = [
    b"GET "
    + _PATH
    + b"?limit=1&labelSelector=a%20in%20(b) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n",
    b"POST " + _PATH + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 2\r\n\r\n{}",
    b"POST "
    + _PATH
    + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"PATCH " + _PATH + b"/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nExpect: 100-continue\r\n"
    b"Content-Type: application/json-patch+json\r\nContent-Length: 4\r\n\r\n[{}]",
]
_SERVED: list[Served] = []
_OPEN = ExitStack()


def _server() -> Served:
    if not _SERVED:
        directory = _OPEN.enter_context(tempfile.TemporaryDirectory())
        _SERVED.append(_OPEN.enter_context(served(Path(directory))))
        _SERVED[0].patience_s = 0.05
        atexit.register(_OPEN.close)
    return _SERVED[0]


def check(data: bytes) -> None:
    server = _server()
    sent = data.replace(TOKEN, server.running.tokens.admin().encode())
    answer = server.raw(sent)
    if answer.status >= 500 and answer.status != 504:
        assert answer.body and "reason" not in json.loads(answer.body), answer
    assert server.running.server.store.version > 0
