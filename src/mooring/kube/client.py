"""A typed Kubernetes client: get, list, create, patch, apply, delete, watch, and subresources.

Guarantees:
- Objects come back as the partial structs of `mooring.kube.objects`; none of them is ever sent back. A write
  is a create of a full body that the caller made, a patch, or an apply.
- `uid` and `resource_version` of a patch travel inside its metadata, those of a delete in its preconditions:
  the server refuses the write (Conflict) if the object is no longer the one that was decided upon.
- `get` and `list` without a resourceVersion are answered from the store's present state, never from a cache.
- A read that the server refuses with 429 is repeated after its Retry-After, at most three times. A write is
  never repeated: its caller decides again. (Nor is a watch: its informer waits.)
- Failures are the classes of `mooring.kube.errors`; Unreachable and ServerError mean "the write may have
  happened".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

import msgspec

from mooring.kube import errors
from mooring.kube.decoding import decoded
from mooring.kube.objects import Object, ObjectMeta
from mooring.kube.transport import Request, Response, Transport

T = TypeVar("T", bound=Object)
R = TypeVar("R")

JSON = "application/json"
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
PatchType = Literal["merge", "json", "strategic"]
APPLY = "application/apply-patch+yaml"  # JSON is YAML

WATCH_S = 300.0
SILENCE_S = 7 * 24 * 3600.0
"""How long a text that is followed may bring nothing."""
READ_ATTEMPTS = 4
LONGEST_EVENT = 64 * 1024**2
"""Bytes of a watch without the end of an event: no object is nearly as large."""
LONGEST_WAIT_S = 30.0
SHARED_EVENTS, SHARED_BYTES = 64, 16 * 1024
"""Of so many events, if they are not larger, what was decoded is remembered."""


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T], gc=False):
    metadata: _ListMeta
    items: list[T] = []


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Name(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _NamedObject(msgspec.Struct, frozen=True, gc=False):
    metadata: _Name = _Name()


class _Named(msgspec.Struct, gc=False):
    object: _NamedObject = _NamedObject()


class _Meta(msgspec.Struct, gc=False):
    metadata: ObjectMeta


class _Added(msgspec.Struct, Generic[T], tag_field="type", tag="ADDED", gc=False):
    TYPE: ClassVar = "ADDED"
    object: T


class _Modified(msgspec.Struct, Generic[T], tag_field="type", tag="MODIFIED", gc=False):
    TYPE: ClassVar = "MODIFIED"
    object: T


class _Deleted(msgspec.Struct, Generic[T], tag_field="type", tag="DELETED", gc=False):
    TYPE: ClassVar = "DELETED"
    object: T


class _Bookmark(msgspec.Struct, tag_field="type", tag="BOOKMARK", gc=False):
    object: _Meta


class _Error(msgspec.Struct, tag_field="type", tag="ERROR", gc=False):
    object: msgspec.Raw


class Listing(NamedTuple, Generic[T]):
    """All objects of a list, and the version at which they were true together."""

    items: list[T]
    resource_version: str


class WatchEvent(NamedTuple, Generic[T]):
    """ADDED, MODIFIED or DELETED with the object, or BOOKMARK without one.

    `initial_events_end` is set on the bookmark after the last of the initial events.
    """

    type: str
    object: T | None
    resource_version: str
    initial_events_end: bool = False


class Client:
    """Reads and writes objects through a transport. A watch is asked for `watch_s` seconds at a time.

    `leads`: where the client's owner alone does its work for as long as it holds a Lease, whether it does so
    at this moment; None where there is no such Lease.
    """

    def __init__(
        self, transport: Transport, *, watch_s: float = WATCH_S, leads: Callable[[], bool] | None = None
    ) -> None:
        self.transport = transport
        self.leads = leads
        self._watch_s = watch_s

    def elected(self, transport: Transport, leads: Callable[[], bool]) -> Client:
        """The same for a controller that works while `leads`."""
        return Client(transport, watch_s=self._watch_s, leads=leads)

    def check_leading(self) -> None:
        """Before anything is done that is no write through this client, as a request to a storage is:
        immediately before, for the process may be paused wherever it waits. Raises NotLeading."""
        if self.leads is not None and not self.leads():
            raise errors.NotLeading("the Lease is not held any more; its present holder does the work")

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Iterable[tuple[str, str]] = (),
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """Sends any request; returns the body of a success, raises the error of anything else."""
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        payload = b"" if body is None else msgspec.json.encode(body)
        answer = await self._send(Request(method, path, tuple(query), headers, payload))
        return answer.body

    async def ask(
        self,
        kind: type[R],
        method: str,
        path: str,
        *,
        query: Iterable[tuple[str, str]] = (),
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> R:
        """The answer of any request as a type of ours. Raises Unreadable if it is none."""
        answer = await self.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept
        )
        return decoded(kind, answer, tried=f"{method} {path}")

    async def _send(self, request: Request) -> Response:
        """The answer of a success. A read that is throttled is tried again when the server says, a few
        times."""
        attempts = READ_ATTEMPTS if request.method == "GET" and not request.stream else 1
        while True:
            answer = await self.transport.send(request)
            attempts -= 1
            if answer.status < 300:
                return answer
            await asyncio.sleep(_retry_after(request, answer, last=not attempts))

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """One object, read live. NotFound if it is not there."""
        return await self.ask(kind, "GET", kind.RESOURCE.path(namespace, name))

    async def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Like `get`, with None for an object that is not there, also because none can have such a name."""
        try:
            return await self.get(kind, name, namespace)
        except (errors.NotFound, errors.InvalidRequest):
            return None

    async def list(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Listing[T]:
        """All objects that match, read live in pages of `limit`, consistent at one version."""
        items: list[T] = []
        query = [("limit", str(limit)), *_selectors(label_selector, field_selector)]
        token = ""
        while True:
            page_query = [*query, ("continue", token)] if token else query
            page = await self.ask(_List[kind], "GET", kind.RESOURCE.path(namespace), query=page_query)
            items += page.items
            token = page.metadata.continue_
            if not token:
                return Listing(items, page.metadata.resource_version)

    async def version(self, kind: type[T]) -> int:
        """The resourceVersion at which a list of the kind is true now."""
        page = await self.ask(_List[kind], "GET", kind.RESOURCE.path(), query=[("limit", "1")])
        return int(page.metadata.resource_version)

    async def create(self, kind: type[T], body: Mapping[str, Any], namespace: str = "") -> T:
        """Creates what `body` describes (apiVersion and kind are filled in). AlreadyExists if it is there."""
        resource = kind.RESOURCE
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.ask(kind, "POST", resource.path(namespace), body=full)

    async def get_raw(self, kind: type[T], *, name: str, namespace: str = "", sub: str) -> bytes:
        """The body of a subresource (scale, log) of the named object, as the server sends it."""
        return await self.request("GET", kind.RESOURCE.path(namespace, name, sub))

    async def create_raw(
        self, kind: type[T], body: Mapping[str, Any], *, name: str, namespace: str, sub: str
    ) -> bytes:
        """Posts `body` to a subresource (binding, eviction) of the named object."""
        return await self.request("POST", kind.RESOURCE.path(namespace, name, sub), body=body)

    async def patch(
        self,
        kind: type[T],
        name: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        strategy: PatchType = "merge",
    ) -> T:
        """Patches one object; Conflict if it is not the one that `uid` and `resource_version` name.

        The preconditions cannot be given with a JSON patch (use its `test` operation).
        """
        if isinstance(body, Mapping) and (uid is not None or resource_version is not None):
            body = _with_preconditions(body, uid, resource_version)
        path = kind.RESOURCE.path(namespace, name, subresource)
        try:
            return await self.ask(kind, "PATCH", path, body=body, content_type=PATCH_TYPES[strategy])
        except errors.Invalid as error:
            raise _another_uid(error) or error from None

    async def revise(
        self,
        read: T,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        any_version: bool = False,
        strategy: PatchType = "merge",
    ) -> T:
        """Patches the very object that was read: Conflict if it is another one by now, or (unless
        `any_version`) if it was written since."""
        return await self.patch(
            type(read),
            read.name,
            body,
            read.namespace,
            subresource=subresource,
            uid=read.uid,
            resource_version=None if any_version else read.metadata.resource_version,
            strategy=strategy,
        )

    async def apply(
        self,
        kind: type[T],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
    ) -> T:
        """Server-side apply: creates the object or makes the fields of `body` so, owned by `field_manager`.

        Fields that this manager applied before and `body` lacks are removed. Conflict, with the fields and
        their managers in its details' causes, if others own fields that would change; with `force` they are
        taken over.
        """
        resource = kind.RESOURCE
        metadata: Mapping[str, Any] = body.get("metadata") or {}
        full = {
            **body,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "name": name},
        }
        query = [("fieldManager", field_manager), *([("force", "true")] if force else [])]
        path = resource.path(namespace, name, subresource)
        return await self.ask(kind, "PATCH", path, query=query, body=full, content_type=APPLY)

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> None:
        """Asks for the deletion of one object; Conflict if it is not the one named by the preconditions."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        given = {k: v for k, v in preconditions.items() if v is not None}
        body = _delete_options(grace_period_seconds, propagation_policy, given)
        await self.request("DELETE", kind.RESOURCE.path(namespace, name), body=body)

    async def delete_collection(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> None:
        """Asks for the deletion of all objects that match; those that have finalizers go later."""
        body = _delete_options(grace_period_seconds, propagation_policy)
        query = _selectors(label_selector, field_selector)
        await self.request("DELETE", kind.RESOURCE.path(namespace), query=query, body=body)

    async def watch(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        initial_events: bool = False,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float | None = None,
        gather: float = 0.0,
        taken: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after `resource_version`, with bookmarks, until the server ends the watch (after `timeout`
        seconds). Those that come in `gather` seconds come together. `taken` is called when the server has
        taken it.

        With `initial_events` all that is there comes first, as ADDED, then a bookmark that says so: a list
        that needs the memory of one object. Invalid from a server that does not know it. Gone when that
        version has left the server's history; Unreachable when the stream breaks.
        """
        seconds = timeout or self._watch_s
        initial = (
            (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
            if initial_events
            else ()
        )
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            *((("resourceVersion", resource_version),) if resource_version else ()),
            *initial,
            ("timeoutSeconds", str(int(seconds))),
            *_selectors(label_selector, field_selector),
        )
        path = kind.RESOURCE.path(namespace)
        answer = await self._send(
            Request("GET", path, query, {"Accept": JSON}, stream=True, gather=gather, timeout=seconds + 30)
        )
        assert answer.stream is not None
        taken()
        stream = answer.stream
        try:
            lines = _Lines()
            async for piece in stream:
                for line in lines.feed(piece):
                    if line:
                        yield _event(line, kind, path)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def text(self, path: str, query: Iterable[tuple[str, str]] = ()) -> AsyncGenerator[bytes, None]:
        """A text that may grow while it is read (a log that is followed), piece by piece. Silence is no
        error."""
        answer = await self._send(Request("GET", path, tuple(query), {}, stream=True, timeout=SILENCE_S))
        assert answer.stream is not None
        async for piece in answer.stream:
            yield piece

    async def close(self) -> None:
        """Closes the transport."""
        await self.transport.close()


