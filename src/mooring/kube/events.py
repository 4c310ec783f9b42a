"""Events on objects: what a person reads in `kubectl describe`.

Guarantees:
- Recording never blocks and never fails the caller.
- Equal events (same object, type, reason and message) within ten minutes become one with a count. So do
  events that differ in their message only, from the tenth message of an object and reason on; that one says
  that it is combined.
- What the server does not take now (no answer, 429, 5xx) is tried three times, 429 after its Retry-After;
  what it refuses, and what is left after that, is logged and dropped. An event is not written twice: all
  tries have one name.
- Names differ between recorders, also if these were given equal random numbers.

Source of aggregation: client-go, tools/record/events_cache.go.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal, NamedTuple, TypeVar

import structlog

from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, ApiError, KubeError, NotFound, ServerError, Throttled
from mooring.kube.objects import Event, Object
from mooring.kube.owners import derived_name
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_micro_time, format_time

K = TypeVar("K")
V = TypeVar("V")

log = structlog.get_logger(component="events")

WINDOW = timedelta(minutes=10)
REMEMBERED = 4096
PENDING = 1000
TRIES = 3
MESSAGE_LENGTH = 1024
DISTINCT_MESSAGES = 10
_NONE: frozenset[str] = frozenset()
COMBINED = "(combined from similar events): "

Key = tuple[str, str, str, str]
EventType = Literal["Normal", "Warning"]


class _Wish(NamedTuple):
    key: Key
    namespace: str
    body: dict[str, Any]


class _Written(NamedTuple):
    """What is remembered of an event: keeping thousands of whole events would be keeping mostly text that is
    never read."""

    name: str
    first_timestamp: str
    times: int

    @classmethod
    def of(cls, event: Event) -> _Written:
        return cls(event.name, event.first_timestamp or "", event.count or 1)


class Recorder:
    """Writes events in the name of `component`; `run` must be running for them to reach the API server."""

    def __init__(self, client: Client, component: str, *, now: Now, random: Random, host: str = "") -> None:
        self._client = client
        self._source = {"component": component} | ({"host": host} if host else {})
        self._now = now
        self._random = random
        self._queue: asyncio.Queue[_Wish] = asyncio.Queue(PENDING)
        self._dropped = 0  # since nothing was waiting
        self._written: OrderedDict[Key, _Written] = OrderedDict()
        self._last_reasons: OrderedDict[tuple[str, str], Reason] = OrderedDict()
        self._messages: OrderedDict[tuple[str, str, str], tuple[datetime, frozenset[str]]] = OrderedDict()

    def once(self, about: Object, type_: EventType, reason: Reason, *, matter: str = "") -> bool:
        """An event about the object, unless the last one of this method about it said the same. Whether it is
        new. `matter`: where two are told of one object, each has its last one."""
        if self._last_reasons.get((about.uid, matter)) == reason:
            return False
        _keep(self._last_reasons, (about.uid, matter), reason)
        self.event(about, type_, *reason)
        return True

    def event(self, about: Object, type_: EventType, reason: str, message: str) -> None:
        """Records one event about an object; the message is cut at 1024 characters."""
        if self._queue.full():
            self._drop(about, reason)
            return
        key, message = self._combined((about.uid or about.key, type_, reason, message[:MESSAGE_LENGTH]))
        stamp = format_time(self._now())
        namespace = about.namespace or "default"
        body = {
            "metadata": {"name": self._name(about, key), "namespace": namespace},
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
        self._queue.put_nowait(_Wish(key, namespace, body))

    def _drop(self, about: Object, reason: str) -> None:
        """Said once for all that are dropped one after the other: in a burst there are thousands."""
        if not self._dropped:
            log.warning(
                "events are dropped: too many are waiting", waiting=PENDING, first=about.key, reason=reason
            )
        self._dropped += 1

    def _combined(self, key: Key) -> tuple[Key, str]:
        """What the event counts as, and its message: a common one where an object has had many with one
        reason."""
        about, type_, reason, message = key
        now = self._now()
        last, held = self._messages.get((about, type_, reason), (now, _NONE))
        messages = (held if now - last <= WINDOW else _NONE) | {message}
        _keep(
            self._messages,
            (about, type_, reason),
            (now, messages if len(messages) < DISTINCT_MESSAGES else held),
        )
        if len(messages) < DISTINCT_MESSAGES:
            return key, message
        return (about, type_, reason, COMBINED), (COMBINED + message)[:MESSAGE_LENGTH]

    def _name(self, about: Object, key: Key) -> str:
        parts = (
            *self._source.values(),
            *key,
            format_micro_time(self._now()),
            str(self._random.getrandbits(64)),
        )
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        return derived_name(about.name, f".{digest}")

    async def run(self) -> None:
        """Writes events as they come, until cancelled."""
        while True:
            wish = await self._queue.get()
            try:
                await self._write(wish)
            finally:
                self._queue.task_done()
            if self._dropped and self._queue.empty():
                log.warning("events were dropped", number=self._dropped)
                self._dropped = 0

    async def flush(self) -> None:
        """Returns when all that was recorded has been written or dropped."""
        await self._queue.join()

    async def _write(self, wish: _Wish) -> None:
        for attempt in range(TRIES):
            try:
                _keep(
                    self._written,
                    wish.key,
                    _Written.of(await self._count_up(wish) or await self._create(wish)),
                )
                return
            except KubeError as error:
                if isinstance(error, ApiError) and not isinstance(error, (Throttled, ServerError)):
                    said = wish.body["message"]
                    log.info("event refused", reason=wish.body["reason"], message=said, error=str(error))
                    return
                log.debug("event not written", attempt=attempt, error=str(error))
                delay = 0.5 * 2**attempt
                await asyncio.sleep(max(delay, error.retry_after) if isinstance(error, Throttled) else delay)
        log.warning("event lost", reason=wish.body["reason"], message=wish.body["message"])

    async def _create(self, wish: _Wish) -> Event:
        try:
            return await self._client.create(Event, wish.body, wish.namespace)
        except AlreadyExists:  # an earlier try whose answer was lost
            return await self._client.get(Event, wish.body["metadata"]["name"], wish.namespace)

    async def _count_up(self, wish: _Wish) -> Event | None:
        held = self._written.get(wish.key)
        if held is None or held.first_timestamp < format_time(self._now() - WINDOW):
            return None
        changed = {field: wish.body[field] for field in ("message", "lastTimestamp")}
        patch = {"count": held.times + 1, **changed}
        try:
            return await self._client.patch(Event, held.name, patch, wish.namespace)
        except NotFound:
            return None


def _keep(memory: OrderedDict[K, V], key: K, value: V) -> None:
    """Remembers a value; what was remembered longest ago is forgotten when there is too much."""
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
