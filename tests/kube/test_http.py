"""The transport over TCP, on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mooring.apiserver.transport.tls import Certificates, ensure
from mooring.kube import client as kube_client
from mooring.kube import connections
from mooring.kube.credentials import Credential
from mooring.kube.errors import ConfigError, CredentialError, InvalidRequest, Unreachable
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Pod
from mooring.kube.times import wall_clock
from mooring.kube.tls import Trust
from mooring.kube.transport import Request


@asynccontextmanager
async def server(handler: Any, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str, None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_method_path_query_body_and_token_arrive_as_they_are():
    async def handler(request: web.Request) -> web.Response:
        sent = [
            request.method,
            request.raw_path,
            request.headers["Authorization"],
            (await request.read()).decode(),
        ]
        return web.json_response(sent, status=201)

    async with server(handler) as url:
        transport = HttpTransport(url, token="t")
        answer = await transport.send(
            Request("POST", "/a/b%2Fc", (("labelSelector", "a in (b,c)"),), {}, b"body")
        )
        await transport.close()
    assert answer.status == 201
    assert answer.body == b'["POST", "/a/b%2Fc?labelSelector=a+in+(b,c)", "Bearer t", "body"]'


async def test_where_nobody_listens_is_unreachable_and_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    transport = HttpTransport(url)
    with pytest.raises(Unreachable, match=rf"GET /x at {url}: "):
        await transport.send(Request("GET", "/x"))
    await transport.close()


async def test_an_answer_that_does_not_come_in_time_is_unreachable():
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with server(handler) as url:
        transport = HttpTransport(url)
        with pytest.raises(Unreachable):
            await transport.send(Request("GET", "/x", timeout=0.05))
        await transport.close()


async def test_a_connection_that_is_not_made_in_time_is_told_as_such(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mooring.kube.connections.CONNECT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, and never speaks TLS
        transport = HttpTransport(f"https://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match=r"no connection after 0\.05 s"):
            await transport.send(Request("GET", "/x"))
        await transport.close()


async def test_a_stream_comes_in_pieces_of_any_length_and_breaks_as_unreachable():
    long = b"x" * 1_000_000 + b"\n"

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(long)
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True))
        assert answer.stream is not None
        with pytest.raises(Unreachable, match="stream of /x broke"):
            async for _ in answer.stream:
                pass
        await transport.close()


async def test_a_refused_stream_has_its_reason_as_body():
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=410, text="too old")

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True))
        await transport.close()
    assert (answer.status, answer.body, answer.stream) == (410, b"too old", None)


class Rotating:
    """Credentials that become the next ones when they are refused."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def current(self) -> Credential:
        return Credential(self.tokens[0])

    def refused(self, credential: Credential) -> None:
        if len(self.tokens) > 1 and credential.token == self.tokens[0]:
            self.tokens.pop(0)


@pytest.mark.parametrize(("tokens", "status", "sent"), [(["old", "new"], 200, 2), (["old"], 401, 1)])
async def test_a_request_that_was_not_let_in_is_sent_again_if_there_is_a_newer_credential(
    tokens: list[str], status: int, sent: int
):
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async with server(handler) as url:
        transport = HttpTransport(url, credentials=Rotating(*tokens))
        answer = await transport.send(Request("POST", "/x", body=b"{}"))
        await transport.close()
    assert answer.status == status
    assert len(seen) == sent


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    def put(path: Path, text: str) -> None:
        path.write_text(text)

    return ensure(tmp_path, wall_clock, put)


async def over_tls(
    certificates: Certificates, trust: Trust, server_side: ssl.SSLContext, **options: Any
) -> int:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=204)

    async with server(handler, tls=server_side) as url:
        transport = HttpTransport(url, trust=trust, **options)
        try:
            return (await transport.send(Request("GET", "/x"))).status
        finally:
            await transport.close()


async def test_a_server_whose_authority_and_name_are_trusted_is_spoken_to(certificates: Certificates):
    authority = certificates.authority.read_bytes()
    for trust in (Trust(authority), Trust(authority, server_name="localhost"), Trust(insecure=True)):
        assert await over_tls(certificates, trust, certificates.context()) == 204


