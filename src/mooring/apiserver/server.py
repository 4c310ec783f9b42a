"""The server's core: one request in, one response out, with no web framework, socket, thread or wall clock.

`Server.handle` never raises for a bad request: every failure is a Status object in the answer. Everything
that varies from run to run is injected: the clock, the randomness, and the store's log.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from mooring.apiserver.access import Authorizer, attributes_of
from mooring.apiserver.access.identities import Identities
from mooring.apiserver.access.tokens import ANONYMOUS_PATHS, Tokens
from mooring.apiserver.errors import ApiError, BadRequest, NoSuchPath, Obj, StoreFailed, Unavailable
from mooring.apiserver.message import ADMIN, Request, Response
from mooring.apiserver.objects.catalog import Catalog
from mooring.apiserver.objects.kinds import BUILT_IN, indexed_fields
from mooring.apiserver.requests import access_reviews, discovery, issuer_discovery, openapi
from mooring.apiserver.requests.custom_object_cleanup import Cleanup
from mooring.apiserver.requests.event_expiry import EventExpiry
from mooring.apiserver.requests.reads import Reader
from mooring.apiserver.requests.subresources import PodLogs, Subresources, no_pod_logs
from mooring.apiserver.requests.token_requests import TokenRequests
from mooring.apiserver.requests.watch import BOOKMARK_S
from mooring.apiserver.requests.writes import Writer
from mooring.apiserver.routes import Route, resolve
from mooring.apiserver.store.log import Log, MemoryLog
from mooring.apiserver.store.object_store import Store, encode
from mooring.apiserver.values.dotted import WrongForm

Handler = Callable[[Request, Route], Awaitable[Response]]

DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})

_ALWAYS_THERE: Mapping[str, Sequence[Obj]] = {
    "namespaces": [{"metadata": {"name": name}} for name in DEFAULT_NAMESPACES],
    "priorityclasses.scheduling.k8s.io": [
        {
            "metadata": {"name": "system-node-critical"},
            "value": 2000001000,
            "description": "For pods of a node itself.",
        },
        {
            "metadata": {"name": "system-cluster-critical"},
            "value": 2000000000,
            "description": "For pods of the cluster.",
        },
    ],
}
"""Objects that upstream's server also creates when it starts."""


