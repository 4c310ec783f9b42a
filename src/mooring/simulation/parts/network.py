"""What lies between the parts and the API server: requests and replies that are late, lost, repeated, or cut
off.

The server's code runs as the server's own work, never as its caller's: so a caller that dies leaves a request
under way, and a server that dies leaves callers without an answer. A watch is carried piece by piece and can
lag.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from random import Random
from typing import Any, Protocol

import msgspec
import structlog

from mooring.apiserver import message
from mooring.apiserver.errors import Internal
from mooring.apiserver.server import failure
from mooring.kube.errors import Unreachable
from mooring.kube.transport import Request, Response
from mooring.simulation.engine.event_loop import Actor, Escape
from mooring.simulation.parts.link_conditions import REPLICA_LAG_S, Interceptor, LinkConditions
from mooring.simulation.parts.rare_requests import RareRequests
from mooring.simulation.parts.watch_feed import Feed, FeedLink
from mooring.simulation.parts.webhook import DeadWebhook

log = structlog.get_logger(component="apiserver")

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_EVENTS = "/events"
LATEST_S = 90.0
"""How late a late request may be."""
VERSIONS = 1000
"""Of so many versions it is known when they came."""
PATIENCE_S = 2.0
"""How long a request is waited for that is lost at a point."""


class Serves(Protocol):
    """What the network needs of an API server."""

    async def handle(self, request: message.Request) -> message.Response: ...


async def _answer(server: Serves, request: message.Request) -> message.Response:
    """What a transport answers: an error of the server's code ends the request, and not the server."""
    try:
        return await server.handle(request)
    except Escape:
        raise
    except Exception as error:
        log.exception("request failed", method=request.method, path=request.path)
        return failure(Internal(f"Internal error occurred: {error!r}"))


