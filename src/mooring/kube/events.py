"""Events on objects: what a person reads in `kubectl describe`.

Guarantees: recording never blocks and never fails the caller; equal events (same object, type, reason and message)
within ten minutes become one with a count; what cannot be written after some tries is logged and dropped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from datetime import timedelta
from random import Random
from typing import Any, Literal, NamedTuple

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import ApiError, KubeError, NotFound
from mooring.kube.objects import Event, Object
from mooring.kube.times import Now, format_time

log = structlog.get_logger(component="events")

WINDOW = timedelta(minutes=10)
REMEMBERED = 4096
PENDING = 1000
TRIES = 3
MESSAGE_LENGTH = 1024


class _Wish(NamedTuple):
    key: tuple[str, str, str, str]
    namespace: str
    body: dict[str, Any]


class Recorder:
    """Writes events in the name of `component`; `run` must be running for them to reach the API server."""

    def __init__(self, client: Client, component: str, *, now: Now, random: Random, host: str = "") -> None:
        self._client = client
        self._source = {"component": component} | ({"host": host} if host else {})
        self._now = now
        self._random = random
        self._queue: asyncio.Queue[_Wish] = asyncio.Queue(PENDING)
        self._written: OrderedDict[tuple[str, str, str, str], Event] = OrderedDict()

    def event(self, about: Object, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Records one event about an object; the message is cut at 1024 characters."""
        message = message[:MESSAGE_LENGTH]
        stamp = format_time(self._now())
        namespace = about.namespace or "default"
        body = {
            "metadata": {"name": f"{about.name}.{self._random.getrandbits(64):016x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.RESOURCE.api_version,
                "kind": about.RESOURCE.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
                "resourceVersion": about.metadata.resource_version,
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "source": self._source,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source.get("host", ""),
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        try:
            self._queue.put_nowait(_Wish((about.uid or about.key, type_, reason, message), namespace, body))
        except asyncio.QueueFull:
            log.warning("event dropped: too many are waiting", object=about.key, reason=reason, message=message)

    async def run(self) -> None:
        """Writes events as they come, until cancelled."""
        while True:
            wish = await self._queue.get()
            try:
                await self._write(wish)
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Returns when all that was recorded has been written or dropped."""
        await self._queue.join()

    async def _write(self, wish: _Wish) -> None:
        for attempt in range(TRIES):
            try:
                self._remember(wish.key, await self._count_up(wish) or await self._create(wish))
                return
            except ApiError as error:
                log.info("event refused", reason=wish.body["reason"], error=str(error))
                return
            except KubeError as error:
                log.debug("event not written", attempt=attempt, error=str(error))
                await asyncio.sleep(0.5 * 2**attempt)
        log.warning("event lost", reason=wish.body["reason"], message=wish.body["message"])

    async def _create(self, wish: _Wish) -> Event:
        return await self._client.create(Event, wish.body, wish.namespace)

    async def _count_up(self, wish: _Wish) -> Event | None:
        held = self._written.get(wish.key)
        if held is None or (held.first_timestamp or "") < format_time(self._now() - WINDOW):
            return None
        patch = {"count": (held.count or 1) + 1, "lastTimestamp": wish.body["lastTimestamp"]}
        try:
            return await self._client.patch(Event, held.name, patch, wish.namespace)
        except NotFound:
            return None

    def _remember(self, key: tuple[str, str, str, str], event: Event) -> None:
        self._written[key] = event
        self._written.move_to_end(key)
        while len(self._written) > REMEMBERED:
            self._written.popitem(last=False)
