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

_OBJECT = re.compile(r"(/(?:api|apis/[^/]+)/v[^/]+/(?:namespaces/[^/]+/)?([a-z]+)(?:/[^/]+)?)(?:/([a-z]+))?$")


class _Work:
    """On one key. `failed`: each object of which a request has failed, and none was carried out since; with
    the request."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.tried = False  # whether any has failed


_WORK: WeakKeyDictionary[asyncio.Task[Any], _Work] = WeakKeyDictionary()
"""By the task that does it. What other tasks ask for on its behalf is not known here."""
CONFLICT, THROTTLED, BROKEN = 409, 429, 500


def note_failure(request: Request) -> None:
    """Is told of each request that got no answer."""
    work, found = _work(), _OBJECT.search(request.path)
    if work is not None and found is not None and not request.stream and found[2] != "events":
        work.tried = True
        work.failed[found[1]] = f"{request.method} {'/'.join(filter(None, found.groups()[1:]))}"


def note_answer(request: Request, response: Response) -> None:
    """Is told of each answer. A creation may find that the object is there; what fails and then looks at the
    object knows what it does."""
    overtaken = response.status == CONFLICT and request.method in ("PATCH", "PUT")
    if overtaken or response.status == THROTTLED or response.status >= BROKEN:
        note_failure(request)
    elif (
        (work := _work()) is not None and work.failed and (found := _OBJECT.search(request.path)) is not None
    ):
        work.failed.pop(found[1], None)


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
        task, work = asyncio.current_task(), _Work()
        assert task is not None
        _WORK[task] = work
        try:
            await begin(key)
        except BaseException:
            work.failed.clear()  # the key is tried again, or the controller ends
            raise
        finally:
            del _WORK[task]
            if controller.queue.is_due(key):  # a watch has told more meanwhile: it is tried again in any case
                work.failed.clear()
            for path, request in work.failed.items():
                tell(key, path, request)
            if work.tried and not work.failed:
                tell(key)

    controller.reconcile = reconcile