class Network:
    """All links, and the server that they lead to. `acknowledged` is the newest version that a writer has
    seen in an answer.

    Events (those that people read) are taken, told to `on_event`, and not kept: nothing is decided upon them.
    `on_late` is called with each creation whose sender has given it up.
    """

    def __init__(self) -> None:
        self.server: Serves | None = None
        self.host = Actor("apiserver")
        self.reachable = asyncio.Event()
        self.acknowledged = 0
        self.requests = 0
        self.webhook: DeadWebhook | None = None
        self.on_event: Callable[[str, Request], None] = lambda name, request: None
        self.on_late: Callable[[str, Request], None] = lambda name, request: None
        self.context: Context = copy_context()
        self.loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Future[Response], None] = {}
        self._versions: deque[tuple[float, int]] = deque(maxlen=VERSIONS)
        self._feeds: dict[Feed, FeedLink] = {}

    def serve(self, server: Serves, host: Actor) -> None:
        """From now on requests reach this server."""
        self.server, self.host = server, host
        self.reachable.set()

    def lose_server(self) -> None:
        """No request is answered any more, also none that has arrived already."""
        self.server = None
        self.reachable.clear()
        for reply in list(self._open):
            _fail(reply, "the connection broke")
        for feed in list(self._feeds):
            feed.end("the stream broke")

    def committed(self, version: int) -> None:
        """The store has a new version."""
        self._versions.append((self.loop.time(), version))

    def version_before(self, seconds: float) -> int:
        """The store's version so many seconds ago, as far as is known."""
        moment = self.loop.time() - seconds
        return max(
            (version for time, version in self._versions if time <= moment), default=self._versions[0][1]
        )

    def carry(self, link: Link, request: Request, reply: asyncio.Future[Response], fault: str = "") -> None:
        """Takes a request to the server under the conditions of its link; `reply` gets the answer, or the
        failure."""
        self.requests += 1
        self._open[reply] = None
        if fault in ("request-lost", "reply-lost"):
            self._later(PATIENCE_S, _fail, reply, "no answer")
            if fault == "reply-lost":
                self._later(0.001, self._arrive, link, request, None)
            return
        conditions, chance = link.conditions, link.random
        delay = chance.random() * 0.002
        if conditions.requests_cut:
            self._later(delay + chance.choice((0.0, 1.0, 10.0)), _fail, reply, "no route")
            return
        if link.rare is not None and not request.stream and link.rare.strikes(chance):
            self._lose(link, request, reply)
            return
        if conditions.unreliable:
            delay += self._disturbed(link, request, reply)
        if delay >= 0:
            self._later(delay, self._arrive, link, request, reply)

    def _lose(self, link: Link, request: Request, reply: asyncio.Future[Response]) -> None:
        """It has no effect, or only no answer."""
        self._later(link.random.random() * 5, _fail, reply, "no answer")
        if link.random.random() < 0.5:
            self._later(0.001, self._arrive, link, request, None)

    def _disturbed(self, link: Link, request: Request, reply: asyncio.Future[Response]) -> float:
        """How much later the request arrives; negative: it does not arrive, or its arrival is arranged
        already."""
        conditions, chance = link.conditions, link.random
        drawn, patience = chance.random(), chance.random() * 10
        if drawn < conditions.lost:
            self._later(patience, _fail, reply, "no answer")
            return -1.0
        drawn -= conditions.lost
        if drawn < conditions.unanswered:
            self._later(0.001, self._arrive, link, request, None)
            self._later(patience, _fail, reply, "no answer")
            return -1.0
        drawn -= conditions.unanswered
        if request.method == "GET":
            return chance.random()
        if drawn < conditions.late:
            self._later(patience, _fail, reply, "no answer")
            self._later(patience + chance.random() * LATEST_S, self._arrive, link, request, None)
            return -1.0
        drawn -= conditions.late
        if drawn < conditions.repeated:
            self._later(0.5 + chance.random() * 5, self._arrive, link, request, None)
        return chance.random()

    def _later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        self.loop.call_later(seconds, act, *args, context=self.context)

    def answered(self, reply: asyncio.Future[Response]) -> None:
        """The sender has the answer, or does not wait for it any more."""
        self._open.pop(reply, None)

    def _arrive(self, link: Link, request: Request, reply: asyncio.Future[Response] | None) -> None:
        if self.server is None:
            if reply is not None:
                _fail(reply, "connection refused")
        elif _is_event(request):
            self.on_event(link.name, request)
            if reply is not None and not reply.done() and self._way_back(link, reply):
                reply.set_result(Response(201, {}, request.body))
        else:
            if reply is None and request.method == "POST":
                self.on_late(link.name, request)
            self._work(self._serve(self.server, link, request, reply), waits=request.method != "GET")

    def _work(self, work: Coroutine[Any, Any, None], *, waits: bool) -> None:
        """As the server's own; what waits for nothing, at once: half of all tasks would be reads."""
        if waits or self.host.halted:
            self.host.start(work)
            return
        try:
            self.host.context.run(work.send, None)
        except StopIteration:
            return
        raise AssertionError("a read waits for something")

    def _way_back(self, link: Link, reply: asyncio.Future[Response]) -> bool:
        """Whether an answer comes through."""
        if link.conditions.replies_cut:
            self._later(1.0, _fail, reply, "no answer")
        return not link.conditions.replies_cut

    async def _serve(
        self, server: Serves, link: Link, request: Request, reply: asyncio.Future[Response] | None
    ) -> None:
        headers = {"authorization": link.credentials} | {k.lower(): v for k, v in request.headers.items()}
        streams = request.stream and reply is not None
        feed = Feed(self, link, request.path.rpartition("/")[2]) if streams else None
        sink = feed.take if feed is not None else None
        incoming = message.Request(
            request.method, request.path, request.query, headers, request.body, sink=sink
        )
        if feed is not None and (lag := link.lag_of(request)):
            incoming = await self._of_replica(server, incoming, feed, lag)
        if self.webhook is not None and self.webhook.refuses(link.name, request):
            answer = failure(Internal(f"Internal error occurred: {self.webhook}"))
        else:
            answer = await _answer(server, incoming)
        if reply is None or reply.done() or not self._way_back(link, reply):
            stream: Any = answer.stream
            if stream is not None:
                await stream.aclose()
            return
        if request.method != "GET" and answer.status < 300:
            found = _VERSION.search(answer.body or b"")
            self.acknowledged = max(self.acknowledged, int(found[1]) if found else 0)
        if answer.stream is None:
            reply.set_result(Response(answer.status, answer.headers, answer.body))
            return
        assert feed is not None, "a stream that was not asked for"
        feed.begin(answer.stream)
        reply.set_result(Response(answer.status, answer.headers, b"", feed))

    async def _of_replica(
        self, server: Serves, incoming: message.Request, feed: Feed, lag: float
    ) -> message.Request:
        """The rest of a watch that begins with a list, when a replica has answered whose cache lags: the list
        is as of some time ago, and what came after it is told so much later."""
        version = self.version_before(lag)
        about = [pair for pair in incoming.query if pair[0].endswith("Selector")]
        exact = [("resourceVersion", str(version)), ("resourceVersionMatch", "Exact")]
        answer = await server.handle(msgspec.structs.replace(incoming, query=[*about, *exact], sink=None))
        if answer.status != 200:
            return incoming
        feed.lag = lag
        for line in _initial_events(answer.body, version):
            feed.take(line)
        replaced = ("sendInitialEvents", "resourceVersionMatch", "resourceVersion")
        rest = [pair for pair in incoming.query if pair[0] not in replaced]
        return msgspec.structs.replace(incoming, query=[*rest, ("resourceVersion", str(version))])

    def cut(self, link: Link) -> None:
        """Breaks the streams of a link."""
        for feed in [feed for feed, its in self._feeds.items() if its is link]:
            feed.end("the stream broke")

    def opened(self, feed: Feed, link: FeedLink) -> None:
        self._feeds[feed] = link

    def closed(self, feed: Feed) -> None:
        self._feeds.pop(feed, None)


