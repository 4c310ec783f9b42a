"""An answer of HTTP/1.1 (RFC 9112), read from bytes however they are cut. Pure: knows no sockets.

What it understands is what API servers and the proxies before them send: bodies of a given length, in chunks, or until
the connection ends. `Malformed` is raised for anything else.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST_HEAD = 256 * 1024
INTERIM = range(100, 200)
BODILESS = (204, 304)
NO_HEADERS: dict[str, str] = {}


class Malformed(Exception):
    """The peer does not speak HTTP/1.1."""


class Answer:
    """One answer. `status` is 0 until its head has come; names of `headers` are in lower case.

    `bodiless`: whatever its head says, there is no body (an answer to CONNECT).
    """

    __slots__ = ("_at", "_left", "_rest", "_step", "bodiless", "complete", "headers", "lasting", "status")

    def __init__(self, *, bodiless: bool = False) -> None:
        self.bodiless = bodiless
        self.status = 0
        self.headers = NO_HEADERS
        self.complete = False
        self.lasting = True
        """Whether the connection can be used again when it is complete."""
        self._rest = b""
        self._at = 0  # what of _rest has been read
        self._left = 0  # bytes of the body, or of the chunk, that are still to come
        self._step: Callable[[list[bytes]], bool] = self._head

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces of the body that are in the bytes that came."""
        self._rest = self._rest[self._at :] + data if self._at < len(self._rest) else data
        self._at = 0
        pieces: list[bytes] = []
        while not self.complete and self._step(pieces):
            pass
        if self.complete and self._at < len(self._rest):
            self.lasting = False  # nobody asked for more
        return pieces

    def end(self) -> None:
        """The connection has ended: Malformed if the answer has not."""
        if self._step != self._until_the_end:
            raise Malformed("the connection was closed" + (" in the middle of the answer" if self.status else ""))
        self.complete, self.lasting = True, False

    def _line(self, mark: bytes) -> bytes | None:
        """What comes before the mark; None if that is not there yet."""
        end = self._rest.find(mark, self._at)
        if end < 0:
            if len(self._rest) - self._at > LONGEST_HEAD:
                raise Malformed("a head without an end")
            return None
        line = self._rest[self._at : end]
        self._at = end + len(mark)
        return line

    def _head(self, pieces: list[bytes]) -> bool:
        head = self._line(b"\r\n\r\n")
        if head is None:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first[:12].partition(" ")
        if not (version in ("HTTP/1.1", "HTTP/1.0") and status.isdecimal()):
            raise Malformed(f"an answer that begins with {first[:40]!r}")
        if int(status) in INTERIM:
            return True
        fields = (line.partition(":") for line in lines)
        self.status, self.headers = int(status), {name.lower(): value.strip() for name, _, value in fields}
        self.lasting = version == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"
        self._frame()
        return True

    def _frame(self) -> None:
        length, coding = self.headers.get("content-length"), self.headers.get("transfer-encoding", "")
        if self.bodiless or self.status in BODILESS:
            self.complete = True
        elif coding.lower() == "chunked":
            self._step = self._chunk_begins
        elif coding or not (length or "0").isdecimal():
            raise Malformed(f"a body of transfer-encoding {coding!r} and length {length!r}")
        elif length is not None:
            self._left, self._step = int(length), self._sized
            self.complete = self._left == 0
        else:
            self._step = self._until_the_end

    def _take(self, pieces: list[bytes]) -> None:
        piece = self._rest[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        if piece:
            pieces.append(piece)

    def _sized(self, pieces: list[bytes]) -> bool:
        self._take(pieces)
        self.complete = not self._left
        return False

    def _until_the_end(self, pieces: list[bytes]) -> bool:
        self._left = len(self._rest)
        self._take(pieces)
        return False

    def _chunk_begins(self, pieces: list[bytes]) -> bool:
        line = self._line(b"\r\n")
        if line is None:
            return False
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise Malformed(f"a chunk of length {line[:40]!r}") from None
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self, pieces: list[bytes]) -> bool:
        self._take(pieces)
        if self._left:
            return False
        self._step = self._chunk_ends
        return True

    def _chunk_ends(self, pieces: list[bytes]) -> bool:
        line = self._line(b"\r\n")
        if line:
            raise Malformed("a chunk that is longer than it says")
        self._step = self._chunk_begins
        if line is None:
            self._step = self._chunk_ends
        return line is not None

    def _trailer(self, pieces: list[bytes]) -> bool:
        line = self._line(b"\r\n")
        self.complete = line == b""
        return bool(line)
