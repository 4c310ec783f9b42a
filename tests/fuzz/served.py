"""A real embedded server in a thread of its own, and a client that sends it whatever it is told."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mooring.apiserver.process import Running, serve

_CONNECT_S = 20.0


class Answer(NamedTuple):
    """What came back; status 0: nothing, the connection was closed."""

    status: int
    body: bytes
    head: bytes = b""


@dataclass
class Served:
    """Where the server is, and how it is talked to."""

    running: Running
    port: int
    context: ssl.SSLContext
    patience_s: float = 20.0
    """How long an answer is waited for. A connection is waited for as long as a busy machine needs."""

    def connect(self, *, tls: bool = True) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=_CONNECT_S)
        if tls:
            connection = self.context.wrap_socket(connection, server_hostname="127.0.0.1")
        connection.settimeout(self.patience_s)
        return connection

    def raw(self, sent: bytes) -> Answer:
        """Bytes as they are; the answer until the connection closes or a whole answer is there."""
        with self.connect() as connection:
            with suppress(OSError):  # it may answer before it has read everything
                connection.sendall(sent)
            return _answer(connection, sent)

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """A proper request around parts that may not be."""
        given = {
            "Host": "x",
            "Authorization": f"Bearer {self.running.tokens.admin()}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "surrogateescape") + body)

    def json(self, method: str, path: str, value: Any, content_type: str = "application/json") -> Answer:
        return self.send(method, path, json.dumps(value).encode(), {"Content-Type": content_type})


def _has_none(sent: bytes, head: bytes) -> bool:
    """Whether an answer has no body, whatever its headers say."""
    return sent.startswith(b"HEAD ") or head[9:12] in (b"101", b"204", b"304")


def _answer(connection: socket.socket, sent: bytes) -> Answer:
    got = b""
    try:
        while b"\r\n\r\n" not in got:
            piece = connection.recv(65536)
            if not piece:
                break
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")),
            None,
        )
        while (length is None or len(body) < length) and not _has_none(sent, head):
            piece = connection.recv(1 << 20)
            if not piece:
                break
            body += piece
    except (ConnectionError, TimeoutError, ssl.SSLError):
        head, body = got, b""
    words = head.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() else 0
    return Answer(status, body, head)


@contextmanager
def served(directory: Path) -> Generator[Served]:
    """The server, while entered."""
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    made: list[Running] = []

    async def story() -> None:
        running = await serve(data_dir=directory)
        made.append(running)
        ready.set()
        await ended.wait()
        await running.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(story()), daemon=True)
    thread.start()
    if not ready.wait(60):
        raise RuntimeError("the server does not start")
    running = made[0]
    try:
        context = ssl.create_default_context(cafile=running.authority)
        yield Served(running, int(running.url.rpartition(":")[2]), context)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
        loop.close()
