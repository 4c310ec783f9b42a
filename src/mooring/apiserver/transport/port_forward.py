"""`kubectl port-forward`: the bytes of a client's web socket, and those of a kubelet's connection, passed on.

kubectl carries a SPDY connection in the binary messages of a web socket (KEP-4006); a kubelet takes SPDY
bare, after an upgrade of HTTP/1.1. Nothing of SPDY is read here. The kubelet's answer to the upgrade is
bounded, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from aiohttp import WSMsgType, web

from mooring.apiserver.errors import BadGateway, BadRequest

TUNNEL = "SPDY/3.1+portforward.k8s.io"
LARGEST_HEAD = 16 * 1024
"""Bytes of a kubelet's answer to the upgrade."""
LARGEST_MESSAGE = 4 * 1024 * 1024
PIECE = 64 * 1024
BEGIN_S = 30.0


class Kubelet:
    """Where a kubelet listens; `tls` is our side of it, None in tests alone."""

    def __init__(self, node: str, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._node, self._address, self._port, self._tls = node, address, port, tls

    async def upgraded(self, namespace: str, pod: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which the kubelet speaks SPDY. Raises BadGateway."""
        try:
            async with asyncio.timeout(BEGIN_S):
                opened = asyncio.open_connection(self._address, self._port, ssl=self._tls, limit=LARGEST_HEAD)
                reader, writer = await opened
        except (OSError, TimeoutError) as error:
            raise self._silent(error) from error
        try:
            async with asyncio.timeout(BEGIN_S):
                writer.write(self._request(namespace, pod))
                head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise self._silent(error) from error
        status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        if status != [b"101"]:
            writer.close()
            shown = b" ".join(status).decode(errors="replace")[:20]
            raise BadGateway(f'the kubelet of node "{self._node}" does not forward ports: it answers {shown}')
        return reader, writer

    def _request(self, namespace: str, pod: str) -> bytes:
        host = f"[{self._address}]" if ":" in self._address else self._address
        lines = (
            f"POST /portForward/{quote(namespace, safe='')}/{quote(pod, safe='')} HTTP/1.1",
            f"Host: {host}:{self._port}",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            "X-Stream-Protocol-Version: portforward.k8s.io",
            "Content-Length: 0",
        )
        return "\r\n".join((*lines, "", "")).encode()

    def _silent(self, error: BaseException) -> BadGateway:
        return BadGateway(
            f'the kubelet of node "{self._node}" does not answer: {str(error)[:200] or type(error).__name__}'
        )


Race = Callable[..., Coroutine[Any, Any, None]]


async def forward(
    incoming: web.Request, kubelet: Kubelet, namespace: str, pod: str, until_one_ends: Race
) -> web.StreamResponse:
    """Joins the client with the kubelet until one of them ends. Raises BadRequest for a client that does not
    speak so, BadGateway."""
    outer = web.WebSocketResponse(protocols=(TUNNEL,), max_msg_size=LARGEST_MESSAGE)
    wanted = [name.strip() for name in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not outer.can_prepare(incoming) or TUNNEL not in wanted:
        raise BadRequest("ports are forwarded over web sockets: use kubectl 1.31 or newer")
    reader, writer = await kubelet.upgraded(namespace, pod)
    try:
        await outer.prepare(incoming)
        await until_one_ends(_outward(reader, outer), _inward(outer, writer))
    finally:
        writer.close()
    await outer.close()
    return outer


async def _outward(reader: asyncio.StreamReader, outer: web.WebSocketResponse) -> None:
    while piece := await reader.read(PIECE):
        await outer.send_bytes(piece)


async def _inward(outer: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    async for message in outer:
        if message.type is WSMsgType.BINARY:
            writer.write(message.data)
            await writer.drain()
