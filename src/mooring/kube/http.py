"""The transport over TCP: keep-alive connections, credentials, TLS and proxy as the kubeconfig says.

Guarantees: a request whose credential the server did not accept (401: nothing was done) is sent once more if
there is a newer credential; so is a read whose connection had been kept and turned out to be closed. When the
client certificate changes, the connections made with the old one are closed, as client-go does: watches break
and are resumed. After `close` no socket is left, also where the server answers no TLS goodbye.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from urllib.parse import SplitResult, urlencode, urlsplit

from mooring.kube.connections import Connection, Connections, authorization
from mooring.kube.credentials import Credential, Credentials, Given
from mooring.kube.errors import ConfigError, CredentialError, InvalidRequest, Unreachable
from mooring.kube.http1 import Malformed
from mooring.kube.metrics import count_request
from mooring.kube.tls import Trust
from mooring.kube.transport import Request, Response

USER_AGENT = "mooring"  # also the manager of the fields that it writes, as API servers name it
_PATH = re.compile(r"(/[-A-Za-z0-9._~!$&'()*+,;=:@%]*)+")
_HOST = re.compile(r"[-A-Za-z0-9._~!$&'()*+,;=:@%\[\]]+")
_FIELD_NAME = re.compile(r"[-!#$%&'*+.^_`|~A-Za-z0-9]+")
_FIELD_VALUE = re.compile(r"[\t -~]*")
FAILURES = (OSError, Malformed)  # a TimeoutError is an OSError


class HttpTransport:
    """Speaks to the API server at `server` (an http or https URL). Must be used from one event loop. Raises
    ConfigError for a URL that cannot be part of a request."""

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
        self._url = _url(self._server)
        self._host = self._url.netloc.rpartition("@")[2]
        self._credentials = credentials or Given(Credential(token))
        self._trust = trust
        self._proxy = proxy
        self._connections: Connections | None = None
        self._shown = Credential()  # the certificate of the connections
        self._target, self._common_headers = self._prefix()

    def _prefix(self) -> tuple[str, str]:
        """What comes before a path, and the headers of every request."""
        headers = f"Host: {self._host}\r\nUser-Agent: {USER_AGENT}\r\n"
        if self._proxy and self._url.scheme == "http":
            return self._server, headers + authorization(urlsplit(self._proxy))
        return self._url.path, headers

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
        message = self._message(request, credential.token)
        try:
            connections = await self._for(credential)
            connection = await connections.take()
            try:
                return await self._exchange(connections, connection, request, message)
            except ConnectionError:
                if request.method != "GET" or not connection.used or connection.answered:
                    raise
            return await self._exchange(connections, await connections.fresh(), request, message)
        except FAILURES as error:
            raise self._unreachable(request, error) from error

    async def _exchange(
        self, connections: Connections, connection: Connection, request: Request, message: bytes
    ) -> Response:
        answer, body = await connection.exchange(message, timeout=request.timeout, stream=request.stream)
        if request.stream:
            pieces = _pieces(connections, connection, request)
            if answer.status < 300:
                return Response(answer.status, answer.headers, b"", pieces)
            body = b"".join([piece async for piece in pieces])
        else:
            connections.give_back(connection)
        return Response(answer.status, answer.headers, body)

    def _message(self, request: Request, token: str) -> bytes:
        """Nothing that a request is made of can end its line. Raises InvalidRequest, CredentialError."""
        if not (_FIELD_NAME.fullmatch(request.method) and _PATH.fullmatch(request.path)):
            raise InvalidRequest(
                f"no path of a request: {request.method!a} {request.path[:200]!a}; it was not sent"
            )
        query = "?" + urlencode(request.query, safe="(),/=") if request.query else ""
        lines = [f"{request.method} {self._target}{request.path}{query} HTTP/1.1\r\n{self._common_headers}"]
        lines += [_field(name, value) for name, value in request.headers.items()]
        if token:
            if not _FIELD_VALUE.fullmatch(token):
                raise CredentialError(f"the token for {self._server} has characters that no header can have")
            lines.append(f"Authorization: Bearer {token}\r\n")
        if request.body or request.method != "GET":
            lines.append(f"Content-Length: {len(request.body)}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode() + request.body

    async def _for(self, credential: Credential) -> Connections:
        """Those that show the credential's certificate."""
        former, shown = self._connections, self._shown
        if former is not None and (credential.certificate, credential.key) == (shown.certificate, shown.key):
            return former
        tls = self._tls(credential)
        # Before anything is waited for: what several made at once would be closed by none.
        fresh = Connections(self._url, tls, name=self._trust.server_name, proxy=self._proxy)
        self._connections, self._shown = fresh, credential
        if former is not None:
            await former.close()
        return fresh

    def _tls(self, credential: Credential) -> ssl.SSLContext | None:
        if self._url.scheme != "https":
            return None
        try:
            return self._trust.context(credential.certificate, credential.key)
        except (OSError, ValueError) as error:
            raise CredentialError(
                f"the client certificate for {self._server} cannot be used: {error}"
            ) from None

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable:
        return Unreachable(
            f"{request.method} {request.path} at {self._server}: {str(error) or type(error).__name__}"
        )

    async def close(self) -> None:
        """Closes idle and open connections; watches end. What is sent later opens new ones."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None


def _url(server: str) -> SplitResult:
    """The parts of an API server's URL."""
    try:
        url = urlsplit(server)
        usable = url.port != 0 and _HOST.fullmatch(url.netloc) and not (url.query or url.fragment)
    except ValueError as error:
        raise ConfigError(f"the server URL {server!a} cannot be used: {error}") from None
    if not usable or not _PATH.fullmatch(url.path or "/") or url.geturl() != server:
        raise ConfigError(f"the server URL {server!a} cannot be used: it must be like https://host:port/path")
    return url


def _field(name: str, value: str) -> str:
    """A line of a request's head (RFC 9110, section 5)."""
    if not (_FIELD_NAME.fullmatch(name) and _FIELD_VALUE.fullmatch(value)):
        raise InvalidRequest(f"no header of a request: {name!a}: {value[:200]!a}; it was not sent")
    return f"{name}: {value}\r\n"


async def _pieces(
    connections: Connections, connection: Connection, request: Request
) -> AsyncGenerator[bytes, None]:
    """The body as it arrives. Not by lines: an object may be of any length."""
    try:
        async for piece in connection.pieces(request.gather):
            yield piece
    except FAILURES as error:
        raise Unreachable(f"stream of {request.path} broke: {str(error) or type(error).__name__}") from error
    finally:
        connections.give_back(connection)