class Server:
    """A Kubernetes API server over one store.

    `log` keeps the history; `tokens` authenticate requests that bring no `user`; `now` is the wall clock and
    `random` the source of uids and generated names; `pod_logs` fetches what a pod wrote; `bookmark_s` is the
    time between the bookmarks of a watch, in seconds. Call `start()` before the first request and `close()`
    after the last.
    """

    def __init__(
        self,
        log: Log,
        tokens: Tokens,
        *,
        now: Callable[[], datetime],
        random: Random,
        pod_logs: PodLogs = no_pod_logs,
        bookmark_s: float = BOOKMARK_S,
    ) -> None:
        self.store = Store(log, indexed_fields)
        self.tokens = tokens
        self.identities = Identities(tokens, self.store, now)
        self.random = random
        self.catalog = Catalog(self.store)
        self._reader = Reader(self.store, now, random, bookmark_s)
        self._authorizer = Authorizer(self.store)
        self._writer = Writer(self.store, self._authorizer, now, random)
        self._cleanup = Cleanup(self._writer, self.catalog)
        self._events = EventExpiry(self.store)
        special = Subresources(self._writer, pod_logs)
        token_requests = TokenRequests(self._writer, tokens)
        self._special: Mapping[tuple[str, str], Handler] = {
            ("create", "binding"): special.bind,
            ("create", "eviction"): special.evict,
            ("create", "token"): token_requests.create,
            ("get", "log"): special.log,
            ("get", "scale"): special.get_scale,
            ("update", "scale"): special.set_scale,
            ("patch", "scale"): special.set_scale,
            ("update", "finalize"): special.finalize,
            ("update", "ephemeralcontainers"): special.update_ephemeral_containers,
            ("patch", "ephemeralcontainers"): special.patch_ephemeral_containers,
        }
        self._verbs: Mapping[str, Handler] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._writer.create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._writer.delete,
            "deletecollection": self._writer.delete_collection,
        }

    @classmethod
    def in_memory(
        cls,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
        tokens: Tokens | None = None,
    ) -> Server:
        """A server that keeps everything in memory, without any thread: for tests and simulations."""
        return cls(MemoryLog(), tokens or Tokens(b"in-memory"), now=now, random=random or Random(0))

    async def start(self) -> None:
        """Creates the objects that always exist, if they do not."""
        for storage, objects in _ALWAYS_THERE.items():
            for obj in objects:
                if self.store.head(storage, ("", obj["metadata"]["name"])) is None:
                    await self._writer.store_new(BUILT_IN.by_storage[storage], deepcopy(obj))
        await self._cleanup.run()

    async def close(self) -> None:
        """Finishes the writes under way and releases the log."""
        await self.store.close()

    async def handle(self, request: Request) -> Response:
        """Answers one request. A watch's answer has a `stream`, which the caller closes with `aclose()`."""
        try:
            answer = await self._answer(request)
        except (ApiError, StoreFailed) as error:
            answer = failure(error)
        except WrongForm as error:
            answer = failure(BadRequest(str(error)))
        return _with_warnings(answer, request.warnings) if request.warnings else answer

    async def call(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | Any = b"",
    ) -> Response:
        """`handle` with the request's parts as arguments; a body that is not bytes is sent as JSON.

        Without an authorization header the request is the administrator's.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = headers or {}
        user = None if "authorization" in given else ADMIN
        return await self.handle(Request(method, path, query, given, data, user))

    async def _answer(self, request: Request) -> Response:
        if request.path in ANONYMOUS_PATHS:
            return self._anonymous(request.path, request.query)
        user = request.user or self.identities.authenticate(request.headers)
        request, kinds = request.by(user), self.catalog.kinds
        if (document := discovery.answer(request, kinds) or openapi.answer(request, kinds)) is not None:
            return document
        if (document := issuer_discovery.answer(request, self.tokens)) is not None:
            return document
        asking = access_reviews.Asking(user, kinds, self.identities, self._authorizer)
        if (review := access_reviews.answer(request, asking)) is not None:
            return review
        route = resolve(request, kinds)
        if not user.is_admin:
            self._authorizer.authorize(user, attributes_of(route, request))
        if route.kind.custom is not None and route.kind.custom.deprecated:
            request.warnings.append(route.kind.custom.deprecated)
        try:
            answer = await self._handler(route)(request, route)
        except ApiError:
            # A write is decided upon what others are still writing: who is told that an object is gone, or
            # has changed, is told what lasts.
            if request.method != "GET":
                await self.store.settled()
            raise
        await self._clean_up(route)
        return answer

    async def clean_up(self, request: Request) -> None:
        """Performs the clean-up that a request decided in a copy of the process (`transport.forked_requests`)
        has made due."""
        await self._clean_up(resolve(request, self.catalog.kinds))

    async def _clean_up(self, route: Route) -> None:
        if self._cleanup.is_due(route):
            await self._cleanup.run()
        if self._events.is_due(route):
            self._events.run()

    def _handler(self, route: Route) -> Handler:
        return self._special.get((route.verb, route.subresource)) or self._verbs[route.verb]

    def _anonymous(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Response:
        if path not in _HEALTH_PATHS:
            return Response(200, _JSON, encode(VERSION))
        trouble = self.store.trouble if path == "/readyz" else ""
        if not trouble and not any(name == "verbose" for name, _ in query):
            return Response(200, _TEXT, b"ok")
        checks = ["[+]ping ok", f"[-]store failed: {trouble}" if trouble else "[+]store ok"]
        verdict = f"{path[1:]} check {'failed' if trouble else 'passed'}"
        return Response(503 if trouble else 200, _TEXT, "\n".join([*checks, verdict, ""]).encode())

    async def _get(self, request: Request, route: Route) -> Response:
        return self._reader.get(request, route)

    async def _list(self, request: Request, route: Route) -> Response:
        return self._reader.list(request, route)

    async def _watch(self, request: Request, route: Route) -> Response:
        return self._reader.watch(request, route)


VERSION: Obj = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+mooring",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def _with_warnings(answer: Response, warnings: Sequence[str]) -> Response:
    """The answer with its warnings in a header (RFC 7234, code 299), as kubectl prints them."""
    quoted = [each.replace("\\", "\\\\").replace('"', '\\"') for each in dict.fromkeys(warnings)]
    return msgspec.structs.replace(
        answer, headers={**answer.headers, "warning": ", ".join(f'299 - "{each}"' for each in quoted)}
    )


def failure(error: ApiError | StoreFailed) -> Response:
    """The answer that says what has failed."""
    if isinstance(error, StoreFailed):
        error = Unavailable(str(error), retryAfterSeconds=1)
    if isinstance(error, NoSuchPath):
        return Response(
            error.code, {"content-type": "text/plain; charset=utf-8"}, f"{error.message}\n".encode()
        )
    headers = dict(_JSON)
    if retry := error.details.get("retryAfterSeconds"):
        headers["retry-after"] = str(retry)
    return Response(error.code, headers, encode(error.status()))
