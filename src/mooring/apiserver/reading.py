"""get, list and watch. Reads the store's committed state; changes nothing."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from mooring.apiserver.errors import BadRequest, Expired, Obj, not_found
from mooring.apiserver.history import Change, ChangeType, Cursor, Item
from mooring.apiserver.message import Request, Response
from mooring.apiserver.negotiation import Accepted, Form, negotiate
from mooring.apiserver.rendering import bookmark, event_line, render, render_list
from mooring.apiserver.routes import Route
from mooring.apiserver.store import Store, encode
from mooring.kube.selectors import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)

BOOKMARK_SECONDS = 60.0
_LONGEST_WATCH_SECONDS = 24 * 3600
_CHUNK_CHANGES = 1000
_JSON = {"content-type": "application/json"}
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection a request is about."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector

    @property
    def is_narrow(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def includes(self, item: Item) -> bool:
        return (
            (not self.namespace or item.key[0] == self.namespace)
            and self.labels.matches(item.labels)
            and self.fields.matches(item.fields)
        )


def selection(request: Request, route: Route) -> Selection:
    """What a list, watch or deletecollection selects. Raises BadRequest for a selector that is none."""
    try:
        labels = parse_label_selector(request.parameter("labelSelector"))
        fields = parse_field_selector(request.parameter("fieldSelector"))
    except InvalidSelector as error:
        raise BadRequest(str(error)) from error
    known = {"metadata.name", "metadata.namespace", *route.kind.strategy.fields({"metadata": {}})}
    for field, _, _ in fields.terms:
        if field not in known:
            raise BadRequest(f"field label not supported: {field}")
    return Selection(route.namespace, labels, fields)


def version_of(text: str, parameter: str = "resourceVersion") -> int:
    """A resourceVersion parameter as a number; 0 if it is absent. Raises BadRequest."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BadRequest(
            f'invalid resource version: {parameter} must be a number that the server has returned, not "{text}"'
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class _Page:
    """Where a paged list goes on: at which version, after which key."""

    version: int
    start: tuple[str, str]

    def token(self) -> str:
        return base64.urlsafe_b64encode(encode({"v": self.version, "start": list(self.start)})).decode().rstrip("=")


def _page(token: str) -> _Page:
    try:
        decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        value: Any = msgspec.json.decode(decoded)
        namespace, name = value["start"]
        return _Page(int(value["v"]), (str(namespace), str(name)))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest("continue key is not valid: it must be one that the server has returned") from error


