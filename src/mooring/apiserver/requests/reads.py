"""get, list and watch. Reads the store's committed state; changes nothing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from mooring.apiserver.encodings import protobuf
from mooring.apiserver.encodings.negotiation import Accepted, negotiate
from mooring.apiserver.encodings.protobuf import WATCH_TYPE
from mooring.apiserver.errors import BadRequest, Expired, Obj, not_found
from mooring.apiserver.message import Request, Response
from mooring.apiserver.requests.list_options import check_list_options, rows_hold, selection, version_of
from mooring.apiserver.requests.rendering import render, render_list
from mooring.apiserver.requests.watch import View, Watch, error_line
from mooring.apiserver.requests.watch_broadcast import Broadcaster
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Item
from mooring.apiserver.store.object_store import Store, encode
from mooring.apiserver.work_limit import spend

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_LONGEST_WATCH_SECONDS = 24 * 3600
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class _Page:
    """Where a paged list goes on: at which version, after which key."""

    version: int
    start: tuple[str, str]

    def token(self) -> str:
        return (
            base64.urlsafe_b64encode(encode({"v": self.version, "start": list(self.start)}))
            .decode()
            .rstrip("=")
        )


def _page(token: str) -> _Page:
    try:
        decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        value: Any = msgspec.json.decode(decoded)
        namespace, name = value["start"]
        return _Page(int(value["v"]), (str(namespace), str(name)))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        detail = "it must be one that the server has returned"
        raise BadRequest(f"invalid continue token: continue key is not valid: {detail}") from error


class Reader:
    """Answers get, list and watch from one store. `now` is the wall clock, `random` spreads watch timeouts.

    A watch that asks for bookmarks gets one after each `bookmark_s` seconds in which there was no news.
    """

    def __init__(self, store: Store, now: Callable[[], datetime], random: Random, bookmark_s: float) -> None:
        self._store = store
        self._now = now
        self._random = random
        self._bookmark_s = bookmark_s
        self._broadcasters: dict[str, Broadcaster] = {}

    def get(self, request: Request, route: Route) -> Response:
        """One object."""
        accepted = negotiate(request.headers.get("accept", ""), protobuf=route.kind.speaks_protobuf)
        wanted = version_of(request.parameter("resourceVersion"))
        if wanted:
            self._store.check_not_future(wanted)
        item = self._store.get(route.kind.storage, (route.namespace, route.name))
        if item is None:
            raise not_found(route.kind.resource, route.name)
        body = render(route.kind, item, accepted.form, self._now(), rows_hold(request))
        return respond(200, body, accepted)

    def list(self, request: Request, route: Route) -> Response:
        """The selected objects as of one version, whole or by pages."""
        accepted = negotiate(request.headers.get("accept", ""), protobuf=route.kind.speaks_protobuf)
        check_list_options(request, watch=False)
        selected = selection(request, route)
        limit, page = _limit(request), None
        if token := request.parameter("continue"):
            if request.parameter("resourceVersion") not in ("", "0"):
                raise BadRequest("specifying resource version is not allowed when using continue")
            page = _page(token)
        version = page.version if page else self._list_version(request)
        items = selected.among(self._items(route, version, page))
        if page:
            items = [item for item in items if item.key > page.start]
        meta: Obj = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            meta["continue"] = _Page(version, items[limit - 1].key).token()
            if not selected.is_narrow:
                meta["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        body = render_list(route.kind, items, meta, accepted, self._now(), rows_hold(request))
        return encoded(200, body, accepted)

    def _items(self, route: Route, version: int, page: _Page | None) -> Sequence[Item]:
        try:
            return self._store.list(route.kind.storage, version)
        except Expired as error:
            raise Expired(_CONTINUE_TOO_OLD) if page else error from None

    def _list_version(self, request: Request) -> int:
        version = version_of(request.parameter("resourceVersion"))
        if request.parameter("resourceVersionMatch") == "Exact":
            return version
        self._store.check_not_future(version)
        return self._store.version

    def watch(self, request: Request, route: Route) -> Response:
        """A stream of changes; see `watch`."""
        accepted = negotiate(request.headers.get("accept", ""), protobuf=route.kind.speaks_protobuf)
        check_list_options(request, watch=True)
        selected = selection(request, route)
        timeout = version_of(request.parameter("timeoutSeconds"), "timeoutSeconds")
        headers = {"content-type": WATCH_TYPE if accepted.encoding == "protobuf" else "application/json"}
        seconds = float(min(timeout, _LONGEST_WATCH_SECONDS)) or self._random.uniform(1800, 3600)
        try:
            view = View(route.kind, selected, accepted, rows_hold(request), self._now)
            watch = Watch(self._store, self._broadcaster(route.kind.storage), view, request, self._bookmark_s)
        except Expired as error:
            return Response(200, headers, stream=_one(error_line(error, accepted.encoding)))
        return Response(200, headers, stream=watch.lines(seconds))

    def _broadcaster(self, storage: str) -> Broadcaster:
        if storage not in self._broadcasters:
            self._broadcasters[storage] = Broadcaster(self._store.collection(storage).history)
        return self._broadcasters[storage]


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


def _limit(request: Request) -> int:
    """How many objects a page may have; 0 or less is no limit. Raises BadRequest."""
    text = request.parameter("limit") or "0"
    if not _NUMBER.fullmatch(text):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text))


def respond(status: int, body: bytes, accepted: Accepted = Accepted()) -> Response:  # noqa: B008 - immutable
    """A complete answer: an object, given as JSON, in the encoding that the client accepts."""
    return encoded(status, protobuf.encode(body) if accepted.encoding == "protobuf" else body, accepted)


def encoded(status: int, body: bytes, accepted: Accepted) -> Response:
    """A whole answer, given as it is sent, but for YAML, which is made of JSON."""
    if accepted.encoding == "protobuf":
        return Response(status, {"content-type": protobuf.MEDIA_TYPE}, body)
    if accepted.encoding == "json":
        return Response(status, {"content-type": "application/json"}, body)
    import yaml

    spend(len(body) << 2)
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(msgspec.json.decode(body), Dumper=dumper, sort_keys=False)
    return Response(status, {"content-type": "application/yaml"}, text.encode())
