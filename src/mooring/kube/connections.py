"""Connections to one HTTP server that are kept and used again: over TLS or not, directly or through a proxy.

Guarantees: one exchange at a time on a connection. A connection whose exchange was cancelled, broke or took
too long is cut and never used again; so is one whose peer is gone without a word. While a stream's reader is
slow, no more is received. After `close` no socket is left, even if the server does not answer TLS's closing
message. Errors are OSError, TimeoutError and Malformed.

aiohttp's client could do this. A controller at work is mostly requests, and a request with its decoding took
0.25 ms of CPU with aiohttp's client and 0.11 ms with this one (docs/decisions/http-client.md).
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import cast
from urllib.parse import SplitResult, unquote, urlsplit

from mooring.kube.http1 import Answer, Malformed

CONNECT_S = 10.0
IDLE_S = 15.0
"""A connection that was idle for longer is not used again: a NAT or load balancer on the way may have dropped
it."""
PROBED_AFTER_S, PROBE_EVERY_S, PROBES = 30, 5, 3
"""The kernel asks a silent peer whether it is there, and gives it up when it has not answered: a watch sends
nothing, and would wait in vain for minutes, a log that is followed for days. It takes as long as client-go's
pings of HTTP/2."""
LARGEST_BODY = 1024**3
"""The most bytes of an answer that is not streamed: far more than any page of a list has."""
ENOUGH = 1024 * 1024
"""Bytes of a stream that may wait for their reader before receiving is paused."""


class Connection(asyncio.Protocol):
    """One connection. `ended` is called with it when it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[Connection], None]) -> None:
        self._loop = loop
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._pieces: list[bytes] = []
        self._held = 0  # bytes in them
        self._streams = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._deadline = 0.0
        self._timeout = 0.0
        self.used = False
        """Whether it has carried an exchange."""
        self.idle_since = 0.0

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # another loop's need not be a subclass
        _probe(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        try:
            self._pieces += self._answer.feed(data)
        except Malformed as error:
            self._fail(error)
            return
        self._held += len(data)
        if self._streams and self._answer.status:
            # Before the head is whole no task reads the pieces, so pausing then would wait for ever; parser
            # and deadline bound the head.
            if self._held > ENOUGH and self._transport is not None:
                self._transport.pause_reading()
            self._wake()
        elif self._answer.complete:
            self._wake()
        elif self._held > LARGEST_BODY:
            self._fail(Malformed(f"an answer of more than {LARGEST_BODY} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # An answer without Content-Length or chunks is complete when the server closes the connection; any
        # other answer that is not complete by now was cut off, which must not look like a short answer.
        if exc is None and not self._answer.complete:
            try:
                self._answer.end()
            except Malformed as error:
                exc = ConnectionResetError(str(error))
        self._fail(exc or ConnectionResetError("the connection was closed"))
        self._ended(self)

    # --- called by its users

    @property
    def open(self) -> bool:
        return self._transport is not None and self._error is None

    @property
    def lasting(self) -> bool:
        """Whether another exchange can follow."""
        return self.open and self._answer.complete and self._answer.lasting

    @property
    def answered(self) -> bool:
        """Whether anything of an answer has come."""
        return self._answer.status != 0

    async def exchange(
        self, message: bytes, *, timeout: float, stream: bool = False, bodiless: bool = False
    ) -> tuple[Answer, bytes]:
        """Sends a request; its answer with the body, or, of a `stream`, as soon as the head has come.

        `timeout`: seconds until the answer is complete, or in a stream between its pieces."""
        if self._transport is None:
            raise self._error or ConnectionResetError("the connection was closed")
        self._answer, self._pieces, self._held, self._streams = Answer(bodiless=bodiless), [], 0, stream
        self._timeout, self._deadline = timeout, self._loop.time() + timeout
        timer = self._loop.call_at(self._deadline, self._expire)
        # From here on the server may have the request, whatever happens to this task: an error that is raised
        # below says nothing about the effect of a write. `HttpTransport` makes it Unreachable.
        self._transport.write(message)
        try:
            while not (self._answer.complete or (stream and self._answer.status)):
                await self._news()
        except BaseException:
            # Also when cancelled: the answer may still come, and the next exchange would take it for its own.
            self.abort()
            raise
        finally:
            timer.cancel()
        self.used = True
        return self._answer, b"" if stream else self._whole()

    async def pieces(self, gather: float = 0.0) -> AsyncGenerator[bytes, None]:
        """The body of a stream as it comes; `timeout` counts anew for each piece. After each piece nothing is
        received for `gather` seconds: the kernel keeps what comes, and it is the next piece."""
        while True:
            if self._pieces:
                yield self._whole()
                if gather > 0 and not self._answer.complete:
                    await self._rest(gather)
            elif self._answer.complete:
                return
            else:
                self._deadline = self._loop.time() + self._timeout
                timer = self._loop.call_at(self._deadline, self._expire)
                try:
                    await self._news()
                finally:
                    timer.cancel()

    async def _rest(self, seconds: float) -> None:
        """Leaves what comes to the kernel."""
        if self._transport is not None:
            _limit(self._transport, high=1, low=0)
            self._transport.pause_reading()
        await asyncio.sleep(seconds)
        if self._transport is not None:
            _limit(self._transport)
            self._transport.resume_reading()

    def abort(self) -> None:
        """Cuts it."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(ConnectionResetError("the connection was cut"))

    def _whole(self) -> bytes:
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        if self._held > ENOUGH and self._transport is not None:
            self._transport.resume_reading()
        self._held = 0
        return taken

    async def _news(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:  # the first error is the cause; closing the connection brings further ones
            self._error = error
            self._wake()

    def _expire(self) -> None:
        self._fail(TimeoutError(f"no answer for {self._timeout:g} s"))


def _probe(connected: socket.socket | None) -> None:
    """Has the kernel ask whether the peer is there, also where a load balancer forgets who is silent."""
    if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBED_AFTER_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def _limit(transport: asyncio.Transport, **limits: int) -> None:
    """How much a paused transport of TLS still receives: its own limits, or these. Others receive nothing."""
    limit = getattr(transport, "set_read_buffer_limits", None)
    if limit is not None:
        limit(**limits)


class Connections:
    """Connections to the server at `url`, as many at once as there are exchanges, all in one event loop.

    `tls` is None for http; `name` is the name that the server's certificate must have, if not that of the
    URL. `proxy` is a URL, or empty."""

    def __init__(
        self, url: SplitResult, tls: ssl.SSLContext | None, *, name: str = "", proxy: str = ""
    ) -> None:
        self._loop = asyncio.get_running_loop()  # asked for once: it costs a system call before Python 3.12
        self._host, self._port = url.hostname or "", url.port or (443 if tls else 80)
        self._tls = tls
        self._name = name or self._host
        self._proxy = urlsplit(proxy) if proxy else None
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()

    async def take(self) -> Connection:
        """An idle connection, else a new one."""
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()  # the one used last: least likely to have been closed by now
            if connection.open and now - connection.idle_since < IDLE_S:
                return connection
            connection.abort()
        return await self.fresh()

    async def fresh(self) -> Connection:
        """A new connection. Raises TimeoutError after `CONNECT_S`."""
        connection = Connection(self._loop, self._ended)
        try:
            async with asyncio.timeout(CONNECT_S):
                await (
                    self._direct(connection)
                    if self._proxy is None
                    else self._through(self._proxy, connection)
                )
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no connection after {CONNECT_S:g} s") from None
        self._open.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Takes a connection back after its exchange, for the next one if it can carry it."""
        if connection.lasting and connection in self._open:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.abort()

    async def close(self) -> None:
        """Cuts all connections; streams end."""
        self._idle.clear()
        held, self._open = self._open, set()
        for connection in held:
            connection.abort()
        if held:
            # `abort` only schedules the closing of the socket. Two turns of the loop are enough, also with
            # TLS on top; without them a caller that ends its loop now would leave sockets behind.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _ended(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _direct(self, connection: Connection) -> None:
        name = self._name if self._tls else None
        await self._loop.create_connection(
            lambda: connection, self._host, self._port, ssl=self._tls, server_hostname=name
        )

    async def _through(self, proxy: SplitResult, connection: Connection) -> None:
        """Connects through a proxy. It forwards requests for http; for https it is asked for a tunnel
        (CONNECT)."""
        secure = proxy.scheme == "https"
        # The tunnel has two protocols: `near` speaks with the proxy until it has agreed; then TLS with the
        # server starts on the same socket, and `connection` gets what comes out of that.
        near = Connection(self._loop, self._ended) if self._tls else connection
        port = proxy.port or (443 if secure else 80)
        transport, _ = await self._loop.create_connection(
            lambda: near, proxy.hostname or "", port, ssl=secure or None
        )
        if self._tls is None:
            return
        where = f"{self._host}:{self._port}"
        connect = f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{authorization(proxy)}\r\n".encode()
        answer, _ = await near.exchange(connect, timeout=CONNECT_S, bodiless=True)
        if answer.status != 200:
            near.abort()
            raise ConnectionRefusedError(
                f"proxy {proxy.hostname}:{port} answers {answer.status} to CONNECT {where}"
            )
        over = await self._loop.start_tls(transport, connection, self._tls, server_hostname=self._name)
        assert over is not None
        connection.connection_made(over)


def authorization(proxy: SplitResult) -> str:
    """The header line for the user and password that a proxy's URL has, if any."""
    if proxy.username is None:
        return ""
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
