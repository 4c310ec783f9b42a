"""What hooks and probes do: a command in the container, an HTTP request, a TCP connection, a question by
gRPC's health protocol, or waiting.

Rules: Kubernetes' API reference of `Probe` and `LifecycleHandler`: a command succeeds with exit code 0, a
request with a status from 200 to 399, its certificate is not verified; a service that says SERVING. Requests
are made by the node, to the pod's address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

from mooring.kube.objects import Container
from mooring.kube.objects.pods import Handler
from mooring.node.runtime import Runtime

OUTPUT_LIMIT = 1024
"""Characters of what was answered that an event shows."""


class Outcome(NamedTuple):
    """Whether it succeeded, and a message."""

    success: bool
    output: str


class Target(NamedTuple):
    """The container that a handler is for, and the address at which it answers."""

    pod_uid: str
    container: Container
    address: str


async def handle(runtime: Runtime, target: Target, handler: Handler, timeout_s: float) -> Outcome:
    """Carries the handler out; every failure is an outcome."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _handle(runtime, target, handler)
    except TimeoutError:
        return Outcome(False, f"no answer within {timeout_s:g} s")
    except aiohttp.ClientConnectorError as error:
        return Outcome(False, f"cannot connect to {error.host}:{error.port}: {error.os_error}")
    except Exception as error:  # of a static pod not even the shape of a handler is certain
        return Outcome(False, str(error) or type(error).__name__)


async def _handle(runtime: Runtime, target: Target, handler: Handler) -> Outcome:
    if handler.exec is not None:
        result = await runtime.run(target.pod_uid, target.container.name, handler.exec.get("command", []))
        return Outcome(
            result.exit_code == 0, result.output.strip()[:OUTPUT_LIMIT] or f"exit code {result.exit_code}"
        )
    if handler.http_get is not None:
        return await _http_get(target, handler.http_get)
    if handler.tcp_socket is not None:
        of = handler.tcp_socket
        _, writer = await asyncio.open_connection(
            of.get("host") or target.address, port_of(target.container, of)
        )
        writer.close()
    if handler.grpc is not None:
        from mooring.node.pods import grpc_health  # gRPC is loaded where a pod asks for it

        address = f"{target.address}:{port_of(target.container, handler.grpc)}"
        return Outcome(*await grpc_health.check(address, handler.grpc.get("service") or ""))
    if handler.sleep is not None:
        await asyncio.sleep(float(handler.sleep.get("seconds", 0)))
    return Outcome(True, "")


async def _http_get(target: Target, request: Mapping[str, Any]) -> Outcome:
    scheme, host = str(request.get("scheme") or "HTTP").lower(), request.get("host") or target.address
    url = (
        f"{scheme}://{host}:{port_of(target.container, request)}/{str(request.get('path') or '').lstrip('/')}"
    )
    given = {header["name"]: header.get("value", "") for header in request.get("httpHeaders") or ()}
    headers = {"User-Agent": "kube-probe/mooring", "Accept": "*/*", **given}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
        body = (await answer.content.read(OUTPUT_LIMIT)).decode(errors="replace")
        success = 200 <= answer.status < 400
        return Outcome(success, body if success else f"HTTP probe failed with statuscode: {answer.status}")


def port_of(container: Container, handler: Mapping[str, Any]) -> int:
    """The port that a handler names, by number or by the name that the container gave it. Raises
    `ValueError`."""
    port = handler.get("port", 0)
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for named in container.ports:
        if named.get("name") == port:
            return int(named["containerPort"])
    raise ValueError(f"container {container.name} has no port named {port!r}")
