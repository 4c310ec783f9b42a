"""The proxy to nodes: a pod's log, a command in a container, the node's own pages.

The node agent listens where its Node's status says, within the bounds of `node_endpoints`; this server
authenticates with a token that both know, to a kubelet with its client certificate. The address may be a
thief's, so the proxy trusts nothing behind it: it follows no redirect, unpacks nothing, bounds errors and
messages, and passes an answer on piece by piece as text or JSON. Logs are a seam of the core
(`NodeProxy.logs`); the rest upgrades its connection, so it stands beside the core, at the HTTP adapter
(`add_routes`), for administrators only. Commands use web sockets (kubectl 1.31 or newer).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from mooring.apiserver.access.identities import Identities
from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.errors import (
    ApiError,
    BadGateway,
    BadRequest,
    Forbidden,
    Internal,
    NotFound,
    NotImplementedYet,
    Obj,
)
from mooring.apiserver.message import Request, Response
from mooring.apiserver.store.object_store import decode, encode
from mooring.apiserver.transport.joined_sockets import (
    PROTOCOLS,
    join,
    offered,
    spoken,
    until_one_ends,
)
from mooring.apiserver.transport.node_endpoints import (
    LOOPBACK,
    Network,
    endpoint_of,
    is_kubelet,
    kubelet_query,
)
from mooring.apiserver.transport.port_forward import Kubelet, forward
from mooring.apiserver.transport.silent_nodes import silent
from mooring.apiserver.values.dotted import objects_at, text_at

PIECE = 64 * 1024
CONNECT_S = 5.0
BEGIN_S = 30.0
"""How long an agent may take until its answer begins."""
LARGEST_MESSAGE = 4 * 1024 * 1024
LARGEST_ERROR = 4 * 1024
_SHOWN = ("text/plain", "application/json")
"""The content types that are passed on; others become bytes."""

Get = Callable[[str], Awaitable[Response]]
"""Reads an object of this server by its path, as the administrator."""


class _Agent(NamedTuple):
    """Where a node's agent is, and what this server shows it: a header, or the certificate of `tls`. `node`
    is its Node."""

    node: Obj
    address: str
    port: int
    shown: Mapping[str, str]
    tls: ssl.SSLContext | bool

    @property
    def is_kubelet(self) -> bool:
        return self.tls is not False

    def url(self, path: str) -> URL:
        scheme = "https" if self.is_kubelet else "http"
        return URL.build(scheme=scheme, host=self.address, port=self.port, path=path)


class NodeProxy:
    """The client of the nodes' agents."""

    def __init__(
        self,
        tokens: Tokens,
        get: Get,
        allowed: Sequence[Network] = LOOPBACK,
        kubelets: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`allowed` are the networks in which agents are looked for; `kubelets` gives our side of TLS to
        those that are kubelets, once one is asked."""
        self._tokens = tokens
        self._kubelets = cache(kubelets)
        self._get = get
        self._allowed = tuple(allowed)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes the client."""
        if self._session is not None:
            await self._session.close()

    async def logs(self, request: Request, pod: Obj) -> Response:
        """Answers a request for a pod's log, for `mooring.apiserver.server.Server`."""
        container = container_of(pod, request.parameter("container"))
        query = [(key, value) for key, value in request.query if key != "container"]
        return await self._stream(_place(pod), "containerLogs", _path(pod, container), query)

    async def _stream(self, node: str, what: str, path: str, query: Sequence[tuple[str, str]]) -> Response:
        agent = await self._agent(node)
        url = agent.url(f"/{what}/{path}".rstrip("/"))
        try:
            async with asyncio.timeout(BEGIN_S):
                answer = await self._open().get(
                    url, params=list(query), headers=agent.shown, ssl=agent.tls, allow_redirects=False
                )
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            raise silent(node, agent.node, error) from error
        if answer.status != 200:
            async with answer:
                raise _refused(node, answer.status, await _beginning(answer))
        kind = answer.content_type if answer.content_type in _SHOWN else "application/octet-stream"
        headers = {"content-type": kind, "x-content-type-options": "nosniff"}
        return Response(200, headers, stream=_pieces(answer))

    async def exec(self, incoming: web.Request, pod: Obj, what: str = "exec") -> web.StreamResponse:
        """Joins the client's web socket with the node's; `what` may also be `attach`, to a kubelet's
        container."""
        query = [(key, value) for key, value in incoming.query.items() if key != "container"]
        container = container_of(pod, incoming.query.get("container", ""))
        node = _place(pod)
        agent = await self._agent(node)
        if what != "exec" and not agent.is_kubelet:
            raise NotImplementedYet(f"pods/{what} is not served: use `kubectl logs` or `kubectl exec`")
        url = agent.url(f"/{what}/{_path(pod, container)}")
        outer = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=LARGEST_MESSAGE)
        if not outer.can_prepare(incoming):
            await self._reach(node, agent)
            raise BadRequest("commands are run over web sockets: use kubectl 1.31 or newer")
        wanted = [name.strip() for name in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        protocols = offered(wanted, kubelet=agent.is_kubelet)
        if not protocols:
            raise BadRequest(f"none of the protocols {', '.join(wanted)} is known: use kubectl 1.31 or newer")
        connect = self._open().ws_connect(
            url,
            params=kubelet_query(query) if agent.is_kubelet else query,
            headers=agent.shown,
            protocols=protocols,
            max_msg_size=LARGEST_MESSAGE,
            ssl=agent.tls,
        )
        try:
            async with asyncio.timeout(BEGIN_S):
                inner = await connect
        except aiohttp.WSServerHandshakeError as error:
            raise _refused(node, error.status, "") from error
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            raise silent(node, agent.node, error) from error
        async with inner:
            outer = web.WebSocketResponse(
                protocols=filter(None, [spoken(wanted, inner.protocol)]), max_msg_size=LARGEST_MESSAGE
            )
            await outer.prepare(incoming)
            await join(outer, inner, node)
        await outer.close()
        return outer

    async def _reach(self, node: str, agent: _Agent) -> None:
        """Raises the error of an agent that does not answer. kubectl asks again, for an older protocol, after
        every error, and shows the second one only."""
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(agent.address, agent.port)
        except (OSError, TimeoutError) as error:
            raise silent(node, agent.node, error) from error
        writer.close()

    async def forward(self, incoming: web.Request, pod: Obj) -> web.StreamResponse:
        """Joins the client with a port of a pod, where its node is a kubelet's."""
        node = _place(pod)
        agent = await self._agent(node)
        if not isinstance(agent.tls, ssl.SSLContext):
            raise NotImplementedYet("pods/portforward is not served: use `kubectl logs` or `kubectl exec`")
        kubelet = Kubelet(node, agent.address, agent.port, agent.tls)
        namespace, name = text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")
        return await forward(incoming, kubelet, namespace, name, until_one_ends)

    async def page(self, node: str, path: str, query: Sequence[tuple[str, str]]) -> Response:
        """A page of the node's agent (`/api/v1/nodes/NAME/proxy/…`)."""
        what, _, rest = path.partition("/")
        return await self._stream(node, what, rest, query)

    async def pod(self, namespace: str, name: str) -> Obj:
        """The pod. Raises NotFound."""
        return await self._find(f"/api/v1/namespaces/{namespace}/pods/{name}", f'pods "{name}" not found')

    async def _find(self, path: str, missing: str) -> Obj:
        answer = await self._get(path)
        if answer.status != 200:
            raise NotFound(missing)
        return decode(answer.body)

    async def _agent(self, name: str) -> _Agent:
        node = await self._find(f"/api/v1/nodes/{name}", f'nodes "{name}" not found')
        address, port = endpoint_of(node, self._allowed)
        if is_kubelet(node):
            return _Agent(node, address, port, {}, self._kubelets())
        return _Agent(node, address, port, {"Authorization": f"Bearer {self._tokens.endpoint(name)}"}, False)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            redirects = aiohttp.TraceConfig()
            redirects.on_request_redirect.append(_refuse_redirect)  # also those of a web socket's handshake
            self._session = aiohttp.ClientSession(
                timeout=timeout, read_bufsize=PIECE, auto_decompress=False, trace_configs=[redirects]
            )
        return self._session


def container_of(pod: Obj, name: str) -> str:
    """The container that a request means, in upstream's words if there is none."""
    lists = {
        kind: objects_at(pod, f"spec.{kind}")
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }
    names = {kind: [text_at(each, "name") for each in found] for kind, found in lists.items()}
    known = [each for found in names.values() for each in found]
    if name in known:
        return name
    of = text_at(pod, "metadata.name")
    if name:
        raise BadRequest(f"container {name} is not valid for pod {of}")
    if len(names["containers"]) == 1:
        return names["containers"][0]
    inits = (
        f" or one of the init containers: [{' '.join(names['initContainers'])}]"
        if names["initContainers"]
        else ""
    )
    choices = " ".join(names["containers"])
    raise BadRequest(f"a container name must be specified for pod {of}, choose one of: [{choices}]{inits}")


def _place(pod: Obj) -> str:
    node = text_at(pod, "spec.nodeName")
    if not node:
        raise BadRequest(f"pod {text_at(pod, 'metadata.name')} does not have a host assigned")
    return node


def _path(pod: Obj, container: str) -> str:
    return f"{text_at(pod, 'metadata.namespace')}/{text_at(pod, 'metadata.name')}/{container}"


def _refused(node: str, status: int, text: str) -> ApiError:
    kinds: dict[int, type[ApiError]] = {400: BadRequest, 404: NotFound}
    if 300 <= status < 400:
        return BadGateway(f'the agent of node "{node}" answers {status}: this server follows no redirect')
    return kinds.get(status, Internal)(text or f"the node's agent answered {status}")


async def _refuse_redirect(*_: Any) -> None:
    raise aiohttp.ClientError("it answers with a redirect, which this server does not follow")


async def _beginning(answer: aiohttp.ClientResponse) -> str:
    """The beginning of an error's text, as much as a person reads."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(CONNECT_S):
            return (await answer.content.read(LARGEST_ERROR)).decode(errors="replace")
    return ""


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    async with answer:
        async for piece in answer.content.iter_any():
            yield piece


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Send = Callable[[web.Request, Response], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, proxy: NodeProxy, identities: Identities, send: Send) -> None:
    """Adds the routes of the proxy. To be called before the application's own routes are added."""

    async def on_pod(incoming: web.Request) -> web.StreamResponse:
        path, what = incoming.match_info, incoming.match_info["what"]
        _only_admin(incoming, identities, f"pods/{what}")
        pod = await proxy.pod(path["namespace"], path["name"])
        if what == "portforward":
            return await proxy.forward(incoming, pod)
        return await proxy.exec(incoming, pod, what)

    async def on_node(incoming: web.Request) -> web.StreamResponse:
        _only_admin(incoming, identities, "nodes/proxy")
        path = incoming.match_info
        return await send(
            incoming, await proxy.page(path["name"], path["path"], list(incoming.query.items()))
        )

    what = "{what:exec|attach|portforward}"
    app.router.add_route(
        "*", f"/api/v1/namespaces/{{namespace}}/pods/{{name}}/{what}", _with_status_errors(on_pod)
    )
    app.router.add_get("/api/v1/nodes/{name}/proxy/{path:.*}", _with_status_errors(on_node))


def _with_status_errors(handler: Handler) -> Handler:
    """The handler, with its errors answered as Status objects, as the core answers them."""

    async def handle(incoming: web.Request) -> web.StreamResponse:
        try:
            return await handler(incoming)
        except ApiError as error:
            status = error.status()
            return web.Response(status=status["code"], body=encode(status), content_type="application/json")

    return handle


def _only_admin(incoming: web.Request, identities: Identities, what: str) -> None:
    headers = {name.lower(): value for name, value in incoming.headers.items()}
    user = identities.authenticate(headers)
    if not user.is_admin:
        raise Forbidden(f'User "{user.name}" cannot use {what}')
