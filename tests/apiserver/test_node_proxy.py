"""Which container a request for a log means, and who may reach a node."""

from __future__ import annotations

import json
import ssl
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from mooring.apiserver import Request, Response, Tokens
from mooring.apiserver.errors import ApiError, BadGateway, BadRequest, Internal, NotImplementedYet
from mooring.apiserver.store.object_store import encode
from mooring.apiserver.transport import tls
from mooring.apiserver.transport.node_endpoints import LOOPBACK, endpoint_of, is_kubelet, kubelet_query
from mooring.apiserver.transport.node_proxy import LARGEST_ERROR, NodeProxy, container_of
from mooring.kube.times import wall_clock

PODS = "/api/v1/namespaces/default/pods"


def pod(*containers: str, init: tuple[str, ...] = ()):
    spec = {
        "containers": [{"name": name} for name in containers],
        "initContainers": [{"name": name} for name in init],
    }
    return {"metadata": {"name": "web"}, "spec": spec}


def test_the_only_container_needs_no_name():
    assert container_of(pod("main", init=("first",)), "") == "main"
    assert container_of(pod("main", init=("first",)), "first") == "first"


def test_among_several_one_must_be_named():
    message = (
        r"a container name must be specified for pod web, choose one of: \[a b\] or one of the init containers: "
        r"\[c\]"
    )
    with pytest.raises(BadRequest, match=message):
        container_of(pod("a", "b", init=("c",)), "")
    with pytest.raises(BadRequest, match="container d is not valid for pod web"):
        container_of(pod("a", "b"), "d")


def test_what_a_nodes_agent_is_shown_opens_nothing_here():
    tokens = Tokens(b"secret")
    assert tokens.endpoint("n1") not in (tokens.node("n1"), tokens.endpoint("n2"), tokens.admin())


def node_at(address: Any, port: Any) -> dict[str, Any]:
    """A Node that says that its agent is there."""
    addresses = [{"type": "Hostname", "address": "evil.example"}, {"type": "InternalIP", "address": address}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    return {"metadata": {"name": "n1"}, "status": status}


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("127.9.9.9", "127.9.9.9"), ("::1", "::1"),
                                               ("::ffff:127.0.0.1", "127.0.0.1")])  # fmt: skip
def test_an_agent_on_loopback_is_asked(address: str, host: str):
    assert endpoint_of(node_at(address, 10250), LOOPBACK) == (host, 10250)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "169.254.169.254", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%lo", "::1%lo", "localhost", "",
        "127.0.0.1@evil.example", "127.0.0.1:80", "127.0.0.1/x?", "127.1", "2130706433", "0x7f000001", " 127.0.0.1",
        ("127.0.0.1\r\nX: "
"y"), "[::1]", "evil.example#127.0.0.1", "0177.0.0.1", 2130706433, ["127.0.0.1"], {"a": 1}, True,
    ],
)  # fmt: skip
def test_the_server_connects_nowhere_else(address: Any):
    with pytest.raises(BadGateway, match=r"is not in 127.0.0.0/8, ::1/128 \(--node-endpoints"):
        endpoint_of(node_at(address, 10250), LOOPBACK)


@pytest.mark.parametrize(
    "port", [1, 22, 80, 443, 1023, 65536, -1, "10250", "80@evil.example", 10250.5, True, [10250]]
)
def test_an_agent_listens_on_an_ordinary_port(port: Any):
    with pytest.raises(BadGateway, match="agents listen on ports from 1024"):
        endpoint_of(node_at("127.0.0.1", port), LOOPBACK)


def test_the_operator_says_where_else_agents_are():
    allowed = [ip_network("10.1.0.0/16")]
    assert endpoint_of(node_at("10.1.2.3", 10250), allowed) == ("10.1.2.3", 10250)
    with pytest.raises(BadGateway, match=r"not in 10.1.0.0/16"):
        endpoint_of(node_at("127.0.0.1", 10250), allowed)


