"""The one seam between a client and an API server: `send(request) -> response`.

Two implementations: `mooring.kube.http.HttpTransport` (HTTP/1.1 over TCP or TLS) and `InProcess` (a function call into
an API server in this process, for tests and simulation); `ReadOnly` is another's, for reads alone. A transport raises
`Unreachable` when it got no answer, and InvalidRequest for what it did not send; statuses are the client's to judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from mooring.kube.errors import Unreachable


class Request(msgspec.Struct, frozen=True):
    """One request. `path` is percent-encoded, as `Resource.path` makes it. `stream` asks for the body piece by piece (a
    watch or a log that is followed)."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    stream: bool = False
    timeout: float = 30.0


class Response(msgspec.Struct, frozen=True):
    """One answer. `stream` is set only where it was asked for and the status is a success; close it with `aclose`."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


class Transport(Protocol):
    """Sends one request; raises Unreachable if no answer came."""

    async def send(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


class ReadOnly:
    """Another transport, of which only reads are sent: a program that must not write cannot."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            raise Unreachable(f"{request.method} {request.path}: not sent, because this program only observes")
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


class AtMost:
    """Another transport, with no more than `limit` requests under way at once; streams count until they begin. Many
    connections cost memory and handshakes, and make no API server faster."""

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

    `handle` takes keyword arguments method, path, query, headers, body and returns an object with status, headers,
    body and stream. The token is sent as a bearer token, as over HTTP.
    """

    def __init__(self, handle: Callable[..., Awaitable[Any]], token: str) -> None:
        self._handle = handle
        self._token = token

    async def send(self, request: Request) -> Response:
        headers = {"authorization": f"Bearer {self._token}"} | {k.lower(): v for k, v in request.headers.items()}
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
