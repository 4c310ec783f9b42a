"""What the API server's store remembers, and whom it has told, when a commit is over: the guarantees of
`apiserver/store/log.py`, and upstream's "API Concepts": a watch is told of each change.

What is durable is told to its writer and to all that wait for changes of its resource, and is the head of its
object no more; what has failed is told to its writer; and while the log takes no writes, it is tried again.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mooring.apiserver.store.history import Change, History
from mooring.apiserver.store.log import Record
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.parts.store_log import VolatileLog

CUT_AT_ONCE = 1024
"""So many entries that are forgotten may stay in memory, or an eighth of those that are not."""


# --- heads


def wrong_heads(store: Store) -> Iterator[str]:
    """The newest state of an object that is not durable yet is its head, and there is no other head."""
    parts = vars(store)
    waiting = {(each.resource, each.change.item.key): each.change for each in parts["_batch"]}
    heads: dict[Any, Change] = parts["_heads"]
    for what, keys in (
        ("is remembered, and is durable", heads.keys() - waiting.keys()),
        ("waits for a commit, and is forgotten", waiting.keys() - heads.keys()),
    ):
        for resource, key in keys:
            yield f"the newest state of {resource} {key[1]} {what}"
    if any(heads.get(key, change) is not change for key, change in waiting.items()):
        yield "of an object an older state is remembered as the newest"


def published(answer: None, store: Store, writes: Sequence[Any]) -> Iterator[str]:
    """Who wrote it has the answer."""
    yield from wrong_heads(store)
    for each in writes:
        if not each.done.done():
            yield f"{each.resource} {each.change.item.key[1]} is durable, and its writer waits"


def failed(answer: None, store: Store, error: BaseException, writes: Iterable[Any]) -> Iterator[str]:
    """Who wrote it is told that it may not be durable, and nothing is computed from it any more."""
    yield from wrong_heads(store)
    if vars(store)["_batch"] or not store.trouble:
        yield f"a commit has failed, and writes are still accepted ({store.trouble!r})"
    for each in writes:
        told = each.done.done() and (each.done.cancelled() or each.done.exception() is not None)
        if not told:
            yield f"{each.resource} {each.change.item.key[1]} has failed, and its writer is not told so"


def committed(answer: None, store: Store) -> Iterator[str]:
    """Nothing waits for a commit that will not come; a log that does not take writes is tried again."""
    parts = vars(store)
    if parts["_flush"] is not None or parts["_batch"]:
        yield f"the commit has ended, and {len(parts['_batch'])} writes wait for it"
    if store.trouble and (parts["_resuming"] is None or parts["_resuming"].done()):
        yield "the log takes no writes, and is not tried again"


# --- a log that resumes


class Told:
    """How far a history had got when its readers were told last that it has changed."""

    end = 0


TOLD: Memories[Told] = Memories(Told)

RESUMED: Memories[list[Record]] = Memories(list)
"""Of each log what was durable after all when it resumed last."""


def resumed(answer: Sequence[Record], log: VolatileLog, after: int) -> Iterable[str]:
    RESUMED.of(log)[:] = answer
    return ()


def goes_on(answer: None, store: Store) -> Iterator[str]:
    """What was durable after all is there, is told, and makes the window no larger."""
    records = RESUMED.of(vars(store)["_log"])
    if store.trouble:
        yield f"writes are refused still: {store.trouble}"
    if records and store.version < records[-1].version:
        yield f"version {records[-1].version} is durable, and the store is of version {store.version}"
    for resource in {each.resource for each in records}:
        history = store.collection(resource).history
        if (told := TOLD.of(history).end) < history.end:
            yield f"{resource} have changed until {history.end}, and readers wait since {told}"
    number, size = len(vars(store)["_order"]), vars(store)["_bytes"]
    if number > store.window or (size > store.window_bytes and number > 1):
        yield f"{number} changes of {size} bytes are kept after all, more than the window has"


# --- who waits for changes


def waiters(history: History) -> list[Future[None]]:
    return [*vars(history)["_waiters"]]


def woken(answer: None, before: list[Future[None]], history: History) -> Iterator[str]:
    """All that waited, once."""
    TOLD.of(history).end = history.end
    if not all(each.done() for each in before) or any(each in vars(history)["_waiters"] for each in before):
        yield "who waited for changes waits still"


def forgotten(answer: Change, history: History) -> Iterator[str]:
    """What is forgotten is cut off a thousand at a time, or an eighth of what is left: memory is bounded by
    the window."""
    dead = history.start - vars(history)["_trimmed"]
    if dead and dead >= min(CUT_AT_ONCE, (history.held - dead) // 8):
        yield f"of {history.held} changes that are held {dead} are forgotten"


QUESTIONS = (
    Question(Store, "_publish", published),
    Question(Store, "_fail", failed),
    Question(Store, "_commit_all", committed),
    Question(Store, "_resume", goes_on),
    Question(VolatileLog, "resume", resumed),
    Question(History, "wake", woken, before=waiters),
    Question(History, "evict", forgotten),
)