async def test_a_server_of_another_authority_or_name_is_unreachable(certificates: Certificates):
    for trust in (Trust(), Trust(certificates.authority.read_bytes(), server_name="elsewhere.example")):
        with pytest.raises(Unreachable, match="certificate"):
            await over_tls(certificates, trust, certificates.context())


def client_certificate(name: str) -> Credential:
    """A self-signed one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(wall_clock() - timedelta(hours=1))
        .not_valid_after(wall_clock() + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Credential("", certificate.public_bytes(Encoding.PEM), private)


async def test_the_client_certificate_of_the_moment_is_shown(certificates: Certificates):
    class Changing:
        shown = client_certificate("first")

        async def current(self) -> Credential:
            return self.shown

        def refused(self, credential: Credential) -> None:
            raise AssertionError

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        ((((_, name),),)) = request.transport.get_extra_info("peercert")["subject"]
        return web.Response(text=name)

    credentials, second = Changing(), client_certificate("second")
    server_side = certificates.context()
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_verify_locations(cadata=(credentials.shown.certificate + second.certificate).decode())
    async with server(handler, tls=server_side) as url:
        transport = HttpTransport(
            url, trust=Trust(certificates.authority.read_bytes()), credentials=credentials
        )
        assert (await transport.send(Request("GET", "/x"))).body == b"first"
        credentials.shown = second
        assert (await transport.send(Request("GET", "/x"))).body == b"second"
        credentials.shown = Credential("", b"no certificate", b"no key")
        with pytest.raises(CredentialError, match="client certificate"):
            await transport.send(Request("GET", "/x"))
        await transport.close()


def sockets_to(address: tuple[str, int]) -> int:
    """How many sockets of this process are connected to it."""
    return len(asked_of_sockets_to(address, lambda _: None))


def asked_of_sockets_to(address: tuple[str, int], ask: Callable[[socket.socket], Any]) -> list[Any]:
    found: list[Any] = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as held:
            if held.getpeername() == address:
                found.append(ask(held))
    return found


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_peer_that_is_gone_without_a_word_is_noticed_before_a_watch_has_ended(
    certificates: Certificates, encrypted: bool
):
    """By the kernel's probes: a machine without power answers none."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    def given_up_after(connected: socket.socket) -> int:
        on, idle, every, times = (
            connected.getsockopt(level, option)
            for level, option in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            )
        )
        return idle + every * times if on else 7 * 24 * 3600

    async with server(handler, tls=certificates.context() if encrypted else None) as url:
        transport = HttpTransport(url, trust=Trust(certificates.authority.read_bytes()))
        await transport.send(Request("GET", "/x"))
        address = urlsplit(url).hostname or "", urlsplit(url).port or 0
        (seconds,) = asked_of_sockets_to(address, given_up_after)
        await transport.close()
    assert seconds < kube_client.WATCH_S / 2


async def test_no_socket_is_left_of_requests_that_were_sent_at_once_as_the_certificate_changed():
    class Changing:
        shown = Credential("", b"first")

        async def current(self) -> Credential:
            return self.shown

        def refused(self, credential: Credential) -> None:
            raise AssertionError

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    credentials = Changing()
    async with server(handler) as url:
        transport = HttpTransport(url, credentials=credentials)
        address = urlsplit(url).hostname or "", urlsplit(url).port or 0
        await transport.send(Request("GET", "/x"))
        credentials.shown = Credential("", b"second")
        await asyncio.gather(*(transport.send(Request("GET", "/x")) for _ in range(4)))
        await transport.close()
        assert sockets_to(address) == 0


async def test_no_socket_is_left_after_close_though_the_server_never_says_goodbye(certificates: Certificates):
    """A request is cancelled, and the server does not answer TLS's close: as a busy one does for a while."""
    reached, done = threading.Event(), threading.Event()

    def serve(listener: socket.socket) -> None:
        with certificates.context().wrap_socket(listener.accept()[0], server_side=True) as peer:
            peer.recv(1000)
            reached.set()
            done.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server_side = asyncio.create_task(asyncio.to_thread(serve, listener))
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        transport = HttpTransport(url, trust=Trust(certificates.authority.read_bytes()))
        request = asyncio.create_task(transport.send(Request("GET", "/")))
        assert await asyncio.to_thread(reached.wait, 20)
        assert sockets_to(listener.getsockname()) == 1
        request.cancel()
        await asyncio.wait([request])
        await transport.close()
        assert sockets_to(listener.getsockname()) == 0
        done.set()
        await server_side


