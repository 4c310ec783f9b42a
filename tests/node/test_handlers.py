"""What hooks and probes make of answers: over real connections on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from aiohttp import web
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from mooring.kube.objects import Container
from mooring.kube.objects.pods import Handler
from mooring.node.pods.handlers import Outcome, Target, handle, port_of
from mooring.node.runtime import ExecFailure, ExecResult


class Commands:
    """The part of a runtime that handlers use."""

    async def run(self, uid: str, container: str, argv: list[str]) -> ExecResult:
        match argv:
            case ["fail"]:
                return ExecResult(3, "")
            case ["refuse"]:
                raise ExecFailure("container main is not running")
            case _:
                return ExecResult(0, f"{uid} {container} {' '.join(argv)}\n")


async def outcome(container: Container | None = None, timeout: float = 5, **handler: Any) -> Outcome:
    target = Target("u1", container or Container(name="main"), "127.0.0.1")
    return await handle(Commands(), target, Handler(**handler), timeout)  # type: ignore[arg-type]


async def test_a_command_succeeds_with_exit_code_0() -> None:
    assert await outcome(exec={"command": ["say", "x"]}) == Outcome(True, "u1 main say x")
    assert await outcome(exec={"command": ["fail"]}) == Outcome(False, "exit code 3")
    assert await outcome(exec={"command": ["refuse"]}) == Outcome(False, "container main is not running")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of a server that answers as it is asked to."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/moved":
            raise web.HTTPFound("/status/204")
        if request.path == "/slow":
            await asyncio.sleep(60)
        if request.path.startswith("/status/"):
            return web.Response(status=int(request.path.rpartition("/")[2]))
        return web.Response(text=f"{request.path} {request.headers.get('X-Who', '')}")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


async def test_a_request_succeeds_with_a_status_below_400(port: int) -> None:
    header = {"name": "X-Who", "value": "probe"}
    assert await outcome(http_get={"port": port, "path": "x", "httpHeaders": [header]}) == Outcome(
        True, "/x probe"
    )
    assert (await outcome(http_get={"port": port, "path": "/moved"})).success
    failed = await outcome(http_get={"port": port, "path": "/status/500"})
    assert failed == Outcome(False, "HTTP probe failed with statuscode: 500")


async def test_no_answer_in_time_is_a_failure(port: int) -> None:
    assert await outcome(timeout=0.05, http_get={"port": port, "path": "/slow"}) == Outcome(
        False, "no answer within 0.05 s"
    )


async def test_a_connection_is_enough_for_a_socket(port: int) -> None:
    assert (await outcome(tcp_socket={"port": str(port)})).success
    assert (await outcome(tcp_socket={"port": port, "host": "localhost"})).success


async def test_nobody_who_listens_is_told_without_the_library_s_own_words() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    unused = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    result = await outcome(http_get={"port": unused})
    assert not result.success
    assert result.output.startswith(f"cannot connect to 127.0.0.1:{unused}: ")
    assert not (await outcome(tcp_socket={"port": unused})).success


@pytest.fixture
async def grpc_port() -> AsyncIterator[int]:
    """Of a gRPC server with the health protocol: "" and "up" serve, "down" does not."""
    servicer = health.aio.HealthServicer()
    await servicer.set("up", HealthCheckResponse.SERVING)
    await servicer.set("down", HealthCheckResponse.NOT_SERVING)
    server = grpc.aio.server()
    add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(None)


async def test_a_grpc_service_succeeds_while_it_says_that_it_serves(grpc_port: int) -> None:
    assert await outcome(grpc={"port": grpc_port}) == Outcome(True, "")
    assert await outcome(grpc={"port": grpc_port, "service": "up"}) == Outcome(True, "")
    down = await outcome(grpc={"port": grpc_port, "service": "down"})
    assert down == Outcome(False, "service unhealthy (responded with 'NOT_SERVING')")
    unknown = await outcome(grpc={"port": grpc_port, "service": "none"})
    assert not unknown.success and unknown.output.startswith("NOT_FOUND")


async def test_a_port_without_grpc_is_a_failure_of_a_grpc_probe(port: int) -> None:
    assert not (await outcome(grpc={"port": port})).success


async def test_a_grpc_server_without_the_health_protocol_is_a_failure() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    failed = await outcome(grpc={"port": port})
    await server.stop(None)
    assert not failed.success and failed.output.startswith("UNIMPLEMENTED")


def test_a_port_may_have_a_name() -> None:
    container = Container(name="main", ports=({"name": "web", "containerPort": 8080},))
    assert port_of(container, {"port": "web"}) == 8080
    with pytest.raises(ValueError, match="no port named 'none'"):
        port_of(container, {"port": "none"})


@pytest.mark.parametrize(
    "handler",
    [
        {"http_get": {"port": 1, "httpHeaders": [{"value": "x"}]}},
        {"http_get": {"port": 1, "httpHeaders": ["x"]}},
        {"tcp_socket": {"port": 70000}},
        {"sleep": {"seconds": None}},
    ],
)
async def test_what_can_be_no_handler_is_a_failure(handler: dict[str, Any]) -> None:
    """A probe that ended would end those beside it, and nothing would say so: a static pod is not checked."""
    assert not (await outcome(**handler)).success


async def test_sleep_is_a_success() -> None:
    assert (await outcome(sleep={"seconds": 0})).success