class _Lines:
    """The lines of a watch, of pieces however they are cut."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Those that are whole now. Raises Unreachable for one that does not end."""
        self._size += len(piece)
        if self._size > LONGEST_EVENT:
            raise errors.Unreachable(f"an event of more than {LONGEST_EVENT} bytes")
        self._begun.append(piece)
        if b"\n" not in piece:
            return []
        *lines, rest = b"".join(self._begun).split(b"\n")
        self._begun, self._size = [rest], len(rest)
        return lines


def _retry_after(request: Request, answer: Response, *, last: bool) -> float:
    """How long the server wants to be waited for; raises the error if it was not that, or not again."""
    error = _error(request, answer)
    if isinstance(error, errors.Throttled) and not last and error.retry_after <= LONGEST_WAIT_S:
        return error.retry_after
    try:
        raise error
    finally:
        del error  # or it and its traceback hold each other until garbage is collected, which is seldom


def _error(request: Request, answer: Response) -> errors.ApiError:
    after = next((value for name, value in answer.headers.items() if name.lower() == "retry-after"), "")
    return errors.from_answer(
        answer.status, answer.body, tried=f"{request.method} {request.path}", retry_after=after
    )


def _delete_options(
    grace_period_seconds: int | None,
    propagation_policy: str | None,
    preconditions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions or None,
        "gracePeriodSeconds": grace_period_seconds,
        "propagationPolicy": propagation_policy,
    }
    return {key: value for key, value in options.items() if value is not None}


