"""The aiohttp transport: keep-alive connections, bearer token, TLS as the kubeconfig says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator

import aiohttp
from yarl import URL

from mooring.kube.errors import Unreachable
from mooring.kube.transport import Request, Response


class HttpTransport:
    """Speaks to the API server at `server` (an http or https URL). Must be used from one event loop."""

    def __init__(self, server: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self._server = server.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, auto_decompress=True)
        return self._session

    async def send(self, request: Request) -> Response:
        timeout = aiohttp.ClientTimeout(
            total=None if request.stream else request.timeout, sock_connect=5, sock_read=request.timeout
        )
        try:
            answer = await self._open().request(
                request.method,
                URL(self._server + request.path, encoded=True).with_query(list(request.query)),
                headers=dict(request.headers),
                data=request.body or None,
                timeout=timeout,
            )
            if request.stream and answer.status < 300:
                return Response(answer.status, answer.headers, b"", _pieces(answer))
            body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error
        return Response(answer.status, answer.headers, body)

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable:
        return Unreachable(f"{request.method} {request.path} at {self._server}: {error or type(error).__name__}")

    async def close(self) -> None:
        """Closes idle and open connections; watches end."""
        if self._session is not None:
            await self._session.close()


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The body as it arrives. Not by lines: aiohttp limits a line's length, an object has no such limit."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"stream of {answer.url.path} broke: {error or type(error).__name__}") from error
    finally:
        answer.close()
