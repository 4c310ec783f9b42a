"""The transport over TCP, on loopback."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mooring.apiserver.tls import Certificates, ensure
from mooring.kube.credentials import Credential
from mooring.kube.errors import CredentialError, Unreachable
from mooring.kube.http import HttpTransport
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
        said = [request.method, request.raw_path, request.headers["Authorization"], (await request.read()).decode()]
        return web.json_response(said, status=201)

    async with server(handler) as url:
        transport = HttpTransport(url, token="t")
        answer = await transport.send(Request("POST", "/a/b%2Fc", (("labelSelector", "a in (b,c)"),), {}, b"body"))
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


async def over_tls(certificates: Certificates, trust: Trust, server_side: ssl.SSLContext, **options: Any) -> int:
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
        transport = HttpTransport(url, trust=Trust(certificates.authority.read_bytes()), credentials=credentials)
        assert (await transport.send(Request("GET", "/x"))).body == b"first"
        credentials.shown = second
        assert (await transport.send(Request("GET", "/x"))).body == b"second"
        credentials.shown = Credential("", b"no certificate", b"no key")
        with pytest.raises(CredentialError, match="client certificate"):
            await transport.send(Request("GET", "/x"))
        await transport.close()


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
        (held,) = transport._sockets
        request.cancel()
        await asyncio.wait([request])
        assert held.fileno() >= 0, "else there is nothing to clean up"
        await transport.close()
        assert held.fileno() == -1
        done.set()
        await server_side
