"""Joins the web socket of a client, in which a command's streams are, with a node's.

Kubernetes' protocol has a byte for the stream in front of each message. Since v5 the end of one stream can be
told, too; kubelets before 1.36 speak v4 alone, in which it cannot: a command that waits for the end of its
input goes on, and the client is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web

LAST = "v5.channel.k8s.io"
PROTOCOLS = (LAST, "v4.channel.k8s.io", "channel.k8s.io")
_STDIN, _STDERR, _ENDS = b"\x00", b"\x02", b"\xff"


def offered(wanted: list[str], *, kubelet: bool) -> list[str]:
    """What a node is offered for a client that wants these; nothing if none of them is known. A kubelet may
    take the last but one in the place of the last."""
    known = [name for name in PROTOCOLS if name in wanted]
    return [*known, PROTOCOLS[1]] if kubelet and known == [LAST] else known


def spoken(wanted: list[str], inner: str | None) -> str | None:
    """What the client is answered if the node speaks `inner`."""
    return inner if inner in wanted or inner is None else LAST


async def join(outer: web.WebSocketResponse, inner: aiohttp.ClientWebSocketResponse, node: str) -> None:
    """Passes messages both ways until one side closes."""
    ends = outer.ws_protocol == LAST and inner.protocol != LAST
    there = _pass_without_ends(outer, inner, node) if ends else _pass(outer, inner)
    await until_one_ends(there, _pass(inner, outer))


async def until_one_ends(*ways: Coroutine[Any, Any, Any]) -> None:
    """Runs them side by side; when one has ended, the others are cancelled. What they raise is dropped."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass(source: Any, target: Any) -> None:
    async for message in source:
        if message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)


async def _pass_without_ends(outer: web.WebSocketResponse, inner: Any, node: str) -> None:
    async for message in outer:
        if message.type is not WSMsgType.BINARY:
            continue
        if message.data[:1] != _ENDS:
            await inner.send_bytes(message.data)
        elif message.data[1:] == _STDIN:
            text = (
                f"mooring: the kubelet of {node} cannot be told that the input has ended (kubelets 1.36 can): "
                "if the command waits for that, end it by Ctrl-C\r\n"
            )
            await outer.send_bytes(_STDERR + text.encode())