def _selectors(label_selector: str, field_selector: str) -> list[tuple[str, str]]:
    pairs = [("labelSelector", label_selector), ("fieldSelector", field_selector)]
    return [(key, value) for key, value in pairs if value]


def _with_preconditions(
    body: Mapping[str, Any], uid: str | None, resource_version: str | None
) -> dict[str, Any]:
    metadata = dict(body.get("metadata") or {})
    if uid is not None:
        metadata["uid"] = uid
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {**body, "metadata": metadata}


def _another_uid(error: errors.Invalid) -> errors.Conflict | None:
    """The API server calls a patch for another uid invalid ("field is immutable"); to a caller it is a
    Conflict."""
    if any(cause.get("field") == "metadata.uid" for cause in error.details.get("causes") or ()):
        return errors.Conflict(str(error), status=error.status, reason="Conflict", details=error.details)
    return None


def _event(line: bytes, kind: type[T], path: str) -> WatchEvent[T]:
    return _shared(line, kind, path) if len(line) <= SHARED_BYTES else _decoded_event(line, kind, path)


def _decoded_event(line: bytes, kind: type[T], path: str) -> WatchEvent[T]:
    try:
        event = decoded(_events(kind), line, tried=f"watch {path}")
    except errors.Unreadable as error:
        raise errors.Unreadable(f"{error} ({_whose(line)})") from None
    if isinstance(event, _Error):
        status = msgspec.json.decode(event.object)
        raise errors.from_answer(int(status.get("code") or 500), bytes(event.object), tried=f"watch {path}")
    if isinstance(event, _Bookmark):
        metadata = event.object.metadata
        return WatchEvent(
            "BOOKMARK", None, metadata.resource_version, INITIAL_EVENTS_END in metadata.annotations
        )
    return WatchEvent(event.TYPE, event.object, event.object.metadata.resource_version)


def _whose(line: bytes) -> str:
    """Which object an event is of that cannot be read otherwise."""
    with contextlib.suppress(errors.Unreadable):
        named = decoded(_Named, line, tried="").object.metadata
        return f"{named.namespace}/{named.name}".strip("/")
    return "of an unknown object"


@cache
def _events(kind: type[T]) -> type[_Added[T] | _Modified[T] | _Deleted[T] | _Bookmark | _Error]:
    return cast(Any, _Added[kind] | _Modified[kind] | _Deleted[kind] | _Bookmark | _Error)


_shared = lru_cache(SHARED_EVENTS)(_decoded_event)
"""Several watches of one process get the same event at about the same time: it is decoded, and held, once."""
