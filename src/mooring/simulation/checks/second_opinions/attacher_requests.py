"""Which requests of the attacher may still take effect: docs/protocol.md, C15 and "The attacher under a
Lease"."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from mooring.controllers.attacher import controller, detaching, requests
from mooring.controllers.attacher.detaching import Detaching
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.second_opinions import near_attacher as near
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.errors import NotAsked, StorageRefused
from mooring.volumes.names import ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT, DETACHED

# --- who asks


class Holder:
    """A process that may ask the storage: its client knows whether it holds its Lease."""

    client: Client | None = None


_HOLDERS: Memories[Holder] = Memories(Holder)


def begins(answer: None, asked: RememberedDetaches, client: Client) -> tuple[()]:
    """From now on this process asks by that client."""
    _HOLDERS.of_this_process().client = client
    return ()


def asks_while_it_leads(answer: object, plugin: str, what: str) -> Iterator[str]:
    """A holder that has lost its Lease asks the storage for nothing: looked at when it is about to."""
    client = _HOLDERS.of_this_process().client
    if client is not None and client.leads is not None and not client.leads():
        yield f"{plugin} is about to be asked for {what}, and the Lease is not held any more"


# --- what is stored


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def times_on(record: VolumeAttachment, annotation: str) -> list[str]:
    return [each for each in record.metadata.annotations.get(annotation, "").split(",") if each]


def unanswered(answer: Sequence[str], attaches: Sequence[str], record: VolumeAttachment) -> Iterator[str]:
    """What is attached was answered once: the latest request."""
    if list(answer) != list(attaches)[: len(attaches) - record.status.attached]:
        yield f"attached: {record.status.attached}; of {attaches} these were not answered: {answer}"


def begun(answer: str, sent: Iterable[str], now: datetime) -> Iterator[str]:
    """One more request is stored before it is sent, beside those that may be in flight: told apart from each,
    and of now, or, where one of them is of now, of a moment later."""
    before = [] if isinstance(sent, Iterator) else list(sent)
    *kept, new = answer.split(",")
    if kept != before or new in before or not 0 <= (at(new) - now).total_seconds() < 1e-3:
        yield f"after {before}, one more at {now}: {answer}"


def outstanding(answer: float, since: Iterable[float], now: float, validity_s: float) -> Iterator[str]:
    """Until no request can take effect any more (C15)."""
    expected = max([0.0, *(validity_s - (now - each) for each in since)])
    if abs(answer - expected) > 1e-4:
        yield f"requests of {since} may take effect for {answer} s, and not for {expected} s; now {now}"


def one_answered(answer: str | None, sent: Iterable[str], one: str) -> Iterator[str]:
    """It has no effect any more; another one of the same time stays."""
    before = list(sent)
    left = answer.split(",") if answer is not None else []
    if one in before:
        before.remove(one)
    if left != before:
        yield f"{one} was answered, and {answer} stays, of {sent}"


# --- since when they are known


def known_since(asked: RequestAges, record: VolumeAttachment, *rest: object) -> dict[str, float]:
    """Since when each request of the VolumeAttachment is known, in the event loop's time."""
    return dict(vars(asked)["_since"].get(record.metadata.uid, {}))


def seen(
    answer: None, before: dict[str, float], asked: RequestAges, record: VolumeAttachment
) -> Iterator[str]:
    """A request is as old as it is known here, whatever clock has stamped it; what is over is not kept."""
    now = get_running_loop().time()
    named = {*times_on(record, ATTACH_REQUESTED_AT), *times_on(record, DETACH_REQUESTED_AT)}
    if (known := known_since(asked, record)) != {each: before.get(each, now) for each in named}:
        yield f"{record.name}: of {sorted(named)} these are known: {known}, before {before}"


