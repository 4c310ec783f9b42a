"""Tells the trace of work that ends as if all were well although a request of it was not carried out
(`told.worked`)."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from weakref import WeakKeyDictionary

from mooring.kube.controller import Controller
from mooring.kube.transport import Request, Response
from mooring.simulation.engine.trace import Trace

Cached = tuple[str, ...]
"""Of which version an object is in each cache that has it."""

_OBJECT = re.compile(r"(/(?:api|apis/[^/]+)/v[^/]+/(?:namespaces/[^/]+/)?([a-z]+)(?:/[^/]+)?)(?:/([a-z]+))?$")


_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_NAMED = re.compile(r"/(?:namespaces/([^/]+)/)?([a-z]+)/([^/]+)$")


class _Work:
    """On one key: each object of which a request has failed, and none was carried out since.

    Kept with the version that the request was computed from, or else those that were cached then. What a
    watch has told since is another state: work that goes on from there, and has nothing to write, is done.
    """

    def __init__(self, controller: Controller[Any]) -> None:
        self._controller = controller
        self._failed: dict[str, tuple[str, Cached]] = {}
        self.tried = False  # whether any has failed

    def note(self, path: str, request: str, version: str = "") -> None:
        """A request about the object of that path has failed; it was computed from that version."""
        self.tried = True
        cached = self._cached(path)
        self._failed[path] = request, (version,) * len(cached) if version else cached

    def carried_out(self, path: str) -> None:
        self._failed.pop(path, None)

    def clear(self) -> None:
        self._failed.clear()

    def failed(self) -> dict[str, str]:
        """The requests that are left so, by the path of their object."""
        return {
            path: request for path, (request, known) in self._failed.items() if self._cached(path) == known
        }

    def _cached(self, path: str) -> Cached:
        found = _NAMED.search(path)
        if found is None:
            return ()
        key = "/".join(filter(None, (found[1], found[3])))
        held = (each.get(key) for each in self._controller.caches if each.kind.RESOURCE.plural == found[2])
        return tuple(each.metadata.resource_version for each in held if each is not None)


_WORK: WeakKeyDictionary[asyncio.Task[Any], _Work] = WeakKeyDictionary()
"""By the task that does it. What other tasks ask for on its behalf is not known here."""
CONFLICT, THROTTLED, BROKEN = 409, 429, 500


def note_failure(request: Request, version: str = "") -> None:
    """Is told of each request that got no answer. `version`: the one that it was refused for."""
    work, found = _work(), _OBJECT.search(request.path)
    if work is not None and found is not None and not request.stream and found[2] != "events":
        work.note(found[1], f"{request.method} {'/'.join(filter(None, found.groups()[1:]))}", version)


def note_answer(request: Request, response: Response) -> None:
    """Is told of each answer. A creation may find that the object is there; what fails and then looks at the
    object knows what it does."""
    overtaken = response.status == CONFLICT and request.method in ("PATCH", "PUT")
    if overtaken:
        note_failure(request, _computed_from(request))
    elif response.status == THROTTLED or response.status >= BROKEN:
        note_failure(request)
    elif (work := _work()) is not None and work.tried and (found := _OBJECT.search(request.path)) is not None:
        work.carried_out(found[1])


def _computed_from(request: Request) -> str:
    found = _VERSION.search(request.body)
    return found[1].decode() if found is not None else ""


def _work() -> _Work | None:
    task = asyncio.current_task()
    return _WORK.get(task) if task is not None else None


def tell_of_failures(controller: Controller[Any], trace: Trace, process: str) -> None:
    """From now on the trace is told of this controller's work in which a request has failed: what it has left
    so when it ended as if all were well, or nothing."""
    begin = controller.reconcile

    def tell(key: Any, path: str = "", request: str = "") -> None:
        trace(process, "told.worked", controller=controller.name, key=str(key), request=request, path=path)

    async def reconcile(key: Any) -> None:
        task, work = asyncio.current_task(), _Work(controller)
        assert task is not None
        _WORK[task] = work
        try:
            await begin(key)
        except BaseException:
            work.clear()  # the key is tried again, or the controller ends
            raise
        finally:
            del _WORK[task]
            failed = work.failed()
            for path, request in failed.items():
                tell(key, path, request)
            if work.tried and not failed:
                tell(key)

    controller.reconcile = reconcile
