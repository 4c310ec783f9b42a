"""An answer of HTTP/1.1, read from bytes however they are cut. Pure: knows no sockets.

The parser, chunk framing included, is httptools' (llhttp, as in Node.js). This module adds what httptools
leaves to its users: when an answer is complete, even if only the end of the connection shows it, and whether
the connection can be used again. h11 would answer both, in Python; the parser is on the path of every
request. Raises `Malformed` for bytes that are not HTTP.
"""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LONGEST_HEAD = 256 * 1024
INTERIM = range(100, 200)
BODILESS = (204, 304)
_FRAMING = ("content-length", "transfer-encoding")
NO_HEADERS: dict[str, str] = {}


class Malformed(Exception):
    """The peer does not speak HTTP/1.1."""


class Answer:
    """One answer. `status` is 0 until its head has come; names of `headers` are in lower case.

    `bodiless`: whatever its head says, there is no body (an answer to CONNECT).
    """

    __slots__ = (
        "_fed",
        "_interim",
        "_parser",
        "_pieces",
        "bodiless",
        "complete",
        "headers",
        "lasting",
        "status",
    )

    def __init__(self, *, bodiless: bool = False) -> None:
        self.bodiless = bodiless
        self.status = 0
        self.headers = NO_HEADERS
        self.complete = False
        self.lasting = True
        """Whether the connection can be used again when it is complete."""
        self._interim = False
        self._fed = 0  # bytes, before the head was whole
        self._pieces: list[bytes] = []
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces of the body that are in the bytes that came."""
        if self.complete:
            self.lasting = self.lasting and not data  # bytes after the answer, with no request in flight
            return []
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise Malformed("an answer that goes over to another protocol, which was not asked for") from None
        except HttpParserError as error:
            if isinstance(error.__context__, Malformed):  # ours, from below: the parser wraps it
                raise error.__context__ from None
            if not self.complete:
                raise Malformed(f"an answer that is no HTTP ({error}): {data[:40]!r}") from None
            self.lasting = False
        if not self.status:
            self._fed += len(data)
            if self._fed > LONGEST_HEAD:
                raise Malformed("a head without an end")
        pieces, self._pieces = self._pieces, []
        if self.complete:
            del self._parser  # the two hold each other, and garbage is collected seldom
        return pieces

    def end(self) -> None:
        """The connection has ended: Malformed if the answer has not."""
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not self.status or framed:
            raise Malformed(
                "the connection was closed" + (" in the middle of the answer" if self.status else "")
            )
        self.complete, self.lasting = True, False

    # --- what the parser tells

    def on_message_begin(self) -> None:
        if self.complete:
            self.lasting = False  # another answer, with no request in flight
        else:
            self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete or self.status:
            return  # a trailer: after the body nothing changes what the answer is
        field = name.decode("latin-1").lower()
        if field in _FRAMING and field in self.headers:
            raise Malformed(f"two headers {field}")
        self.headers[field] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        self._interim = status in INTERIM
        if self._interim:
            # It has no body (RFC 9110, 15.2). One that it announces would come before the body of the answer.
            if any(field in self.headers for field in _FRAMING):
                raise Malformed(f"an interim answer ({status}) with a body")
            return
        self._refuse_unknown_framing()
        self.status = status
        self.lasting = self._parser.should_keep_alive()
        self.complete = self.bodiless or status in BODILESS

    def _refuse_unknown_framing(self) -> None:
        coding = self.headers.get("transfer-encoding", "chunked")
        if coding.lower() != "chunked":
            raise Malformed(f"a body of transfer-encoding {coding!r}")

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.complete = self.complete or not self._interim