def sent(
    answer: None, before: dict[str, float], asked: RequestAges, record: VolumeAttachment, annotation: str
) -> Iterator[str]:
    """The latest request is as old as it was sent, which is now; no other gets younger."""
    expected = before | {times_on(record, annotation)[-1]: get_running_loop().time()}
    if (known := known_since(asked, record)) != expected:
        yield f"{record.name}: one is sent, and these are known: {known}, before {before}"


def attaches_since(answer: list[float], asked: Detaching, record: VolumeAttachment) -> Iterator[str]:
    """Of the attaches that were not answered."""
    known, now = known_since(vars(asked)["_ages"], record), get_running_loop().time()
    all_sent = times_on(record, ATTACH_REQUESTED_AT)
    pending = all_sent[: len(all_sent) - record.status.attached]
    if answer != [known.get(each, now) for each in pending]:
        yield f"{record.name}: attaches of {pending} are known since {answer}, at {now}, of {known}"


def valid(
    answer: list[str], asked: RequestAges, record: VolumeAttachment, sent: Iterable[str], validity_s: float
) -> Iterator[str]:
    """Those that were not known for so long."""
    known, now = known_since(asked, record), get_running_loop().time()
    if answer != [each for each in sent if now - known.get(each, now) < validity_s]:
        yield f"{record.name}: of {sent}, known since {known}, these are valid at {now}: {answer}"


# --- remembered under a Lease


def is_fresh(answer: bool, asked: RememberedDetaches, record: VolumeAttachment) -> Iterator[str]:
    """A deletion that began under this Lease: the VolumeAttachment was written since the deletions were read
    that were in flight then, and is none of them. Without a Lease there is none."""
    known = vars(asked)
    seen = known["_since"] > 0 and record.metadata.uid not in known["_not_fresh"]
    expected = seen and known["_since"] < int(record.metadata.resource_version)
    if answer != expected or (answer and known["_client"].leads is None):
        yield f"{record.name} of {record.metadata.resource_version} is {'' if answer else 'not '}fresh"


def _remembered(asked: RememberedDetaches, record: VolumeAttachment) -> list[float]:
    """When they were sent, by the loop's time."""
    return list(vars(asked)["_unanswered"].get(record.metadata.uid, ()))


def remembered_before(asked: RememberedDetaches, record: VolumeAttachment, *rest: object) -> list[float]:
    return _remembered(asked, record)


def remembered(
    answer: None, before: list[float], asked: RememberedDetaches, record: VolumeAttachment, validity_s: float
) -> Iterator[str]:
    """The request that is about to be sent, beside all that may still take effect."""
    now = get_running_loop().time()
    valid = [sent for sent in before if now - sent < validity_s]
    if _remembered(asked, record) != [*valid, now]:
        yield f"{record.name}: remembered are {_remembered(asked, record)}, before {before} for {validity_s} s"


def answered(
    answer: None, before: list[float], asked: RememberedDetaches, record: VolumeAttachment
) -> Iterator[str]:
    """The latest request has no effect any more; earlier ones may."""
    if (now := _remembered(asked, record)) != before[:-1]:
        yield f"{record.name}: of {before} the last was answered, and {now} are remembered"


def all_stored(answer: None, asked: RememberedDetaches, record: VolumeAttachment) -> Iterator[str]:
    """What stands on the VolumeAttachment need not be remembered."""
    if now := _remembered(asked, record):
        yield f"{record.name}: {now} are remembered, and stored"


def noted(
    answer: VolumeAttachment, asked: Detaching, record: VolumeAttachment, notes: Mapping[str, str | None]
) -> Iterator[str]:
    """All requests that were remembered are stored by it."""
    if now := _remembered(vars(asked)["_remembered"], record):
        yield f"{record.name}: {now} are remembered, and stored"


def let_go(answer: None, asked: RememberedDetaches, record: VolumeAttachment) -> Iterator[str]:
    """From now on a cache that still shows it may be stale: no deletion of it is fresh."""
    if asked.is_fresh(record):
        yield f"{record.name} was let go, and its deletion is fresh"


