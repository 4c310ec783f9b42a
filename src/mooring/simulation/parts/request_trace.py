"""Tells the trace what the parts ask the API server to write, and upon which state."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache

import msgspec

from mooring.kube.transport import Request, Response
from mooring.simulation.engine.trace import Trace

RESOURCES = ("pods", "nodes", "volumeattachments", "persistentvolumes", "persistentvolumeclaims")
_PATH = re.compile(
    rf"/(?:namespaces/([^/]+)/)?({'|'.join(RESOURCES)})/([^/]+)(?:/(status|binding|eviction))?$"
)
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


ASKING_CONTROLLER: ContextVar[str] = ContextVar("who", default="")
"""Which of the controllers of a process asks: each has caches of its own."""


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Body(msgspec.Struct):
    metadata: _Preconditions = msgspec.field(default_factory=_Preconditions)
    preconditions: _Preconditions = msgspec.field(default_factory=_Preconditions)


_decode = msgspec.json.Decoder(_Body).decode


def request_tracer(
    trace: Trace, actor: str, life: Callable[[], str]
) -> tuple[Callable[[Request], None], Callable[[Request, Response], None]]:
    """What to call with each request, and with each answer. A JSON patch carries no preconditions and is left
    out."""

    def note_request(request: Request) -> None:
        found = _named(request)
        if found is None:
            return
        body = _decode(request.body) if request.body.startswith(b"{") else _Body()
        uid = body.metadata.uid or body.preconditions.uid
        version = body.metadata.resource_version or body.preconditions.resource_version
        fields = {"method": request.method, "uid": bool(uid), "version": int(version) if version else None}
        trace(
            actor,
            "asked.write",
            life=f"{life()} {ASKING_CONTROLLER.get()}",
            resource=found[0],
            name=found[1],
            **fields,
        )

    def answered(request: Request, response: Response) -> None:
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


def _named(request: Request) -> tuple[str, str] | None:
    """Resource and name, of a write to one object that matters."""
    return _object(request.path) if request.method in ("PATCH", "PUT", "DELETE") else None


@lru_cache(maxsize=1024)
def _object(path: str) -> tuple[str, str] | None:
    found = _PATH.search(path)
    if found is None:
        return None
    namespace, resource, name, _ = found.groups()
    return resource, f"{namespace}/{name}" if namespace else name
