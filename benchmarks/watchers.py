"""The reader of the benchmark, in a process of its own: many watches over TLS, of which it only counts the events.

Each event's object carries one `@`, which nothing else in an answer has; so counting needs no parsing, and the reader
costs as little as a reader can: epoll, a TLS read into one buffer, a count. The same for every server.

`python -m benchmarks.watchers` takes its orders as lines of JSON. First an `Order`: when all watches are open it says
when it asked for them. Then a number of events to wait for: when they are there it says at which times
(`time.perf_counter`, one clock for all processes of a machine) how many arrived.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import time
from typing import Any, TypedDict
from urllib.parse import urlsplit

MARK = b"@"


class Order(TypedDict):
    """Which watches to open: one for each path."""

    url: str
    authority: str
    token: str
    paths: list[str]


class Watches:
    """Open watches; `wait` counts what arrives. `began` is when the first was asked for, all being connected."""

    def __init__(self, order: Order) -> None:
        self._poll = select.epoll()
        self._buffer = bytearray(256 * 1024)
        self._early = self._last = 0
        context = ssl.create_default_context(cafile=order["authority"])
        address = urlsplit(order["url"])
        connected = [_connect(context, address.hostname or "", address.port or 443) for _ in order["paths"]]
        self._sockets = {each.fileno(): each for each in connected}
        self.began = time.perf_counter()
        for source, path in zip(connected, order["paths"], strict=True):
            lines = (f"GET {path} HTTP/1.1", f"Host: {address.netloc}", f"Authorization: Bearer {order['token']}")
            source.sendall("\r\n".join((*lines, "", "")).encode())
        for source in connected:
            self._read_head(source)

    def _read_head(self, source: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += source.recv(4096)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a watch was refused: {head[:300]!r}")
        self._early += head.count(MARK)
        source.setblocking(False)
        self._early += self._read(source)
        self._poll.register(source.fileno(), select.EPOLLIN)

    def wait(self, events: int) -> list[tuple[float, int]]:
        """When how many events arrived, until that many have."""
        arrived = [(time.perf_counter(), self._early)] if self._early else []
        seen, self._early = self._early, 0
        while seen < events:
            for descriptor, _ in self._poll.poll():
                if count := self._read(self._sockets[descriptor]):
                    seen += count
                    arrived.append((time.perf_counter(), count))
        return arrived

    def _read(self, source: ssl.SSLSocket) -> int:
        """How many events one readable connection has."""
        count = 0
        try:
            while size := source.recv_into(self._buffer):
                self._last = size
                count += self._buffer.count(MARK, 0, size)
                if not source.pending():
                    return count
        except ssl.SSLWantReadError:
            return count
        raise RuntimeError(f"the server ended a watch: {bytes(self._buffer[: self._last])[-300:]!r}")


def _connect(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection((host, port)), server_hostname=host)


def main() -> None:
    watches = Watches(json.loads(sys.stdin.readline()))
    _say(watches.began)
    for line in sys.stdin:
        _say(watches.wait(int(line)))


def _say(word: Any) -> None:
    print(json.dumps(word), flush=True)


if __name__ == "__main__":
    main()
