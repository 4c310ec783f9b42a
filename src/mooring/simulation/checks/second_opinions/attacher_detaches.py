"""What has become of a VolumeAttachment when the attacher has asked for its detach: docs/protocol.md,
"Detach", C15 and "The attacher under a Lease".

It goes when the storage has said "detached" and no request can take effect any more. If it does not go yet,
what the storage has said is stored, and it is looked at again when the last request has lost its effect.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.attacher.definitions import Definitions
from mooring.controllers.attacher.detaching import Detaching
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.second_opinions.api_words import said_to
from mooring.simulation.checks.second_opinions.attacher_acts import is_asked, shown, step_begins
from mooring.simulation.checks.second_opinions.attacher_requests import known_since, times_on
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import ATTACH_REQUESTED_AT, ATTACHER, DETACH_REQUESTED_AT, DETACHED

NOT_DEFINED_S, LOOKS_S = 600.0, 30.0
"""Where nothing defines the volume a request counts for ten minutes (C15), and it is looked at each half
minute whether something does."""
NEARLY_S = 1e-3


# --- for how long a request counts

VALID: Memories[dict[str, set[float]]] = Memories(dict)
"""By uid: for how long a request about the volume counts, as was found since its detach began: by that, or by
what looks at it at the same time."""


def counts_for(answer: float, asked: Definitions, record: VolumeAttachment) -> Iterator[str]:
    """To a CSI driver all requests count for as long; what nothing defines, for ten minutes."""
    VALID.of(asked).setdefault(record.metadata.uid, set()).add(answer)
    if record.spec.attacher != ATTACHER and answer == NOT_DEFINED_S:
        yield f"{record.name}: its driver says for how long a request counts, and {answer} s is taken"


# --- one detach


STAMPED: Memories[dict[str, str]] = Memories(dict)
"""By uid: the time of the request that was stored before it was sent, and answered, by the present detach."""


class Begun(NamedTuple):
    """When a detach begins: the moment, whether the VolumeAttachment was let go before, what was stored of
    it, and since when each of its requests is known. `reads`: the deletions in flight are still to be
    read. `writes`: how many this process had done of it."""

    at: float
    let_go: bool
    stored: bool
    attaches: Mapping[str, float]
    detaches: Mapping[str, float]
    remembered: tuple[float, ...]
    reads: bool
    writes: int


def begins(asked: Detaching, record: VolumeAttachment) -> Begun:
    parts = vars(asked)
    known = known_since(parts["_ages"], record)
    remembered: RememberedDetaches = parts["_remembered"]
    memory = vars(remembered)
    attaches, uid = times_on(record, ATTACH_REQUESTED_AT), record.metadata.uid
    STAMPED.of(asked).pop(uid, None)
    VALID.of(parts["_definitions"]).pop(uid, None)
    return Begun(
        now(),
        uid in parts["_let_go"],
        DETACHED in record.metadata.annotations,
        {each: known.get(each, now()) for each in attaches[: len(attaches) - record.status.attached]},
        {each: known.get(each, now()) for each in times_on(record, DETACH_REQUESTED_AT)},
        tuple(memory["_unanswered"].get(uid, ())),
        memory["_client"].leads is not None and not memory["_since"],
        writes_before(asked, record),
    )


def _left_s(begun: Begun, valid_s: float, moment: float) -> tuple[float, float]:
    """For how long the requests from before may take effect, as of now and as of when the detach began: what
    another process withdraws meanwhile has not become younger."""
    requests = [*begun.attaches.values(), *begun.detaches.values(), *begun.remembered]
    end = max(requests, default=-math.inf) + valid_s
    return max(0.0, end - moment), max(0.0, end - begun.at)


def detached(answer: float, begun: Begun, asked: Detaching, record: VolumeAttachment) -> Iterator[str]:
    """It was let go, and 0 says so; or what was said is stored, and it waits for as long as any request may
    take effect."""
    own = STAMPED.of(asked).pop(record.metadata.uid, "")
    found = VALID.of(vars(asked)["_definitions"]).get(record.metadata.uid) or {0.0}
    said = [[*_of_a_detach(answer, begun, asked, record, valid_s, own)] for valid_s in sorted(found)]
    yield from min(said, key=len)


def _of_a_detach(
    answer: float, begun: Begun, asked: Detaching, record: VolumeAttachment, valid_s: float, own: str
) -> Iterator[str]:
    """If a request counts for so long. `own`: what this detach has stored of its request. Of a
    VolumeAttachment whose end was told meanwhile nothing is remembered."""
    parts = vars(asked)
    least, most = _left_s(begun, valid_s, now())
    known = shown(parts["_writes"], record)
    gone = begun.let_go or begun.reads or known is None
    if not answer:
        finalizer = parts["_ours"][record.spec.attacher]
        holds = known is not None and finalizer in known.metadata.finalizers
        if holds and record.metadata.uid not in parts["_let_go"]:
            yield f"{record.name} is told to be let go, and is not"
        if least > NEARLY_S and not gone:
            yield f"{record.name} is let go, and a request may take effect for {least} s"
        return
    if valid_s == NOT_DEFINED_S:
        least, most = min(least, LOOKS_S), min(most, LOOKS_S)
    if not gone and not least - NEARLY_S <= answer <= most + NEARLY_S:
        yield f"{record.name} waits for {answer} s, and a request takes effect for {least} to {most} s"
    if known is not None and not gone:
        yield from _said(begun, valid_s, asked, known, own)
        yield from _said_once(begun, asked, record, known)


def _said_once(
    begun: Begun, asked: Detaching, record: VolumeAttachment, known: VolumeAttachment
) -> Iterator[str]:
    """Another process may store it, too, which had asked before it was stored. This one has not if, by what
    the API server has said to it, it has written nothing."""
    first, writes = record.metadata.annotations.get(DETACHED), writes_before(asked, record)
    if first is None or writes == begun.writes:
        return
    if known.metadata.annotations.get(DETACHED) not in (first, None):
        yield f"{record.name} is detached since {first}, and that is stored once more"


def stamped(
    answer: VolumeAttachment, asked: Detaching, plugin: Any, record: VolumeAttachment, *rest: Any
) -> Iterable[str]:
    """Another process may store requests of its own meanwhile."""
    STAMPED.of(asked).pop(record.metadata.uid, None)
    if answer is not record:
        STAMPED.of(asked)[record.metadata.uid] = times_on(answer, DETACH_REQUESTED_AT)[-1]
    return ()


NOTED: Memories[list[str]] = Memories(list)
"""Of each worker, what it has stored of requests to detach since it began to ask for one."""


def asking_begins(*asked: object) -> None:
    step_begins()
    NOTED.of(asyncio.current_task()).clear()


def noted(answer: VolumeAttachment, asked: Detaching, record: VolumeAttachment, *rest: Any) -> Iterable[str]:
    NOTED.of(asyncio.current_task()).append(record.metadata.name)
    return ()


def not_asked(
    answer: object, before: None, asked: Detaching, plugin: Any, record: VolumeAttachment, *rest: Any
) -> Iterator[str]:
    """What cannot be asked for, as nothing says which volume that is, is not stored as requested: it would be
    waited for."""
    if isinstance(answer, Exception) and not is_asked() and NOTED.of(asyncio.current_task()):
        yield f"{record.name}: a detach is stored, and cannot be asked for: {answer!r}"


def _said(begun: Begun, valid_s: float, asked: Detaching, known: VolumeAttachment, own: str) -> Iterator[str]:
    """The storage has said "detached". While an attach may take effect that is not the last word."""
    if own in times_on(known, DETACH_REQUESTED_AT):
        yield f"{known.name}: its detach was answered, and counts as outstanding: {own}"
    attaches = begun.attaches.values()
    pending = any(since + valid_s > begun.at for since in attaches)
    if pending and known.metadata.uid not in vars(asked)["_answered"]:
        yield f"{known.name}: that the storage has said it is detached is forgotten"
    over = all(since + valid_s <= begun.at for since in attaches)
    if over and DETACHED not in known.metadata.annotations:
        yield f"{known.name} is detached, no attach can come late, and that is not stored"
    if pending and not begun.stored and DETACHED in known.metadata.annotations:
        yield f"{known.name}: an attach may come late, and that it is detached is stored"


def writes_before(asked: Detaching, record: VolumeAttachment) -> int:
    return said_to(vars(asked)["_writes"].client).writes[record.metadata.uid]


def let_go(
    answer: Exception | None, before: int, asked: Detaching, record: VolumeAttachment
) -> Iterator[str]:
    """Our finalizer is gone, by one write where there was no other. Else the status is true before that, and
    no attach seems to be unanswered."""
    parts, uid = vars(asked), record.metadata.uid
    if answer is not None:
        if uid in parts["_let_go"]:
            yield f"{record.name} was not let go ({answer!r}), and counts as gone"
        return
    known, ours = shown(parts["_writes"], record), parts["_ours"][record.spec.attacher]
    if known is None:
        return
    if ours in known.metadata.finalizers and uid not in parts["_let_go"]:
        yield f"{record.name} is let go, and has our finalizer"
    alone = [*record.metadata.finalizers] == [ours]
    if alone and writes_before(asked, record) != before + 1:
        yield f"{record.name} is let go by {writes_before(asked, record) - before} writes"
    untrue = known.status.attached or times_on(known, ATTACH_REQUESTED_AT)
    if untrue and not alone:
        yield f"{record.name} is detached, and stays; it says {known.status}, {known.metadata.annotations}"


# --- when it is looked at again


WAITS: Memories[dict[str, float]] = Memories(dict)
"""By uid: for how long a VolumeAttachment was to wait, when it was looked at last."""


def waits(answer: None, asked: AttacherController, record: VolumeAttachment) -> Iterator[str]:
    """When its last request has lost its effect, at the latest."""
    left_s = WAITS.of(vars(asked)["_detaching"]).pop(record.metadata.uid, 0.0)
    if left_s and not is_brought_up(asked.queue, record.metadata.name, left_s + NEARLY_S):
        yield f"{record.name} is to be looked at again in {left_s} s, and is not"


def detached_and_waits(
    answer: float, begun: Begun, asked: Detaching, record: VolumeAttachment
) -> Iterator[str]:
    WAITS.of(asked)[record.metadata.uid] = answer
    yield from detached(answer, begun, asked, record)


# --- under a Lease


TRIED: Memories[set[str]] = Memories(set)
"""What was tried of the memory of a process: to learn of the deletions in flight."""


def known_since_version(asked: RememberedDetaches) -> int:
    TRIED.of(asked).add("begin")
    return vars(asked)["_since"]


def started(answer: None, asked: AttacherController) -> Iterator[str]:
    """Who takes a Lease over learns at once which deletions are in flight: what it learns later counts as
    requested later, and waits for longer."""
    if asked.client.leads is not None and not TRIED.of(vars(asked)["_remembered"]):
        yield "the Lease is taken, and which deletions are in flight is not asked"


def in_flight(answer: None, before: int, asked: RememberedDetaches) -> Iterator[str]:
    """Who takes a Lease over knows, once and for all, which deletions are in flight: each counts as requested
    by another just then, unless it is stored that it is detached. Who has no Lease knows none."""
    memory, listed = vars(asked), said_to(vars(asked)["_client"]).listed
    if (memory["_client"].leads is None) == (memory["_since"] > 0) or (before and memory["_since"] != before):
        yield f"which deletions are in flight was read as of {memory['_since']}, before of {before}"
    if before or not memory["_since"] or listed is None:
        return
    for each in listed.items:
        if each.metadata.deletion_timestamp is None:
            continue
        stored, uid = DETACHED in each.metadata.annotations, each.metadata.uid
        requested = len(memory["_unanswered"].get(uid, ()))
        if uid not in memory["_not_fresh"] or requested != (not stored):
            yield f"{each.name} was being deleted, and counts as fresh, or as requested {requested} times"


QUESTIONS = (
    Question(Definitions, "validity_s", counts_for),
    Question(Detaching, "detach", detached_and_waits, before=begins),
    Question(Detaching, "_ask", stamped),
    Question(Detaching, "_stamp", noted),
    Question(Detaching, "_ask", not_asked, before=asking_begins, refusals=(VolumeError,)),
    Question(Detaching, "_release", let_go, before=writes_before, refusals=(Exception,)),
    Question(AttacherController, "_detach", waits),
    Question(AttacherController, "started", started),
    Question(RememberedDetaches, "begin", in_flight, before=known_since_version),
)
