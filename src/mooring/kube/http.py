"""The aiohttp transport: keep-alive connections, credentials, TLS and proxy as the kubeconfig says.

Guarantees: a request whose credential the server did not accept (401: nothing was done) is sent once more if there is
a newer credential. When the client certificate changes, the connections made with the old one are closed, as client-go
does: watches break and are resumed. After `close` no socket is left, also where the server answers no TLS goodbye.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import aiohttp
from yarl import URL

from mooring.kube.credentials import Credential, Credentials, Given
from mooring.kube.errors import CredentialError, Unreachable
from mooring.kube.metrics import count_request
from mooring.kube.tls import Trust
from mooring.kube.transport import Request, Response

USER_AGENT = "mooring"  # also the manager of the fields that it writes, as API servers name it


class HttpTransport:
    """Speaks to the API server at `server` (an http or https URL). Must be used from one event loop."""

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        credentials: Credentials | None = None,
        trust: Trust = Trust(),  # noqa: B008 - immutable
        proxy: str = "",
    ) -> None:
        self._server = server.rstrip("/")
        self._host = URL(server).authority
        self._credentials = credentials or Given(Credential(token))
        self._trust = trust
        self._proxy = proxy or None
        self._session: aiohttp.ClientSession | None = None
        self._shown = Credential()  # the certificate of the session
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def send(self, request: Request) -> Response:
        credential = await self._credentials.current()
        answer = await self._counted(request, credential)
        if answer.status == 401:
            self._credentials.refused(credential)
            newer = await self._credentials.current()
            if newer != credential:
                return await self._counted(request, newer)
        return answer

    async def _counted(self, request: Request, credential: Credential) -> Response:
        loop = asyncio.get_running_loop()
        began, code = loop.time(), None
        try:
            answer = await self._send(request, credential)
            code = answer.status
            return answer
        finally:
            count_request(request.method, self._host, code, loop.time() - began)

    async def _send(self, request: Request, credential: Credential) -> Response:
        timeout = aiohttp.ClientTimeout(
            total=None if request.stream else request.timeout, sock_connect=5, sock_read=request.timeout
        )
        headers = {"User-Agent": USER_AGENT, **request.headers}
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        session = await self._open(credential)
        try:
            answer = await session.request(
                request.method,
                URL(self._server + request.path, encoded=True).with_query(list(request.query)),
                headers=headers,
                data=request.body or None,
                timeout=timeout,
                proxy=self._proxy,
                server_hostname=self._trust.server_name or None,
            )
            if request.stream and answer.status < 300:
                return Response(answer.status, answer.headers, b"", _pieces(answer))
            body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error
        return Response(answer.status, answer.headers, body)

    async def _open(self, credential: Credential) -> aiohttp.ClientSession:
        """The session whose connections show the credential's certificate."""
        certificate = credential._replace(token="")
        if self._session is not None and not self._session.closed:
            if certificate == self._shown:
                return self._session
            await self._session.close()
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls(certificate), socket_factory=self._socket)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        self._shown = certificate
        return self._session

    def _tls(self, certificate: Credential) -> ssl.SSLContext | bool:
        if not self._server.startswith("https:"):
            return True
        try:
            return self._trust.context(certificate.certificate, certificate.key)
        except (OSError, ValueError) as error:
            raise CredentialError(f"the client certificate for {self._server} cannot be used: {error}") from None

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable:
        return Unreachable(f"{request.method} {request.path} at {self._server}: {error or type(error).__name__}")

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    async def close(self) -> None:
        """Closes idle and open connections; watches end.

        aiohttp waits for the connections that it still counts, not for those of requests cancelled a moment ago: these
        linger until the server answers their TLS goodbye, so they are cut.
        """
        if self._session is not None:
            await self._session.close()
        for _ in range(100):
            if not (lingering := [each for each in self._sockets if each.fileno() >= 0]):
                return
            for each in lingering:
                with suppress(OSError):  # not connected any more
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0.001)


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The body as it arrives. Not by lines: aiohttp limits a line's length, an object has no such limit."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"stream of {answer.url.path} broke: {error or type(error).__name__}") from error
    finally:
        answer.close()