def ages_remembered(
    answer: list[str], asked: RememberedDetaches, record: VolumeAttachment, now: datetime
) -> Iterator[str]:
    """When they were sent, by the wall clock: none is in the future, and the latest comes last."""
    sent = _remembered(asked, record)
    if not sent and not answer:
        return
    times = [at(each) for each in answer]
    if times != sorted(times) or any(each > now for each in times):
        yield f"{record.name}: at {now} these were sent: {answer}"
    between = [(later - first) for first, later in pairwise(sent)]
    shown = [(later - first).total_seconds() for first, later in pairwise(times)]
    if len(times) != len(sent) or any(abs(a - b) > 1e-3 for a, b in zip(between, shown, strict=True)):
        yield f"{record.name}: {sent} are {answer} at {now}"


class Known(NamedTuple):
    """Before the storage is asked to detach."""

    fresh: bool
    attaches: int
    remembered: int


def known_before(
    asked: Detaching, plugin: Any, record: VolumeAttachment, before: list[str], validity_s: float
) -> Known:
    memory: RememberedDetaches = vars(asked)["_remembered"]
    attaches = len(times_on(record, ATTACH_REQUESTED_AT)) - record.status.attached
    return Known(memory.is_fresh(record), attaches, len(_remembered(memory, record)))


def detach_asked(
    answer: VolumeAttachment | Exception,
    known: Known,
    asked: Detaching,
    plugin: Any,
    record: VolumeAttachment,
    before: list[str],
    validity_s: float,
) -> Iterator[str]:
    """Each request is known before it is sent and until it is answered: remembered, if the deletion is
    fresh and no attach may come late; else stored, where requests may come late at all. What the storage has
    said to be detached, and no attach can take back, is not asked for again."""
    if DETACHED in record.metadata.annotations:
        yield f"{record.name} is detached for good, and is asked for again"
    now = len(_remembered(vars(asked)["_remembered"], record))
    remembers = known.fresh and known.attaches <= 0
    if isinstance(answer, (StorageRefused, NotAsked, VolumeAttachment)):
        if now > known.remembered and remembers:
            yield f"{record.name}: its detach was answered, and is still remembered"
    elif remembers and not isinstance(answer, KubeError) and not now:
        yield f"{record.name}: its detach was not answered, and is forgotten: {type(answer).__name__}"
    if isinstance(answer, VolumeAttachment):
        stored = answer is not record and DETACH_REQUESTED_AT in answer.metadata.annotations
        if stored != (validity_s > 0 and not remembers):
            yield f"{record.name}: its detach is {'' if remembers else 'not '}remembered; stored: {stored}"


QUESTIONS = (
    Question(RememberedDetaches, "__init__", begins),
    Question(controller, "operation", asks_while_it_leads),
    Question(detaching, "operation", asks_while_it_leads),
    Question(Detaching, "_ask", detach_asked, before=known_before, refusals=(Exception,)),
    Question(Detaching, "_note", noted),
    Question(Detaching, "_attaches_since", attaches_since),
    Question(RequestAges, "note", seen, before=known_since),
    Question(RequestAges, "sends", sent, before=known_since),
    Question(RequestAges, "still_valid", valid),
    Question(requests, "unanswered", unanswered, near=near.UNANSWERED),
    Question(requests, "begun", begun, near=near.BEGUN),
    Question(requests, "outstanding_for", outstanding, near=near.OUTSTANDING),
    Question(requests, "without", one_answered, near=near.ANSWERED),
    Question(RememberedDetaches, "is_fresh", is_fresh),
    Question(RememberedDetaches, "unanswered", ages_remembered),
    Question(RememberedDetaches, "add", remembered, before=remembered_before),
    Question(RememberedDetaches, "answered", answered, before=remembered_before),
    Question(RememberedDetaches, "stored", all_stored),
    Question(RememberedDetaches, "released", let_go),
)
