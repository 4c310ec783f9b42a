"""How the player reaches each of the two servers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from random import Random
from urllib.parse import parse_qsl, unquote, urlsplit

import aiohttp
from tests.differential.player import Send
from tests.real.server import RealServer

from mooring.apiserver import ADMIN, Request, Server


def embedded() -> Server:
    """The embedded server in memory; its clock moves a second with each look, so that times differ as they
    should."""
    seconds = count()
    start = datetime(2030, 1, 1, tzinfo=UTC)
    return Server.in_memory(now=lambda: start + timedelta(seconds=next(seconds)), random=Random(1))


def to_embedded(server: Server) -> Send:
    """Sends to the embedded server's core, without HTTP."""

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = parse_qsl(parts.query, keep_blank_values=True)
        answer = await server.handle(Request(method, unquote(parts.path), query, headers, body, ADMIN))
        if answer.stream is None:
            return answer.status, answer.body
        return answer.status, b"".join([chunk async for chunk in answer.stream])

    return send


def to_real(server: RealServer, session: aiohttp.ClientSession) -> Send:
    """Sends to the real server."""
    tls = server.context()

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        content = BytesIO(body) if body else None
        every = {"authorization": f"Bearer {server.token}", "accept": "application/json", **headers}
        async with session.request(
            method,
            server.url + target,
            data=content,
            headers=every,
            ssl=tls,
            skip_auto_headers=["Content-Type"],
        ) as answer:
            return answer.status, await answer.read()

    return send