@asynccontextmanager
async def raw_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> AsyncGenerator[str, None]:
    """Its address; what it has begun is over when the block ends."""
    serving: list[asyncio.Task[Any] | None] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async with await asyncio.start_server(one, "127.0.0.1", 0) as listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        await asyncio.gather(*(each for each in serving if each))


class Counting:
    """A server of raw answers: each connection gets the next list of answers, one for each request, and is
    closed."""

    def __init__(self, *connections: list[bytes]) -> None:
        self._connections = list(connections)
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in self._connections.pop(0):
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
            writer.write(answer)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_read_whose_kept_connection_the_server_closed_is_sent_again_and_a_write_never():
    for method, again in (("GET", True), ("POST", False)):
        closing = Counting([OK, b""], [OK])
        async with raw_server(closing.serve) as address:
            transport = HttpTransport(f"http://{address}")
            await transport.send(Request("GET", "/first"))
            if again:
                assert (await transport.send(Request(method, "/x"))).body == b"ok"
            else:
                with pytest.raises(Unreachable, match="the connection was closed"):
                    await transport.send(Request(method, "/x"))
            await transport.close()
        assert [line.split()[0] for line in closing.asked[1:]] == [method.encode()] * (2 if again else 1)


async def test_a_peer_that_speaks_something_else_is_unreachable():
    async with raw_server(Counting([b"220 mail.example ESMTP\r\n\r\n"]).serve) as address:
        transport = HttpTransport(f"http://{address}")
        with pytest.raises(Unreachable, match="220 mail"):
            await transport.send(Request("GET", "/x"))
        await transport.close()


