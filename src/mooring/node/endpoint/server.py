"""What the agent answers to the API server: a container's log, a command in a container, a summary of its
volumes.

Guarantees: it answers no request without the endpoint's token; it listens at the node's address only. Paths
are those of upstream's kubelet. The port is in the Node's `status.daemonEndpoints`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from typing import Any

import structlog
from aiohttp import web

from mooring.kube.objects import Pod
from mooring.kube.times import Now
from mooring.node.endpoint.channels import PROTOCOLS, Session
from mooring.node.endpoint.logs import BadLogOptions, LogOptions, read_log, read_options
from mooring.node.runtime import ContainerRecord, Runtime

log = structlog.get_logger("node-agent")

FindPod = Callable[[str, str], Pod | None]
"""A pod of this node, by namespace and name."""
Summary = Callable[[], Awaitable[Mapping[str, Any]]]
"""What /stats/summary says."""


class Changes:
    """Wakes the requests that wait for a change of a pod."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def notify(self, uid: str) -> None:
        """Something about the pod has changed."""
        for event in self._waiting.get(uid, ()):
            event.set()

    @contextlib.contextmanager
    def of(self, uid: str) -> Generator[asyncio.Event, None, None]:
        """An event that is set after each change."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(uid, set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(uid, None)


class Endpoint:
    """The HTTP server of one agent. `token` is what a request must show; without one nothing is served."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        runtime: Runtime,
        find: FindPod,
        summary: Summary,
        changes: Changes,
        now: Now,
    ) -> None:
        self._address = address
        self._token = token
        self._runtime = runtime
        self._find = find
        self._summary = summary
        self._changes = changes
        self._now = now
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        """Serves as long as it is entered."""
        if not self._token:
            yield
            return
        app = web.Application(middlewares=[self._admit])
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        app.router.add_get("/stats/summary", self._stats)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, 0).start()
            self.port = int(runner.addresses[0][1])
            yield
        finally:
            await runner.cleanup()

    @web.middleware
    async def _admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            shown.strip().encode(), self._token.encode()
        ):
            return web.Response(status=401, text="Unauthorized")
        return await handler(request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _stats(self, request: web.Request) -> web.Response:
        return web.json_response(await self._summary())

    # --- logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        pod, name = self._pod(request), request.match_info["container"]
        try:
            options = read_options(request.query, self._now())
        except BadLogOptions as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        attempt = self._attempt(pod, name, options)
        files = self._runtime.log_files(pod.uid, name, attempt)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        with self._changes.of(pod.uid) as changed:
            pieces = read_log(files, options, changed, lambda: self._ended(pod.uid, name, attempt))
            async with contextlib.aclosing(pieces):
                await answer.prepare(request)
                async for piece in pieces:
                    await answer.write(piece)
        await answer.write_eof()
        return answer

    def _attempt(self, pod: Pod, name: str, options: LogOptions) -> int:
        record = self._record(pod.uid, name)
        if record is None:
            why = f'container "{name}" in pod "{pod.name}" is waiting to start: ContainerCreating'
            raise web.HTTPBadRequest(text=why)
        if not options.previous:
            return record.attempt
        if record.last is None:
            raise web.HTTPBadRequest(
                text=f'previous terminated container "{name}" in pod "{pod.name}" not found'
            )
        return record.last.attempt

    def _ended(self, uid: str, name: str, attempt: int) -> bool:
        record = self._record(uid, name)
        return record is None or record.attempt != attempt or record.exit_code is not None

    def _record(self, uid: str, name: str) -> ContainerRecord | None:
        sandbox = self._runtime.sandboxes().get(uid)
        return sandbox.containers.get(name) if sandbox else None

    def _pod(self, request: web.Request) -> Pod:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        pod = self._find(namespace, name)
        if pod is None:
            raise web.HTTPNotFound(text=f"pod {namespace}/{name} is not known to this node")
        return pod

    # --- commands

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        pod, name, query = self._pod(request), request.match_info["container"], request.query
        command = query.getall("command", [])
        if not command:
            raise web.HTTPBadRequest(text="a command is needed")
        socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        await socket.prepare(request)
        tty = _is_true(query, "tty")
        terminal = self._runtime.open_terminal(pod.uid) if tty else None
        session = Session(socket, terminal, stdin=_is_true(query, "stdin"))
        await session.run(lambda stdio: self._runtime.exec(pod.uid, name, command, stdio, tty=tty))
        await socket.close()
        return socket


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false").lower() in ("true", "1")