def test_a_node_without_an_endpoint_has_none():
    for node in (node_at("127.0.0.1", 0), node_at("127.0.0.1", None), {"metadata": {"name": "n1"}}):
        with pytest.raises(NotImplementedYet):
            endpoint_of(node, LOOPBACK)


class Rogue:
    """What listens where a stolen node's Node says, and what of it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.elsewhere: list[str] = []
        self.answer: Any = lambda: web.Response(text="ok")

    @asynccontextmanager
    async def serving(self):
        async def elsewhere(request: web.Request) -> web.Response:
            self.elsewhere.append(request.path)
            return web.Response(text="secret of another service")

        async def handle(request: web.Request) -> web.StreamResponse:
            self.asked.append(request.path)
            return self.answer()

        other, self.other_port = await _listening(elsewhere)
        runner, port = await _listening(handle)
        tokens = Tokens(b"secret")

        async def get(path: str) -> Response:
            return Response(200, {}, encode(node_at("127.0.0.1", port)))

        proxy = NodeProxy(tokens, get)
        try:
            yield proxy
        finally:
            await proxy.close()
            await runner.cleanup()
            await other.cleanup()


async def _listening(handler: Any) -> tuple[web.AppRunner, int]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, int(runner.addresses[0][1])


POD = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
}


async def _log(proxy: NodeProxy) -> tuple[Response, bytes]:
    answer = await proxy.logs(Request("GET", "/log"), POD)
    assert answer.stream is not None
    return answer, b"".join([piece async for piece in answer.stream])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_of_an_agent_is_followed(status: int):
    rogue = Rogue()
    async with rogue.serving() as proxy:
        location = f"http://127.0.0.1:{rogue.other_port}/latest/meta-data"
        rogue.answer = lambda: web.Response(status=status, headers={"Location": location})
        with pytest.raises(BadGateway, match="follows no redirect"):
            await _log(proxy)
        with pytest.raises(BadGateway, match="follows no redirect"):
            await proxy.page("n1", "stats/summary", [])
        headers = {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
        }  # fmt: skip
        with pytest.raises(ApiError):
            await proxy.exec(make_mocked_request("GET", "/exec?command=sh", headers=headers), POD)
        assert len(rogue.asked) == 3
        assert rogue.elsewhere == []


async def test_an_older_protocol_is_told_of_a_dead_node_and_not_of_protocols():
    """kubectl asks for the older one after every error, and shows what it is told then."""
    rogue = Rogue()
    async with rogue.serving() as proxy:
        with pytest.raises(BadRequest, match="web sockets"):
            await proxy.exec(make_mocked_request("POST", "/exec?command=sh"), POD)

    async def nothing(request: web.Request) -> web.Response:
        return web.Response()

    runner, port = await _listening(nothing)
    await runner.cleanup()  # nothing listens there any more

    async def get(path: str) -> Response:
        return Response(200, {}, encode(node_at("127.0.0.1", port)))

    proxy = NodeProxy(Tokens(b"secret"), get)
    with pytest.raises(Internal, match="the node has been silent"):
        await proxy.exec(make_mocked_request("POST", "/exec?command=sh"), POD)
    await proxy.close()


async def test_an_agents_error_is_bounded():
    rogue = Rogue()
    async with rogue.serving() as proxy:
        rogue.answer = lambda: web.Response(status=500, text="x" * 1_000_000)
        with pytest.raises(Internal) as caught:
            await _log(proxy)
        assert len(str(caught.value)) <= LARGEST_ERROR


async def test_an_answer_is_passed_on_as_text_or_json_and_never_unpacked():
    rogue = Rogue()
    async with rogue.serving() as proxy:
        for kind, shown in (("text/html", "application/octet-stream"), ("text/plain", "text/plain")):
            rogue.answer = lambda kind=kind: web.Response(body=b"<script>", headers={"Content-Type": kind})
            answer, body = await _log(proxy)
            assert (answer.headers["content-type"], body) == (shown, b"<script>")
            assert answer.headers["x-content-type-options"] == "nosniff"
        packed = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        rogue.answer = lambda: web.Response(body=b"not gzip at all", headers=packed)
        assert (await _log(proxy))[1] == b"not gzip at all"


@pytest.mark.parametrize(
    ("version", "kubelet"), [("v1.36.3", True), ("mooring", False), ("", False), (None, False)]
)
def test_a_kubelet_is_told_by_its_version(version: str | None, kubelet: bool):
    assert is_kubelet({"status": {"nodeInfo": {"kubeletVersion": version}}}) is kubelet


def test_a_kubelet_is_asked_for_streams_by_its_own_names_and_a_command_is_left_as_it_is():
    query = [("command", "stdin"), ("command", "true"), ("stdin", "true"), ("stdout", "1"), ("stderr", "false"),
             ("tty", "true")]  # fmt: skip
    assert kubelet_query(query) == [
        ("command", "stdin"), ("command", "true"), ("input", "1"), ("output", "1"), ("error", "false"), ("tty", "1"),
    ]  # fmt: skip


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[tls.Certificates, tls.Certificates]:
    """A server's, and the client's."""

    def put(path: Path, text: str) -> None:
        path.write_text(text)

    return tls.ensure(tmp_path, wall_clock, put), tls.ensure_client(tmp_path, wall_clock, put)


@asynccontextmanager
async def kubelet(own: tls.Certificates, callers: Path):
    """A kubelet that answers those alone whose certificate is in `callers`, with the headers that it was
    shown."""
    context = own.context()
    context.load_verify_locations(callers)
    context.verify_mode = ssl.CERT_REQUIRED

    async def handle(request: web.Request) -> web.Response:
        return web.json_response(sorted(request.headers))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def proxy_to_kubelet(port: int, client: tls.Certificates, authority: Path | None = None) -> NodeProxy:
    node = node_at("127.0.0.1", port)
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.3"}

    async def get(path: str) -> Response:
        return Response(200, {}, encode(node))

    return NodeProxy(Tokens(b"secret"), get, LOOPBACK, lambda: tls.client_context(client, authority))


async def logs_of(proxy: NodeProxy) -> list[str]:
    placed = {**pod("main"), "spec": {"containers": [{"name": "main"}], "nodeName": "n1"}}
    placed["metadata"]["namespace"] = "default"
    try:
        answer = await proxy.logs(Request("GET", f"{PODS}/web/log"), placed)
        assert answer.stream is not None
        return json.loads(b"".join([piece async for piece in answer.stream]))
    finally:
        await proxy.close()


async def test_a_kubelet_is_shown_the_servers_certificate_and_no_token(
    certificates: tuple[tls.Certificates, tls.Certificates],
):
    own, client = certificates
    async with kubelet(own, client.authority) as port:
        assert "Authorization" not in await logs_of(proxy_to_kubelet(port, client))


async def test_a_kubelet_refuses_another_servers_certificate(
    certificates: tuple[tls.Certificates, tls.Certificates], tmp_path: Path
):
    own, client = certificates
    (tmp_path / "other").mkdir()
    other = tls.ensure_client(
        tmp_path / "other", wall_clock, lambda path, text: path.write_text(text) and None
    )
    async with kubelet(own, other.authority) as port:
        with pytest.raises(Internal, match='the agent of node "n1" does not answer'):
            await logs_of(proxy_to_kubelet(port, client))


async def test_a_kubelet_must_show_a_certificate_of_the_authority_that_the_operator_names(
    certificates: tuple[tls.Certificates, tls.Certificates],
):
    own, client = certificates
    async with kubelet(own, client.authority) as port:
        assert await logs_of(proxy_to_kubelet(port, client, own.authority))
        with pytest.raises(Internal, match="certificate"):
            await logs_of(proxy_to_kubelet(port, client, client.authority))
