"""The one seam between a client and an API server: `send(request) -> response`.

Two implementations: `mooring.kube.http.HttpTransport` (HTTP/1.1 over TCP or TLS) and `InProcess` (a function
call into an API server in this process, for tests and simulation). `ReadOnly` and `AtMost` wrap another
transport. A transport raises `Unreachable` when no answer came, and `NotSent` for a request that it certainly
did not send. It returns every answer, whatever its status; the client decides which statuses are errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from mooring.kube.errors import NotSent


class Request(msgspec.Struct, frozen=True):
    """One request. `path` is percent-encoded, as `Resource.path` makes it. `stream` asks for the body piece
    by piece (a watch or a log that is followed), and `gather` that what comes in so many seconds after a
    piece is one piece: a task that wakes once a second costs less than one that wakes for each event."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: bool = False
    gather: float = 0.0
    timeout: float = 30.0


class Response(msgspec.Struct, frozen=True):
    """One answer. `stream` is set only where it was asked for and the status is a success; close it with
    `aclose`."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


class Transport(Protocol):
    """Sends one request. Raises Unreachable if no answer came, NotSent if the request was not sent."""

    async def send(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


class ReadOnly:
    """Wraps a transport and lets only reads through, so that a program that must not write cannot. Raises
    NotSent."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            raise NotSent(f"{request.method} {request.path}: not sent, because this program only observes")
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


class AtMost:
    """Wraps a transport and keeps at most `limit` requests in flight; a stream counts until it begins. More
    connections would cost memory and handshakes, and would not make the API server faster."""

    def __init__(self, inner: Transport, limit: int) -> None:
        self._inner = inner
        self._places = asyncio.Semaphore(limit)

    async def send(self, request: Request) -> Response:
        async with self._places:
            return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


class InProcess:
    """A transport that calls an API server's `handle` in this process.

    `handle` takes keyword arguments method, path, query, headers, body and returns an object with status,
    headers, body and stream. The token is sent as a bearer token, as over HTTP.
    """

    def __init__(self, handle: Callable[..., Awaitable[Any]], token: str) -> None:
        self._handle = handle
        self._token = token

    async def send(self, request: Request) -> Response:
        headers = {"authorization": f"Bearer {self._token}"} | {
            k.lower(): v for k, v in request.headers.items()
        }
        answer = await self._handle(
            method=request.method,
            path=unquote(request.path) if "%" in request.path else request.path,
            query=list(request.query),
            headers=headers,
            body=request.body,
        )
        return Response(answer.status, answer.headers, answer.body or b"", answer.stream)

    async def close(self) -> None:
        """Nothing is held."""