class Reader:
    """Answers get, list and watch from one store. `now` is the wall clock, `random` spreads watch timeouts."""

    def __init__(self, store: Store, now: Callable[[], datetime], random: Random) -> None:
        self._store = store
        self._now = now
        self._random = random

    def get(self, request: Request, route: Route) -> Response:
        accepted = negotiate(request.headers.get("accept", ""))
        wanted = version_of(request.parameter("resourceVersion"))
        if wanted:
            self._store.check_not_future(wanted)
        item = self._store.get(route.kind.storage, (route.namespace, route.name))
        if item is None:
            raise not_found(route.kind.resource, route.name)
        body = render(route.kind, item, accepted.form, self._now(), _rows_hold(request))
        return respond(200, body, accepted)

    def list(self, request: Request, route: Route) -> Response:
        accepted = negotiate(request.headers.get("accept", ""))
        selected = selection(request, route)
        limit, page = _limit(request), None
        if token := request.parameter("continue"):
            page = _page(token)
        version = page.version if page else self._list_version(request)
        items = [item for item in self._items(route, version, page) if selected.includes(item)]
        if page:
            items = [item for item in items if item.key > page.start]
        meta: Obj = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            meta["continue"] = _Page(version, items[limit - 1].key).token()
            if not selected.is_narrow:
                meta["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        body = render_list(route.kind, items, meta, accepted.form, self._now(), _rows_hold(request))
        return respond(200, body, accepted)

    def _items(self, route: Route, version: int, page: _Page | None) -> Sequence[Item]:
        try:
            return self._store.list(route.kind.storage, version)
        except Expired as error:
            raise Expired(_CONTINUE_TOO_OLD) if page else error from None

    def _list_version(self, request: Request) -> int:
        match = request.parameter("resourceVersionMatch")
        version = version_of(request.parameter("resourceVersion"))
        if match not in ("", "Exact", "NotOlderThan"):
            raise BadRequest(
                f'resourceVersionMatch: Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
            )
        if match and not request.parameter("resourceVersion"):
            raise BadRequest("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if match == "Exact":
            return version
        self._store.check_not_future(version)
        return self._store.version

    def watch(self, request: Request, route: Route) -> Response:
        accepted = negotiate(request.headers.get("accept", ""))
        selected = selection(request, route)
        timeout = version_of(request.parameter("timeoutSeconds"), "timeoutSeconds")
        seconds = float(min(timeout, _LONGEST_WATCH_SECONDS)) or self._random.uniform(1800, 3600)
        try:
            watch = _Watch(self._store, route, selected, accepted.form, self._now, request)
        except Expired as error:
            return Response(200, _JSON, stream=_one(_error_line(error)))
        return Response(200, _JSON, stream=watch.lines(seconds))


class _Watch:
    """One watch: what it has to tell first, and then every change that its selection can see.

    Its position is taken when it is made, so nothing that is written from then on is missed, however late it is read.
    """

    def __init__(
        self, store: Store, route: Route, selected: Selection, form: Form, now: Callable[[], datetime], request: Request
    ) -> None:
        self._store, self._kind, self._selected, self._now = store, route.kind, selected, now
        self._form: Form = form
        self._rows_hold = _rows_hold(request)
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._initial = request.flag("sendInitialEvents")
        _check_initial(request, initial=self._initial)
        version = version_of(request.parameter("resourceVersion"))
        store.check_not_future(version)
        from_now = self._initial or version == 0
        self._since = store.version if from_now else version
        list_first = self._initial or (from_now and request.parameter("sendInitialEvents") != "false")
        self._listed = store.list(self._kind.storage) if list_first else ()
        self._cursor = store.watch(self._kind.storage, self._since)

    async def lines(self, seconds: float) -> AsyncIterator[bytes]:
        """The watch's lines, some at a time, for `seconds`; ends with an ERROR line if the reader is too slow."""
        try:
            if first := self._first():
                yield first
            async for chunk in self._follow(self._cursor, asyncio.get_running_loop().time() + seconds):
                yield chunk
        except Expired as error:
            yield _error_line(error)

    def _first(self) -> bytes:
        lines = [self._line("ADDED", item) for item in self._listed if self._selected.includes(item)]
        self._listed = ()
        if self._initial and self._bookmarks:
            lines.append(bookmark(self._kind, self._since, self._form, initial_end=True))
        return b"".join(lines)

    async def _follow(self, cursor: Cursor, end: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        due = loop.time() + BOOKMARK_SECONDS
        while True:
            changes = cursor.take(_CHUNK_CHANGES)
            if chunk := b"".join(filter(None, map(self._told, changes))):
                yield chunk
            if changes:
                continue
            try:
                async with asyncio.timeout_at(min(due, end)):
                    await cursor.changed()
            except TimeoutError:
                if self._bookmarks and cursor.at_end:
                    yield bookmark(self._kind, self._store.version, self._form)
                if loop.time() >= end:
                    return
                due = loop.time() + BOOKMARK_SECONDS

    def _told(self, change: Change) -> bytes | None:
        """The line for a change as this selection sees it: an object that leaves the selection is DELETED for it."""
        before = change.previous is not None and self._selected.includes(change.previous)
        after = change.type != "DELETED" and self._selected.includes(change.item)
        if after:
            return self._line("MODIFIED" if before else "ADDED", change.item)
        return self._line("DELETED", change.item) if before else None

    def _line(self, event: ChangeType, item: Item) -> bytes:
        return event_line(event, render(self._kind, item, self._form, self._now(), self._rows_hold))


async def _one(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


def _error_line(error: Expired) -> bytes:
    return event_line("ERROR", encode(error.status()))


def _check_initial(request: Request, *, initial: bool) -> None:
    if initial and request.parameter("resourceVersionMatch") != "NotOlderThan":
        raise BadRequest(
            "sendInitialEvents is forbidden unless resourceVersionMatch is NotOlderThan and allowWatchBookmarks is true"
        )


def _limit(request: Request) -> int:
    return version_of(request.parameter("limit"), "limit")


def _rows_hold(request: Request) -> str:
    return request.parameter("includeObject") or "Metadata"


def respond(status: int, body: bytes, accepted: Accepted = Accepted()) -> Response:  # noqa: B008 - immutable
    """A whole answer, as JSON or as the YAML that was asked for."""
    if not accepted.yaml:
        return Response(status, {"content-type": "application/json"}, body)
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(body), sort_keys=False)
    return Response(status, {"content-type": "application/yaml"}, text.encode())
