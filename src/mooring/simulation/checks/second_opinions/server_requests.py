"""What a piece of work has asked the API server for, and what it was answered: opinions about a step are
about what was read live in it, and about what was written.

Sources: docs/protocol.md (what cannot be undone is decided on live reads), and
`kube/informer.py:Informer.accept`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from mooring.kube.client import Client, Listing
from mooring.kube.controller import Controller
from mooring.kube.errors import InvalidRequest, KubeError, NotFound
from mooring.kube.objects import Object
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question


class Request(NamedTuple):
    """One that has ended. `key`: of the object, or of a list's namespace. `how`: with what conditions."""

    verb: str
    kind: type[Object]
    key: str
    answer: Any
    how: Mapping[str, Any]
    body: Any = None

    @property
    def succeeded(self) -> bool:
        return not isinstance(self.answer, KubeError)

    @property
    def is_answered(self) -> bool:
        """Also a name that no object can have says that there is none."""
        return self.succeeded or isinstance(self.answer, NotFound | InvalidRequest)


_LOGS: Memories[list[Request]] = Memories(list)
"""By the task that has asked, if it is one whose work is judged."""


class Mark(NamedTuple):
    """When a step of a task began: before what it asks for from then on."""

    log: list[Request]
    begin: int


def starts(*asked: object, **how: object) -> Mark:
    """A task begins with other work: what it has asked for before is forgotten."""
    log = _LOGS.of(_task())
    if log:
        log.clear()
    return Mark(log, 0)


def begins(*asked: object, **how: object) -> Mark:
    """A step of a task begins."""
    log = _LOGS.of(_task())
    return Mark(log, len(log))


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def requests_since(
    mark: Mark, verb: str = "", kind: type[Object] | None = None, key: str | None = None
) -> list[Request]:
    """Those of the task since then, in their order; of one verb, kind or object alone."""
    return [
        each
        for each in mark.log[mark.begin :]
        if (not verb or each.verb == verb) and (kind is None or each.kind is kind)
        if key is None or each.key == key
    ]


def found_live(mark: Mark, kind: type[Object], key: str) -> list[Any]:
    """What live reads of an object have shown; None: that there is none."""
    reads = requests_since(mark, "get", kind, key)
    return [each.answer if each.succeeded else None for each in reads if each.is_answered]


def differ(mark: Mark, asked: Controller[Any]) -> bool:
    """Whether anything that was read live is otherwise than the caches show it."""
    return any(_differs(each, asked) for each in requests_since(mark) if each.verb in ("get", "list"))


def _differs(read: Request, asked: Controller[Any]) -> bool:
    cache = next((each for each in asked.caches if each.kind is read.kind), None)
    if cache is None:
        return False
    if read.verb == "get":
        there = {read.key: read.answer} if read.succeeded else {}
        held = {read.key: known} if (known := cache.get(read.key)) is not None else {}
    else:
        there = {each.key: each for each in read.answer.items} if read.succeeded else {}
        held = {each.key: each for each in cache.items() if read.key in ("", each.namespace)}
    return {key: each.metadata.resource_version for key, each in there.items()} != {
        key: each.metadata.resource_version for key, each in held.items()
    }


def listed_live(mark: Mark, kind: type[Object], namespace: str = "") -> list[Any] | None:
    """What the last list of a kind has shown; None: there was none."""
    lists = [each.answer for each in requests_since(mark, "list", kind) if each.key == namespace]
    return cast("Listing[Any]", lists[-1]).items if lists and isinstance(lists[-1], Listing) else None


def note(
    verb: str,
    kind: type[Object],
    where: tuple[str, str],
    answer: object,
    how: Mapping[str, Any],
    body: object = None,
) -> Iterable[str]:
    """Notes a request of a task whose work is judged; there is nothing wrong with it. `where`: namespace and
    name."""
    task = asyncio.current_task()
    if task is not None and (log := _LOGS.known(task)) is not None:
        log.append(Request(verb, kind, "/".join(filter(None, where)), answer, how, body))
    return ()


def of_get(
    answer: object, asked: Client, kind: type[Object], name: str, namespace: str = ""
) -> Iterable[str]:
    return note("get", kind, (namespace, name), answer, {})


def of_list(
    answer: object, asked: Client, kind: type[Object], namespace: str = "", **how: Any
) -> Iterable[str]:
    return note("list", kind, (namespace, ""), answer, how)


def of_creation(
    answer: object, asked: Client, kind: type[Object], body: Mapping[str, Any], namespace: str = ""
) -> Iterable[str]:
    return note("create", kind, (namespace, body["metadata"].get("name", "")), answer, {}, body)


def of_patch(
    answer: object,
    asked: Client,
    kind: type[Object],
    name: str,
    body: object,
    namespace: str = "",
    **how: Any,
) -> Iterable[str]:
    return note("patch", kind, (namespace, name), answer, how, body)


def of_deletion(
    answer: object, asked: Client, kind: type[Object], name: str, namespace: str = "", **how: Any
) -> Iterable[str]:
    return note("delete", kind, (namespace, name), answer, how)


def of_own_writes(answer: object, mark: Mark, asked: Controller[Any], *rest: object) -> Iterator[str]:
    """What a controller has written is in its cache: what it decides next, it decides on that."""
    for each in mark.log[mark.begin :]:
        if each.verb not in ("create", "patch") or not each.succeeded:
            continue
        version = int(each.answer.metadata.resource_version)
        for cache in asked.caches:
            if cache.kind is not each.kind or cache.version >= version:
                continue
            held = cache.get(each.answer.key)
            if held is None or int(held.metadata.resource_version) < version:
                yield f"{each.kind.__name__} {each.key} is written, and the cache has it as it was before"


QUESTIONS = (
    Question(Client, "get", of_get, refusals=(KubeError,)),
    Question(Client, "list", of_list, refusals=(KubeError,)),
    Question(Client, "create", of_creation, refusals=(KubeError,)),
    Question(Client, "patch", of_patch, refusals=(KubeError,)),
    Question(Client, "delete", of_deletion, refusals=(KubeError,)),
    Question(Controller, "_reconcile", of_own_writes, before=starts),
)
