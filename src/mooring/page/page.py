"""The page as a whole: the model, what follows the API, and the server, for as long as they are wanted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import structlog

from mooring.kube.client import Client
from mooring.kube.times import Now
from mooring.kube.transport import ReadOnly
from mooring.page.following import Following
from mooring.page.model import Model
from mooring.page.server import PageServer
from mooring.page.streams import Streams
from mooring.page.text import name
from mooring.page.truth import Looks
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import load_plugins

log = structlog.get_logger(component="page")


@contextlib.asynccontextmanager
async def showing(
    client: Client, *, port: int, cluster: str, now: Now, looks: Looks | None = None
) -> AsyncGenerator[PageServer, None]:
    """Serves a page about the cluster of `client` until it is left. `cluster` is how it is called there.
    Whatever the client may do, here it can only read. Raises OSError if the port cannot be had."""

    def milliseconds() -> int:
        return int(now().timestamp() * 1000)

    def facts() -> dict[str, Any]:
        return {
            "cluster": name(cluster),
            "now": milliseconds(),
            "truth": looks is not None,
            "connected": following.connected() and not work.done(),
            "reads": following.reads(),
            "begun": following.begun.is_set(),
        }

    model = Model(load_plugins(ControllerVolumeHost(now)), milliseconds)
    streams = Streams(model)
    following = Following(Client(ReadOnly(client.transport)), model, streams.tell, looks)
    streams.facts = facts
    server = PageServer(model, streams, facts)
    async with server.serving(port):
        work = asyncio.create_task(following.run())
        work.add_done_callback(_say)
        try:
            yield server
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # it has been said
                await work


def _say(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        log.error("the page does not follow the cluster any more", error=repr(error))
