"""Tells the trace what the parts ask the API server to write, and upon which state."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, cast

import msgspec

from mooring.kube.transport import Request, Response
from mooring.simulation.engine.trace import Trace

RESOURCES = (
    *("pods", "nodes", "volumeattachments", "persistentvolumes", "persistentvolumeclaims"),
    *("statefulsets", "controllerrevisions"),
)
_PATH = re.compile(
    rf"/(?:namespaces/([^/]+)/)?({'|'.join(RESOURCES)})/([^/]+)(?:/(status|binding|eviction))?$"
)
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


ASKING_CONTROLLER: ContextVar[str] = ContextVar("who", default="")
"""Which of the controllers of a process asks: each has caches of its own."""


TERM: ContextVar[int] = ContextVar("term", default=0)
"""Which of the terms of a process that works under a Lease: what an earlier term has asked for may be under
way still. 0: there is no Lease."""


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Body(msgspec.Struct):
    metadata: _Preconditions = msgspec.field(default_factory=_Preconditions)
    preconditions: _Preconditions = msgspec.field(default_factory=_Preconditions)


_READ = re.compile(r"/(?:api|apis/[^/]+)/v[^/]+/(?:namespaces/[^/]+/)?([a-z]+)(?:/([^/]+))?$")
_LOOK = re.compile(r"/volumeattachments/([^/]+)$")
_RENEWAL = re.compile(r"/namespaces/kube-node-lease/leases/[^/]+$")


_decode = msgspec.json.Decoder(_Body).decode


def request_tracer(
    trace: Trace, actor: str, life: Callable[[], str]
) -> tuple[Callable[[Request], None], Callable[[Request, Response], None]]:
    """What to call with each request, and with each answer. A JSON patch carries no preconditions and is left
    out."""

    def note_read(request: Request) -> None:
        read = None if request.stream else _READ.search(request.path)
        if read is not None:
            who = f"{life()} {ASKING_CONTROLLER.get()}"
            trace(actor, "asked.read", life=who, resource=read[1], name=read[2] or "")

    def note_request(request: Request) -> None:
        if request.method == "GET":
            note_read(request)
            return
        found = _named(request)
        if found is None:
            return
        body = _decode(request.body) if request.body.startswith(b"{") else _Body()
        uid = body.metadata.uid or body.preconditions.uid
        version = body.metadata.resource_version or body.preconditions.resource_version
        fields = {
            "method": request.method,
            "sub": found[2],
            "uid": bool(uid),
            "version": int(version) if version else None,
            "erases": not version and request.method == "PATCH" and _only_erases(request.body),
        }
        trace(
            actor,
            "asked.write",
            life=f"{life()} {ASKING_CONTROLLER.get()}",
            resource=found[0],
            name=found[1],
            **fields,
        )

    def answered(request: Request, response: Response) -> None:
        if request.method == "GET" and (looked := _LOOK.search(request.path)) is not None:
            trace(
                actor, "asked.looked", name=looked[1], _body=response.body if response.status < 300 else b""
            )
        found = _named(request)
        version = _VERSION.search(response.body) if found is not None and response.status < 300 else None
        if found is not None and version is not None and request.method != "DELETE":
            trace(
                actor,
                "asked.answered",
                life=f"{life()} {ASKING_CONTROLLER.get()}",
                resource=found[0],
                name=found[1],
                version=int(version[1]),
            )

    return note_request, answered


def looked_at(request: Request) -> str:
    """The plural of the kind of which it reads one object, by its name; "" if it does not."""
    read = _READ.search(request.path) if request.method == "GET" and not request.stream else None
    return read[1] if read is not None and read[2] else ""


def _only_erases(body: bytes) -> bool:
    """Whether a merge patch removes fields, and sets none but the precondition."""
    if not body.startswith(b"{"):
        return False
    patch: dict[str, Any] = msgspec.json.decode(body)
    metadata: dict[str, Any] = patch.get("metadata") or {}
    rest = {name: value for name, value in metadata.items() if name != "uid"}
    return _is_void(patch | {"metadata": rest})


def _is_void(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_void, cast("dict[str, Any]", value).values()))
    return value is None


class RenewalTracer:
    """Tells the trace when a renewal of the node's own Lease is sent (`asked.renew`) and when that one is
    acknowledged (`asked.renewed`), both with its number."""

    def __init__(self, trace: Trace, node: str) -> None:
        self._trace, self._node = trace, node
        self._number = 0
        self._sent: dict[int, tuple[Request, int]] = {}  # by identity: the request is kept as long

    def sent(self, request: Request) -> None:
        """Is told of each request."""
        if request.method != "GET" and _RENEWAL.search(request.path):
            self._number += 1
            self._sent[id(request)] = request, self._number
            self._trace(self._node, "asked.renew", number=self._number)

    def answered(self, request: Request, response: Response) -> None:
        """Is told of each answer."""
        _, number = self._sent.pop(id(request), (None, 0))
        if number and response.status < 300:
            self._trace(self._node, "asked.renewed", number=number)


def _named(request: Request) -> tuple[str, str, str] | None:
    """Resource, name and subresource, of a write to one object that matters."""
    return _object(request.path) if request.method in ("PATCH", "PUT", "DELETE") else None


@lru_cache(maxsize=1024)
def _object(path: str) -> tuple[str, str, str] | None:
    found = _PATH.search(path)
    if found is None:
        return None
    namespace, resource, name, sub = found.groups()
    return resource, f"{namespace}/{name}" if namespace else name, sub or ""
