"""What the API server's store answers to its callers, beside what it holds (D5): versions, its window, what a
write is computed from, and what it refuses while its log does not take writes.

Upstream's documentation, "API Concepts": resource versions, 410 Gone, and 504 for those that do not exist
yet.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.apiserver.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    NotFound,
    StoreFailed,
    TooLargeVersion,
)
from mooring.apiserver.message import Request, Response
from mooring.apiserver.server import Server
from mooring.apiserver.store.history import Change, Cursor, Item, Key
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.parts.store_log import VolatileLog


@dataclass
class Proposed:
    """The last write of each object: its version, 0 for one that was removed, and when it is durable."""

    last: dict[tuple[str, Key], tuple[int, Future[Item]]] = field(
        default_factory=dict[tuple[str, Key], tuple[int, "Future[Item]"]]
    )
    newest: int = 0


PROPOSED = Memories(Proposed)

UPON_AN_OBJECT = (NotFound, AlreadyExists, Conflict)
"""The refusals that say what has become of an object."""


def takes_writes(store: Store, *asked: object) -> bool | None:
    """Whether the store's log does; None: a commit is under way, and it is not known how that will end."""
    log = vars(store)["_log"]
    if not isinstance(log, VolatileLog) or not log.failed:
        return True
    return False if vars(store)["_flush"] is None else None


def of_a_write(
    answer: Future[Item] | StoreFailed, writable: bool | None, store: Store, resource: str, key: Key, obj: Any
) -> Iterator[str]:
    """After a commit that failed no write is accepted until the log has resumed, and none is refused else.
    Each write has a version of its own, above all before it."""
    if isinstance(answer, StoreFailed):
        if writable:
            yield f"a write of {resource} {key[1]} is refused, and the log takes writes: {answer}"
        return
    if writable is False:
        yield f"a write of {resource} {key[1]} is accepted, and the log has failed and not resumed"
    version, known = int(obj["metadata"]["resourceVersion"]), PROPOSED.of(store)
    if version <= max(known.newest, store.version):
        yield f"{resource} {key[1]} gets version {version} after {max(known.newest, store.version)}"
    known.newest = version
    known.last[resource, key] = version, answer


def of_a_removal(
    answer: Future[Item] | StoreFailed,
    writable: bool | None,
    store: Store,
    resource: str,
    key: Key,
    last: Any,
) -> Iterator[str]:
    yield from of_a_write(answer, writable, store, resource, key, last)
    if not isinstance(answer, StoreFailed):
        PROPOSED.of(store).last[resource, key] = 0, answer


def failed_before(store: Store, writes: Sequence[Any]) -> list[Any]:
    return [
        each for each in writes if each.done is not None and each.done.done() and not each.done.cancelled()
    ]


def of_publishing(answer: None, before: list[Any], store: Store, writes: Sequence[Any]) -> Iterator[str]:
    """Of what has failed only the log says whether it is durable after all; it is not written once more."""
    for each in before:
        if each.done.exception() is not None:
            item = each.change.item
            yield f"{each.resource} {item.key[1]} of version {item.version} has failed, and is published"


def under_way(store: Store) -> list[Future[Item]]:
    """The writes that are proposed, and not durable yet."""
    return [done for _, done in PROPOSED.of(store).last.values() if not done.done()]


def of_settling(answer: StoreFailed | None, before: list[Future[Item]], store: Store) -> Iterator[str]:
    """What was proposed before is durable, or it is said that it may not be."""
    if not all(done.done() for done in before):
        yield "writes that were proposed before are still under way"
    if (answer is None) != (takes_writes(store) is not False):
        yield f"all that was proposed is said to be durable ({answer}), and whether the log takes writes is not so"


def under_way_at(server: Server, request: Request) -> list[Future[Item]]:
    """What a write may be decided upon, and is not durable yet."""
    commits = request.method != "GET" and vars(server.store)["_flush"] is not None
    return under_way(server.store) if commits else []


def of_a_refusal(
    answer: Response | Exception, before: list[Future[Item]], server: Server, request: Request
) -> Iterator[str]:
    """Who is told that an object is gone, or has changed, is told what lasts: what was being written then is
    durable by now."""
    if isinstance(answer, UPON_AN_OBJECT) and not all(done.done() for done in before):
        yield f"{request.method} {request.path} is refused by what may not last: {answer.message}"