def _is_event(request: Request) -> bool:
    """Whether it tells people something, by a new event or one that is counted up."""
    collection = request.path if request.method == "POST" else request.path.rpartition("/")[0]
    return request.method in ("POST", "PATCH") and collection.endswith(_EVENTS)


def _fail(reply: asyncio.Future[Response], why: str) -> None:
    if not reply.done():
        reply.set_exception(Unreachable(why))


def _initial_events(body: bytes, version: int) -> Iterator[bytes]:
    """A list as the beginning of a watch."""
    listed = msgspec.json.decode(body, type=_List)
    yield from (b'{"type":"ADDED","object":%b}\n' % bytes(item) for item in listed.items)
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    yield msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": meta}}) + b"\n"


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


class Link:
    """The transport of one part. `on_request` is told of each request before it is sent; it may halt the
    part; `on_failure` of each that gets no answer. `interceptor` decides what happens at single points."""

    def __init__(self, network: Network, name: str, token: str, random: Random) -> None:
        self.name, self.random = name, random
        self.credentials = f"Bearer {token}"
        self.conditions = LinkConditions()
        self.rare: RareRequests | None = None  # where what is asked for seldom is lost
        self.on_request: Callable[[Request], None] = lambda request: None
        self.on_answer: Callable[[Request, Response], None] = lambda request, response: None
        self.on_failure: Callable[[Request], None] = lambda request: None
        self.interceptor: Interceptor | None = None
        self._network = network

    def lag_of(self, request: Request) -> float:
        """By how much the cache lags from which a list is answered that begins a watch."""
        if ("sendInitialEvents", "true") not in request.query:
            return 0.0
        if self.interceptor is not None and self.interceptor.list(request.path) == "list-stale":
            return REPLICA_LAG_S
        return self.conditions.replica_lag if ("resourceVersion", "0") in request.query else 0.0

    async def send(self, request: Request) -> Response:
        reply: asyncio.Future[Response] = self._network.loop.create_future()
        self.on_request(request)
        fault = (
            self.interceptor.request(request) if self.interceptor is not None and not request.stream else ""
        )
        if fault != "crash-before":
            self._network.carry(self, request, reply, fault)
        try:
            answer = await reply
            self.on_answer(request, answer)
            return answer
        except Unreachable as error:
            self.on_failure(request)
            raise Unreachable(f"{request.method} {request.path}: {error}") from None
        finally:
            self._network.answered(reply)

    def cut(self, *, requests: bool = True, replies: bool = True) -> None:
        """A partition; also of one direction only."""
        self.conditions.requests_cut, self.conditions.replies_cut = requests, replies
        self._network.cut(self)

    def clear(self) -> None:
        """Fair weather again."""
        if self.conditions.unread is not None:
            self.conditions.unread.set()
        self.conditions = LinkConditions()

    async def close(self) -> None:
        """Nothing is held."""