class Tunnel:
    """An HTTP proxy, for tunnels and for plain requests."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        method, target, _ = head.split(b" ", 2)
        if method != b"CONNECT":
            writer.write(OK)
            return
        host, _, port = target.decode().partition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(self.copy(reader, far_writer), self.copy(far_reader, writer))

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_proxy_is_asked_for_a_tunnel_to_a_server_with_tls_and_passes_other_requests_on(
    certificates: Certificates,
):
    tunnel = Tunnel()
    async with raw_server(tunnel.serve) as address:
        proxy = f"http://me:p%40ss@{address}"
        trust = Trust(certificates.authority.read_bytes())
        assert await over_tls(certificates, trust, certificates.context(), proxy=proxy) == 204
        transport = HttpTransport("http://api.example:8080", proxy=proxy)
        assert (await transport.send(Request("GET", "/x"))).body == b"ok"
        await transport.close()
    for asked, begins in zip(
        tunnel.asked, (b"CONNECT 127.0.0.1:", b"GET http://api.example:8080/x HTTP/1.1"), strict=True
    ):
        assert asked.startswith(begins)
        assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in asked


async def test_a_stream_that_nobody_reads_is_not_received_without_end():
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                while sent < 100_000_000:
                    await answer.write(b"x" * 100_000)
                    sent += 100_000
        return answer

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True))
        assert answer.stream is not None
        await asyncio.sleep(1.2)
        assert 0 < sent < 50_000_000
        assert sum([len(piece) async for piece in answer.stream]) >= sent
        await transport.close()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_comes_while_a_stream_gathers_wakes_the_process_once(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, encrypted: bool
):
    begun, written, wakes, pieces = asyncio.Event(), asyncio.Event(), 0, list[bytes]()
    woken_by, name = (
        (SSLProtocol, "buffer_updated") if encrypted else (connections.Connection, "data_received")
    )
    original = getattr(woken_by, name)

    def counted(self: Any, data: Any) -> None:
        nonlocal wakes
        wakes += begun.is_set()
        original(self, data)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begins")
        await begun.wait()
        for _ in range(40):
            await answer.write(b"more")
            await asyncio.sleep(0.005)
        written.set()
        await answer.write_eof()
        return answer

    monkeypatch.setattr(woken_by, name, counted)
    async with server(handler, tls=certificates.context() if encrypted else None) as url:
        transport = HttpTransport(url, trust=Trust(certificates.authority.read_bytes()))
        answer = await transport.send(Request("GET", "/x", stream=True, gather=1.0))
        assert answer.stream is not None
        async for piece in answer.stream:
            pieces.append(piece)
            begun.set()
        await transport.close()
    assert b"".join(pieces) == b"begins" + b"more" * 40
    assert len(pieces) < 10 and wakes < 10


async def test_a_stream_that_breaks_while_it_gathers_is_unreachable():
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begins")
        assert request.transport is not None
        asyncio.get_running_loop().call_later(0.02, request.transport.abort)
        await asyncio.sleep(0.05)
        return answer

    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", stream=True, gather=0.2))
        assert answer.stream is not None
        with pytest.raises(Unreachable, match="stream of /x broke"):
            async for _ in answer.stream:
                pass
        await transport.close()


async def nothing_listens(path: str = "/api/v1/pods", **fields: Any) -> None:
    """Sends a request to where every connection fails, so that Unreachable means: it would have been sent."""
    transport = HttpTransport("http://127.0.0.2:1", token=fields.pop("token", ""))
    try:
        await transport.send(Request(fields.pop("method", "GET"), path, **fields))
    finally:
        await transport.close()


SMUGGLED = "/api/v1/pods/x HTTP/1.1\r\nHost: h\r\n\r\nDELETE /api/v1/namespaces/victim/secrets/precious?x="


@pytest.mark.parametrize("fields", [
    {"path": SMUGGLED},
    {"path": "/a b"},
    {"path": "/a\nb"},
    {"path": "/a?watch=true"},
    {"path": "/a#b"},
    {"path": "/\u00e9"},
    {"path": "http://elsewhere/"},
    {"path": ""},
    {"method": "GET /x HTTP/1.1\r\n\r\nDELETE"},
    {"method": ""},
    {"headers": {"Accept": "a\r\nAuthorization: Bearer other"}},
    {"headers": {"Accept\r\nX": "a"}},
    {"headers": {"A b": "c"}},
    {"headers": {"Accept": "\0"}},
    {"headers": {"Accept": "\u2028"}},
])  # fmt: skip
async def test_what_would_be_more_than_one_request_is_not_sent(fields: dict[str, Any]):
    with pytest.raises(InvalidRequest):
        await nothing_listens(**fields)


@pytest.mark.parametrize("token", ["a\r\nX-Remote-User: admin", "a\n", "\0", "\xff"])
async def test_a_token_that_would_be_more_than_one_header_is_not_sent_and_not_shown(token: str):
    with pytest.raises(CredentialError) as refusal:
        await nothing_listens(token=token)
    assert "admin" not in str(refusal.value)


@pytest.mark.parametrize("server", [
    "http://h/a b", "http://h/a\r\nX: y", "http://h\n", "http://h?x", "http://h#x", "http://h:99999", "http://h:x", "http://",
    "http://h y", "http://[", "http://\u00e9",
])  # fmt: skip
def test_a_server_url_that_would_spoil_requests_is_refused(server: str):
    with pytest.raises(ConfigError, match="server URL"):
        HttpTransport(server)


async def test_values_of_a_query_stay_values():
    """A selector is text that contains names, too."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response([list(pair) for pair in request.query.items()])

    pairs = (("fieldSelector", "metadata.name=a&limit=1#\r\nX: y +%"), ("labelSelector", "a in (b,c),d=e/f"))
    async with server(handler) as url:
        transport = HttpTransport(url)
        answer = await transport.send(Request("GET", "/x", query=pairs))
        await transport.close()
    assert msgspec.json.decode(answer.body) == [list(pair) for pair in pairs]


async def test_an_answer_or_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """Memory is not filled by what a peer goes on sending."""
    monkeypatch.setattr(connections, "LARGEST_BODY", 100_000)
    monkeypatch.setattr(kube_client, "LONGEST_EVENT", 100_000)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with suppress(ConnectionError):
            for _ in range(1000):
                await answer.write(b"x" * 1000)
        return answer

    async with server(handler) as url:
        client = kube_client.Client(HttpTransport(url))
        with pytest.raises(Unreachable, match="more than 100000 bytes"):
            await client.request("GET", "/x")
        with pytest.raises(Unreachable, match="more than 100000 bytes"):
            async for _ in client.watch(Pod):
                raise AssertionError
        await client.close()