def of_a_head(answer: Item | None, store: Store, resource: str, key: Key) -> Iterator[str]:
    """A write is computed from the one before it, whether that is durable yet or not."""
    version, written = PROPOSED.of(store).last.get((resource, key), (0, None))
    failed = (
        written is not None and written.done() and (written.cancelled() or written.exception() is not None)
    )
    if written is not None and not failed and (answer.version if answer else 0) != version:
        yield f"{resource} {key[1]} was written as version {version}, and the next write is not computed from it"


def of_the_future(answer: TooLargeVersion | None, store: Store, version: int) -> Iterator[str]:
    """What does not exist yet is refused, and nothing else."""
    if (answer is not None) != (version > store.version):
        yield f"version {version} is answered so ({store.version} is the newest): {answer!r}"


def of_a_version(answer: object, store: Store, resource: str, version: int | None = None) -> Iterator[str]:
    """What is older than the window is gone, and says so; what does not exist yet is refused; all else is
    answered."""
    expected: Any = object
    if version is not None and version > store.version:
        expected = TooLargeVersion
    elif version is not None and version < store.floor:
        expected = Expired
    if (
        isinstance(answer, (Expired, TooLargeVersion))
        if expected is object
        else not isinstance(answer, expected)
    ):
        yield f"{resource} of version {version} is answered so ({store.floor} to {store.version}): {answer!r}"


def floor(store: Store) -> int:
    return store.floor


@dataclass
class Kept:
    """The changes that can be read, each with its version and size, and their bytes."""

    changes: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    bytes: int = 0


KEPT = Memories(Kept)


def of_a_change(answer: None, store: Store, resource: str, change: Change) -> Iterator[str]:
    """It is the newest of those that can be read."""
    kept, size = KEPT.of(store), len(change.item.body)
    kept.changes.append((change.item.version, size))
    kept.bytes += size
    if store.version != change.item.version:
        yield f"the newest change is {change.item.version}, and the store is of version {store.version}"


def of_eviction(answer: None, before: int, store: Store) -> Iterator[str]:
    """The last changes can be read, as many as the window has and as many bytes, and at least one; no change
    is forgotten that had room beside the newer ones."""
    kept, forgotten = KEPT.of(store), 0
    while kept.changes and kept.changes[0][0] <= store.floor:
        forgotten = kept.changes.popleft()[1]
        kept.bytes -= forgotten
    number = len(kept.changes)
    if number > store.window or (kept.bytes > store.window_bytes and number > 1):
        yield f"{number} changes of {kept.bytes} bytes are kept, {_window(store)}"
    fits = number + 1 <= store.window and kept.bytes + forgotten <= store.window_bytes
    if store.floor != before and fits:
        yield f"only {number} changes of {kept.bytes} bytes are kept, {_window(store)}"
    if (counted := vars(store)["_bytes"]) != kept.bytes:
        yield f"{kept.bytes} bytes are kept, and {counted} counted"


def _window(store: Store) -> str:
    return f"and the window has {store.window}, of {store.window_bytes} bytes"


def of_skipping(answer: None, cursor: Cursor) -> Iterator[str]:
    """What is skipped is not taken."""
    if not cursor.at_end:
        yield "what was skipped is still to be taken"


def of_a_list(answer: Sequence[Item], store: Store, resource: str) -> Iterator[str]:
    """Of each object there is one state: what is being written, and else what is durable."""
    expected = {key: item.version for key, item in store.collection(resource).items.items()}
    for (written, key), (version, done) in PROPOSED.of(store).last.items():
        if written == resource and not done.done():
            expected[key] = version
    there = sorted((key, version) for key, version in expected.items() if version)
    if sorted((item.key, item.version) for item in answer) != there:
        yield f"the newest of {resource} are told as {len(answer)} objects, and are {len(there)}, or others"


QUESTIONS = (
    Question(Store, "write", of_a_write, before=takes_writes, refusals=(StoreFailed,)),
    Question(Store, "remove", of_a_removal, before=takes_writes, refusals=(StoreFailed,)),
    Question(Server, "_answer", of_a_refusal, before=under_way_at, refusals=(ApiError, StoreFailed)),
    Question(Store, "settled", of_settling, before=under_way, refusals=(StoreFailed,)),
    Question(Store, "check_not_future", of_the_future, refusals=(TooLargeVersion,)),
    Question(Store, "head", of_a_head),
    Question(Store, "heads", of_a_list),
    Question(Store, "list", of_a_version, refusals=(Expired, TooLargeVersion)),
    Question(Store, "watch", of_a_version, refusals=(Expired, TooLargeVersion)),
    Question(Store, "_apply", of_a_change),
    Question(Store, "_publish", of_publishing, before=failed_before),
    Question(Store, "_evict", of_eviction, before=floor),
    Question(Cursor, "skip", of_skipping),
)
