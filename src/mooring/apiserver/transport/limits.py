"""The limits at the sockets, before the server's core: connections, requests, bodies and times.

- Who sends no request that authenticates keeps a connection for `HANDSHAKE_S`, then `IDLE_S`; of such
  connections there are `MOST_SILENT` at most, and the oldest goes when another one comes.
- A request is authenticated by its headers, before its body is read; at the address for machines nodes and
  service accounts alone are let in.
- At most `MOST_REQUESTS` are under way, and `MOST_BODY_BYTES` of their bodies; one more is answered with 429
  and when to try again. A watch counts until it begins.
- A body has `BODY_S` to arrive, an answer `ANSWER_S` to leave.

The numbers are upstream's where it has them: the sum of the in-flight limits of its priority levels, and its
server's time-outs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge

from mooring.apiserver.access.identities import Identities
from mooring.apiserver.access.tokens import ANONYMOUS_PATHS
from mooring.apiserver.encodings.body import MAX_BODY_BYTES
from mooring.apiserver.errors import BadRequest, Forbidden, TooLarge, TooManyRequests, TooSlow
from mooring.apiserver.message import User

HANDSHAKE_S = 10.0
IDLE_S = 90.0
BODY_S = 60.0
ANSWER_S = 60.0
MOST_SILENT = 512
MOST_REQUESTS = 600
MOST_BODY_BYTES = 96 * 1024 * 1024
LONGEST_LINE = 16 * 1024
"""Of a request: its path and query, in bytes. aiohttp's router takes time by the square of a path's
length."""
LONGEST_PATH = 4096
_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Gate:
    """The limits of one server, and their present use."""

    def __init__(self, identities: Identities, machines_address: str = "") -> None:
        """At `machines_address` nodes and service accounts alone are let in."""
        self._identities = identities
        self._machines_address = machines_address
        self._requests = 0
        self._body_bytes = 0
        self._silent: dict[Any, None] = {}  # in order

    def arrived(self, connection: Any) -> Any:
        """Registers a connection that has not authenticated yet."""
        self._silent[connection] = None
        while len(self._silent) > MOST_SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.force_close()
        return connection

    def user(self, incoming: web.Request, headers: dict[str, str]) -> User | None:
        """The user of a request; None if it has no credentials and needs none. Raises Unauthorized, Forbidden
        or BadRequest."""
        if len(incoming.path) > LONGEST_PATH:
            raise BadRequest(f"a path may have {LONGEST_PATH} characters: this has {len(incoming.path)}")
        if incoming.path in ANONYMOUS_PATHS:
            return None
        user = self._identities.authenticate(headers)
        is_theirs = user.node_name is not None or user.is_service_account
        if not is_theirs and self._is_of_machines(incoming):
            raise Forbidden(
                f"at {self._machines_address} the API server serves machines, with the credentials of nodes and "
                f"service accounts: {user.name!r} is served at 127.0.0.1"
            )
        self._silent.pop(incoming.protocol, None)
        return user

    def _is_of_machines(self, incoming: web.Request) -> bool:
        """Whether it came in at the address for machines; a connection that has gone counts as such."""
        if not self._machines_address:
            return False
        socket = incoming.transport.get_extra_info("sockname") if incoming.transport else None
        return socket is None or socket[0] == self._machines_address

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Counts a request in flight while entered. Raises TooManyRequests."""
        if self._requests >= MOST_REQUESTS:
            raise _busy()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    @contextmanager
    def body(self, incoming: web.Request) -> Generator[None]:
        """Counts a body in memory while entered. Raises TooLarge, TooManyRequests."""
        size = MAX_BODY_BYTES if incoming.content_length is None else incoming.content_length
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if self._body_bytes + size > MOST_BODY_BYTES:
            raise _busy()
        self._body_bytes += size
        try:
            yield
        finally:
            self._body_bytes -= size


async def read(incoming: web.Request) -> bytes:
    """The body; empty for a request that only reads. Raises BadRequest, TooLarge, TooSlow."""
    if incoming.method in _READING or not incoming.can_read_body:
        return b""
    try:
        async with asyncio.timeout(BODY_S):
            return await incoming.read()
    except TimeoutError:
        raise TooSlow(f"the body of the request did not arrive within {BODY_S:.0f} s") from None
    except HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"the body of the request does not end as its headers say: {error}") from error


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def _busy() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", retryAfterSeconds=1)
