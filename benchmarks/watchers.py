"""The reader of the benchmark, in a process of its own: many watches over TLS, of which it only counts the
events.

Each event's object carries one `@`, which nothing else in an answer has; so counting needs no parsing, and
the reader costs as little as a reader can: epoll, a read, a decryption into one buffer, a count. The same for
every server.

`python -m benchmarks.watchers` takes its orders as lines of JSON. First an `Order`: when all watches are open
it says when it asked for them. Then a number of events to wait for: when they are there it says at which
times (`time.perf_counter`, one clock for all processes of a machine) how many arrived.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from typing import Any, TypedDict
from urllib.parse import SplitResult, urlsplit

MARK = b"@"


class Order(TypedDict):
    """Which watches to open: one for each path."""

    url: str
    authority: str
    token: str
    paths: list[str]


class Connection:
    """One watch over TLS. The TLS layer works in memory, which spares half of the system calls of an
    `SSLSocket`."""

    def __init__(self, context: ssl.SSLContext, address: SplitResult) -> None:
        assert address.hostname
        self.socket = socket.create_connection((address.hostname, address.port or 443))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=address.hostname)
        while not self._shaken():
            self._incoming.write(self.socket.recv(65536))

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.socket.sendall(self._outgoing.read())
        return True

    def send(self, plain: bytes) -> None:
        self._tls.write(plain)
        self.socket.sendall(self._outgoing.read())

    def receive(self, buffer: bytearray) -> Iterator[int]:
        """Puts what has arrived into `buffer`, piece by piece; yields the size of each."""
        if not (size := self.socket.recv_into(buffer)):
            raise RuntimeError("the server closed a watch")
        self._incoming.write(memoryview(buffer)[:size])
        try:
            while self._incoming.pending or self._tls.pending():
                yield self._tls.read(len(buffer), buffer)  # type: ignore[misc] - with a buffer it is the size
        except ssl.SSLWantReadError:
            return


class Watches:
    """Open watches; `wait` counts what arrives. `began` is when the first was asked for, all being
    connected."""

    def __init__(self, order: Order) -> None:
        self._poll = select.epoll()
        self._buffer = bytearray(256 * 1024)
        self._early = 0
        context = ssl.create_default_context(cafile=order["authority"])
        address = urlsplit(order["url"])
        connected = [Connection(context, address) for _ in order["paths"]]
        self._connections = {each.socket.fileno(): each for each in connected}
        self.began = time.perf_counter()
        for connection, path in zip(connected, order["paths"], strict=True):
            lines = (
                f"GET {path} HTTP/1.1",
                f"Host: {address.netloc}",
                f"Authorization: Bearer {order['token']}",
            )
            connection.send("\r\n".join((*lines, "", "")).encode())
        for connection in connected:
            self._read_head(connection)

    def _read_head(self, connection: Connection) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += b"".join(bytes(self._buffer[:size]) for size in connection.receive(self._buffer))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a watch was refused: {head[:300]!r}")
        self._early += head.count(MARK)
        self._poll.register(connection.socket.fileno(), select.EPOLLIN)

    def wait(self, events: int) -> list[tuple[float, int]]:
        """When how many events arrived, until that many have."""
        arrived = [(time.perf_counter(), self._early)] if self._early else []
        seen, self._early = self._early, 0
        while seen < events:
            for descriptor, _ in self._poll.poll():
                if count := self._count(self._connections[descriptor]):
                    seen += count
                    arrived.append((time.perf_counter(), count))
        return arrived

    def _count(self, connection: Connection) -> int:
        """How many events have come by a connection."""
        count = 0
        for size in connection.receive(self._buffer):
            count += self._buffer.count(MARK, 0, size)
            if b'"type":"ERROR"' in self._buffer[: min(size, 300)]:
                raise RuntimeError(f"the server ended a watch: {bytes(self._buffer[:size])!r}")
        return count


def main() -> None:
    watches = Watches(json.loads(sys.stdin.readline()))
    _say(watches.began)
    for line in sys.stdin:
        _say(watches.wait(int(line)))


def _say(word: Any) -> None:
    print(json.dumps(word), flush=True)


if __name__ == "__main__":
    main()
