"""Second opinions about what the attacher has done when an act of it ends: one about each that is left
undone, none about one that is done."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import run_in_virtual_time

from mooring.controllers.attacher.controller import VERIFY, AttacherOptions
from mooring.controllers.attacher.decide import Action
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.kube.objects.storage import VolumeError as Told
from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions import (
    api_words,
    attacher_acts,
    attacher_definitions,
    attacher_detaches,
    attacher_verifying,
    attacher_writes,
)
from mooring.simulation.checks.second_opinions.server_requests import note
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.errors import NotAsked, StorageRefused, VolumeError
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    DETACH_REQUESTED_AT,
    DETACHED,
    VOLUME_NAME,
)
from mooring.volumes.spec import VolumeSpec

OURS = "mooring.dev/attacher"
NO = Conflict("overtaken", status=409)


def record(
    *,
    ends: bool = False,
    attached: bool = False,
    error: str = "",
    finalizers: tuple[str, ...] = (OURS,),
    version: int = 5,
    attacher: str = ATTACHER,
    pv: str | None = "pv",
    uid: str = "uid",
    **said: str,
) -> VolumeAttachment:
    names = {"attaches": ATTACH_REQUESTED_AT, "detaches": DETACH_REQUESTED_AT, "detached": DETACHED}
    names |= {"epoch": ATTACH_EPOCH, "volume": VOLUME_NAME}
    told = Told(message=error) if error else None
    return VolumeAttachment(
        metadata=ObjectMeta(
            name="va",
            uid=uid,
            resource_version=str(version),
            finalizers=finalizers,
            annotations={names[name]: text for name, text in said.items()},
            deletion_timestamp="t" if ends else None,
        ),
        spec=VolumeAttachmentSpec(
            attacher=attacher, node_name="n0", source=VolumeAttachmentSource(persistent_volume_name=pv)
        ),
        status=VolumeAttachmentStatus(attached=attached, attach_error=told, detach_error=told),
    )


class Api:
    """A client; `leads`: whether it works under a Lease."""

    def __init__(self, *, leads: bool = False) -> None:
        self.leads = (lambda: True) if leads else None


class Parts:
    """Of production code, those that an opinion looks at."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


class Attacher:
    """What opinions look at: of the controller, of its writes, and of its part that detaches, at once.
    `cached`: the VolumeAttachment as its cache has it."""

    def __init__(self, cached: VolumeAttachment | None = None, *, let_go: bool = False) -> None:
        self.client: Any = Api()
        self.queue: WorkQueue[Any] = WorkQueue()
        self._ours = {ATTACHER: OURS, "csi.example.com": OURS}
        self._records = self._cache = {"va": cached} if cached is not None else {}
        self._slots: Any = Parts(_taken={}, _waiting={}, _turns={}, _limits={"csi": 0}, _otherwise=1)
        self._let_go = {"uid"} if let_go else set[str]()
        self._answered = set[str]()
        self._ages = RequestAges()
        self._definitions = Parts()
        self._remembered: Any = Parts(_unanswered={}, _client=self.client, _since=0)
        self._writes = self._detaching = self


def objected(opinion: Any, *asked: Any, **how: Any) -> bool:
    async def ask() -> bool:
        return [*opinion(*asked, **how)] != []

    return run_in_virtual_time(ask())


# --- one key


@pytest.mark.parametrize(
    ("cached", "due"),
    [
        (record(), True),
        (record(attached=True), False),
        (record(attached=True, error="no"), True),
        (record(ends=True, attached=True), True),
        (record(ends=True, finalizers=("other",)), False),
        (record(attacher="other"), False),
        (None, False),
    ],
)
def test_a_key_that_is_left_is_objected_to(cached: VolumeAttachment | None, due: bool):
    assert objected(attacher_acts.worked, None, None, Attacher(cached), "va") == due
    assert not objected(attacher_acts.worked, NO, None, Attacher(cached), "va"), "it is tried again"


def test_what_is_brought_up_again_may_be_left():
    async def found() -> list[list[str]]:
        waits, told, for_a_slot = (Attacher(record()) for _ in range(3))
        waits.queue.add_after("va", 1.0)
        told.queue.add("va")
        for_a_slot._slots._waiting["csi"] = deque(["va"])
        gone = Attacher(record(ends=True), let_go=True)
        return [
            [*attacher_acts.worked(None, None, each, "va")]  # type: ignore[arg-type]
            for each in (waits, told, for_a_slot, gone)
        ]

    assert run_in_virtual_time(found()) == [[], [], [], []]


def test_a_verification_that_is_the_last_and_a_slot_that_is_kept_are_objected_to():
    assert objected(attacher_acts.worked, None, None, Attacher(), VERIFY)
    keeps = Attacher()
    keeps._slots._taken["csi"] = 1
    assert objected(attacher_acts.worked, NO, None, keeps, "va")


@pytest.mark.parametrize(
    ("limit", "turns", "wrong"), [(1, {}, True), (1, {"vb": "csi"}, False), (0, {}, False)]
)
def test_a_slot_that_is_free_while_a_key_waits_for_it_is_objected_to(
    limit: int, turns: dict[str, str], wrong: bool
):
    asked = Attacher()
    slots = asked._slots
    slots._waiting["csi"], slots._limits["csi"], slots._turns = deque(["va"]), limit, turns
    assert objected(attacher_acts.worked, NO, None, asked, "vc") == wrong


@pytest.mark.parametrize(("due", "wrong"), [(None, True), (60.0, False), (61.0, True)])
def test_an_attacher_that_does_not_verify_in_its_period_is_objected_to(due: float | None, wrong: bool):
    async def found() -> bool:
        asked: Any = Attacher()
        asked._options = AttacherOptions()
        if due is not None:
            asked.queue.add_after(VERIFY, due)
        return [*attacher_acts.started(None, asked)] != []

    assert run_in_virtual_time(found()) == wrong


def test_a_lease_that_is_taken_without_a_look_at_the_deletions_is_objected_to():
    asked: Any = Attacher()
    asked.client, asked._remembered = Api(leads=True), Parts(_since=0)
    assert objected(attacher_detaches.started, None, asked)
    attacher_detaches.known_since_version(asked._remembered)
    assert not objected(attacher_detaches.started, None, asked)


# --- attach

ONCE, WITHDRAWN = record(attaches="a,b"), record(attaches="a")


@pytest.mark.parametrize(
    ("answer", "cached", "wrong"),
    [
        (record(attached=True, attaches="a,b"), record(attached=True, attaches="a,b"), False),
        (record(attaches="a,b"), ONCE, True),
        (None, record(ends=True, attaches="a"), False),
        (None, record(ends=True, attaches="a,b"), True),
        (None, WITHDRAWN, True),
        (StorageRefused("no"), WITHDRAWN, False),
        (StorageRefused("no"), ONCE, True),
        (NotAsked("no"), ONCE, True),
        (TimeoutError(), ONCE, False),
        (TimeoutError(), WITHDRAWN, True),
        (NO, WITHDRAWN, False),
    ],
)
def test_an_attach_whose_outcome_is_not_noted_is_objected_to(answer: Any, cached: Any, wrong: bool):
    assert objected(attacher_acts.attached, answer, Attacher(cached), ONCE) == wrong


def volume(phase: str = "Bound", epoch: int = 0) -> PersistentVolume:
    annotations = {ATTACHED_TO: f'{{"epoch":{epoch}}}'} if epoch else {}
    return PersistentVolume(
        metadata=ObjectMeta(name="pv", annotations=annotations),
        spec=PersistentVolumeSpec(persistent_volume_reclaim_policy="Delete"),
        status=PersistentVolumeStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("read", "wrong"),
    [(volume(), False), (None, True), (volume("Released"), True), (volume(epoch=3), True)],
)
@pytest.mark.parametrize(("asks", "stored"), [(True, ONCE), (True, WITHDRAWN), (False, None)])
def test_an_attach_of_what_was_not_looked_at_or_is_not_to_be_attached_is_objected_to(
    read: PersistentVolume | None, wrong: bool, asks: bool, stored: VolumeAttachment | None
):
    async def found() -> bool:
        asked: Any = Attacher()
        attacher_acts.begins(asked, "va")
        if stored is not None:
            attacher_acts.intends(stored, asked, ONCE)
        begun = attacher_acts.step_begins(asked, ONCE)
        if read is not None:
            assert [*note("get", PersistentVolume, ("", "pv"), read, {})] == []
        if asks:
            attacher_acts.asks(None, "csi", "volume_attach")
        return [*attacher_acts.attach_ended(None, begun, asked, ONCE)] != []

    assert run_in_virtual_time(found()) == (asks and (wrong or stored is not ONCE))


@pytest.mark.parametrize(("stored", "wrong"), [("no slot", False), ("", True), ("else", True)])
def test_an_error_that_is_not_stored_is_objected_to(stored: str, wrong: bool):
    for action in (Action.ATTACH, Action.DETACH):
        asked = Attacher(record(error=stored))
        assert objected(attacher_acts.carried_out, VolumeError("no slot"), asked, action, ONCE) == wrong


# --- writes


@pytest.mark.parametrize(
    ("answer", "tries", "patched", "wrong"),
    [
        (record(), [], True, False),
        (record(), [NO, "read"], True, False),
        (record(), [NO, NO], True, True),
        (NO, [NO, "read"] * 5, True, False),
        (NO, [NO, "read"] * 4, True, True),
        (None, [], True, True),
        (None, [], False, False),
        (None, [NO, "gone"], True, False),
        (None, [NotFound("no", status=404)], True, False),
    ],
)
def test_a_write_that_is_not_tried_upon_what_is_there_is_objected_to(
    answer: Any, tries: list[Any], patched: bool, wrong: bool
):
    asked, held = Attacher(record()), record()

    def patch(live: VolumeAttachment) -> dict[str, Any] | None:
        return {} if patched else None

    attacher_writes.begins(asked, held, patch)  # type: ignore[arg-type]
    for each in tries:
        if isinstance(each, Exception):
            api_words.written(each, asked.client, held, {})
        else:
            live = held if each == "read" else None
            api_words.read(live, asked.client, VolumeAttachment, "va")
    assert objected(attacher_writes.in_its_latest_version, answer, None, asked, held, patch) == wrong


@pytest.mark.parametrize(
    ("cached", "wrong"),
    [
        (record(detaches="a", detached="t"), False),
        (record(detaches="a,b", detached="t"), True),
        (record(detached="t"), False),
        (record(detaches="a"), True),
        (record(uid="another"), False),
    ],
)
def test_a_request_that_is_not_withdrawn_is_objected_to(cached: VolumeAttachment, wrong: bool):
    asked, notes = Attacher(cached), {DETACHED: "t"}
    held = record(detaches="a,b")
    assert objected(attacher_writes.withdrawn, None, asked, held, DETACH_REQUESTED_AT, notes) == wrong


def test_what_was_written_and_is_not_known_is_objected_to():
    async def found() -> list[bool]:
        answers = []
        for cached in (record(version=5, attaches="a"), record(version=6, attaches="a")):
            asked: Any = Attacher(cached)
            for known in (False, True):
                if known:
                    asked._ages.note(cached)
                written = record(version=6, attaches="a")
                answers.append([*attacher_writes.stored(written, asked, written, {})] != [])
        return answers

    assert run_in_virtual_time(found()) == [True, True, True, False]


def test_what_is_not_taken_off_is_objected_to():
    stays, gone = record(attached=True, error="no", attaches="a"), record()
    assert objected(attacher_writes.detached, stays, Attacher(), stays)
    assert not objected(attacher_writes.detached, gone, Attacher(), stays)
    assert objected(attacher_writes.erased, None, Attacher(stays), stays, ATTACH_REQUESTED_AT)
    assert not objected(attacher_writes.erased, None, Attacher(gone), stays, ATTACH_REQUESTED_AT)


# --- detach


BEGUN = attacher_detaches.Begun(0.0, False, False, {}, {}, (), False, 0)
begun = BEGUN._replace


HELD = record(ends=True)
SAID = record(ends=True, detached="t")


@pytest.mark.parametrize(
    ("answer", "begun_", "cached", "let_go", "wrong"),
    [
        (0.0, begun(), HELD, True, False),
        (0.0, begun(), None, False, False),
        (0.0, begun(), HELD, False, True),
        (0.0, begun(attaches={"a": -30.0}), HELD, True, True),
        (0.0, begun(attaches={"a": -60.0}), HELD, True, False),
        (30.0, begun(detaches={"a": -30.0}), SAID, False, False),
        (30.0, begun(detaches={"a": -30.0}), HELD, False, True),
        (29.0, begun(detaches={"a": -30.0}), SAID, False, True),
        (31.0, begun(remembered=(-30.0,)), SAID, False, True),
        (30.0, begun(remembered=(-30.0,)), SAID, False, False),
        (60.0, begun(detaches={"a": -30.0}), SAID, False, True),
        (30.0, begun(attaches={"a": -30.0}), SAID, False, True),
        (30.0, begun(detaches={"a": -30.0}), record(ends=True, detached="t", detaches="a,b"), False, True),
        (
            30.0,
            begun(detaches={"a": -30.0}),
            record(ends=True, detached="t", detaches="a,other"),
            False,
            False,
        ),
    ],
)
def test_a_detach_that_has_not_come_to_its_end_is_objected_to(
    answer: float, begun_: Any, cached: VolumeAttachment | None, let_go: bool, wrong: bool
):
    asked: Any = Attacher(cached, let_go=let_go)
    attacher_detaches.VALID.of(asked._definitions)["uid"] = {60.0}
    sent = record(ends=True, detaches="a,b")
    assert not objected(attacher_detaches.stamped, sent, asked, None, HELD, [], 60.0)
    assert objected(attacher_detaches.detached, answer, begun_, asked, HELD) == wrong


@pytest.mark.parametrize(("stores", "asks"), [(False, False), (True, True), (True, False)])
def test_a_request_that_is_stored_and_cannot_be_asked_for_is_objected_to(stores: bool, asks: bool):
    async def found() -> bool:
        asked: Any = Attacher(HELD)
        attacher_detaches.asking_begins()
        if stores:
            attacher_detaches.noted(HELD, asked, HELD)
        if asks:
            attacher_acts.asks(None, "csi", "volume_detach")
        return [*attacher_detaches.not_asked(VolumeError("gone"), None, asked, None, HELD)] != []

    assert run_in_virtual_time(found()) == (stores and not asks)


@pytest.mark.parametrize(
    ("now", "writes", "wrong"), [("t", 0, False), ("t", 1, False), ("later", 1, True), ("later", 0, False)]
)
def test_that_it_is_detached_is_stored_once(now: str, writes: int, wrong: bool):
    """By this process: another one may have asked before that was stored, and stores it, too."""
    asked: Any = Attacher(record(ends=True, detached=now))
    for _ in range(writes):
        api_words.written(SAID, asked.client, SAID, {})
    attacher_detaches.VALID.of(asked._definitions)["uid"] = {60.0}
    late = begun(stored=True, attaches={"a": -30.0})
    asked._answered.add("uid")
    assert objected(attacher_detaches.detached, 30.0, late, asked, SAID) == wrong


def test_what_nothing_defines_is_looked_at_each_half_minute():
    asked: Any = Attacher(SAID)
    attacher_detaches.VALID.of(asked._definitions)["uid"] = {600.0}
    outstanding = begun(detaches={"a": -30.0})
    found = [objected(attacher_detaches.detached, each, outstanding, asked, HELD) for each in (30.0, 60.0)]
    assert found == [False, True]


def test_that_an_attach_may_come_late_is_remembered():
    asked: Any = Attacher(HELD)
    attacher_detaches.VALID.of(asked._definitions)["uid"] = {60.0}
    late = begun(attaches={"a": -30.0})
    assert objected(attacher_detaches.detached, 30.0, late, asked, HELD)
    asked._answered.add("uid")
    assert not objected(attacher_detaches.detached, 30.0, late, asked, HELD)


@pytest.mark.parametrize(
    ("answer", "held", "cached", "let_go", "writes", "wrong"),
    [
        (None, HELD, HELD, True, 1, False),
        (None, HELD, HELD, False, 1, True),
        (None, HELD, HELD, True, 2, True),
        (NO, HELD, HELD, True, 0, True),
        (NO, HELD, HELD, False, 0, False),
        (None, record(finalizers=("other", OURS)), record(finalizers=("other",)), False, 3, False),
        (
            None,
            record(finalizers=("other", OURS)),
            record(finalizers=("other",), attached=True),
            True,
            3,
            True,
        ),
        (
            None,
            record(finalizers=("other", OURS)),
            record(finalizers=("other",), attaches="a"),
            True,
            3,
            True,
        ),
    ],
)
def test_what_is_not_let_go_as_it_should_be_is_objected_to(
    answer: Any, held: Any, cached: Any, let_go: bool, writes: int, wrong: bool
):
    asked: Any = Attacher(cached, let_go=let_go)
    for _ in range(writes):
        api_words.written(held, asked.client, held, {})
    assert objected(attacher_detaches.let_go, answer, 0, asked, held) == wrong


@pytest.mark.parametrize(("timer", "wrong"), [(None, True), (30.0, False), (31.0, True), (0.0, False)])
def test_what_is_not_looked_at_again_in_time_is_objected_to(timer: float | None, wrong: bool):
    async def found() -> bool:
        asked: Any = Attacher(HELD)
        attacher_detaches.WAITS.of(asked)["uid"] = 30.0
        if timer is not None:
            asked.queue.add_after("va", timer)
        return [*attacher_detaches.waits(None, asked, HELD)] != []

    assert run_in_virtual_time(found()) == wrong


@pytest.mark.parametrize(
    ("leads", "since", "fresh", "requested", "wrong"),
    [
        (True, 5, False, 1, False),
        (True, 0, False, 1, True),
        (True, 5, True, 1, True),
        (True, 5, False, 0, True),
        (False, 0, False, 0, False),
        (False, 5, False, 1, True),
    ],
)
def test_deletions_that_are_not_known_under_a_lease_are_objected_to(
    leads: bool, since: int, fresh: bool, requested: int, wrong: bool
):
    client = Api(leads=leads)
    memory = Parts(
        _client=client,
        _since=since,
        _not_fresh=set[str]() if fresh else {"uid"},
        _unanswered={"uid": [0.0] * requested},
    )
    listing = Parts(items=(HELD, record(uid="else")), resource_version="5")
    api_words.listed(listing, client, VolumeAttachment)  # type: ignore[arg-type]
    assert objected(attacher_detaches.in_flight, None, 0, memory) == wrong
    assert objected(attacher_detaches.in_flight, None, 4, memory) == (since != 4), "it is read once"


# --- verification

TO_VERIFY = record(attached=True)


@pytest.mark.parametrize(
    ("cached", "about", "failed", "wrong"),
    [
        (TO_VERIFY, [TO_VERIFY], False, False),
        (TO_VERIFY, [], False, True),
        (TO_VERIFY, [], True, False),
        (record(attached=True, ends=True), [], False, False),
        (None, [], False, False),
        (TO_VERIFY, [TO_VERIFY, record(uid="else")], False, True),
    ],
)
def test_a_verification_that_leaves_out_what_is_attached_is_objected_to(
    cached: VolumeAttachment | None, about: list[VolumeAttachment], failed: bool, wrong: bool
):
    cache = Parts(items=lambda: [TO_VERIFY])
    asked: Any = Parts(_records=cache, _ours={ATTACHER: OURS}, _definitions=Parts())
    before = attacher_verifying.begins(asked)
    cache.items = lambda: [cached] if cached is not None else []  # type: ignore[attr-defined]
    if failed:
        attacher_verifying.looked_up(VolumeError("no"), asked._definitions, TO_VERIFY)
    answer: Any = {"csi": [(each, None) for each in about]}
    assert objected(attacher_verifying.recorded, answer, before, asked) == wrong


# --- definitions


def test_how_long_a_request_counts_is_known_of_each_driver():
    asked: Any = Parts()
    of_driver = record(attacher="csi.example.com")
    assert objected(attacher_detaches.counts_for, 600.0, asked, of_driver)
    assert not objected(attacher_detaches.counts_for, 600.0, asked, HELD)


@pytest.mark.parametrize(
    ("cached", "held", "live", "read", "wrong"),
    [
        (False, HELD, False, True, False),
        (False, HELD, False, False, True),
        (True, HELD, False, False, False),
        (True, HELD, True, False, True),
        (True, record(epoch="3"), False, False, True),
        (True, record(pv="other"), False, True, True),
    ],
)
def test_a_definition_that_is_not_the_volumes_or_may_be_old_is_objected_to(
    cached: bool, held: VolumeAttachment, live: bool, read: bool, wrong: bool
):
    async def found() -> bool:
        asked: Any = Parts(_client=Api(), _cache={} if cached else None)
        begun = attacher_definitions.lookup_begins(asked, held)
        if read:
            assert [*note("get", PersistentVolume, ("", "pv"), volume(), {})] == []
        spec = VolumeSpec.of_persistent_volume(volume())
        return [*attacher_definitions.defined(spec, begun, asked, held, live=live)] != []

    assert run_in_virtual_time(found()) == wrong


def test_a_definition_in_the_place_of_ones_own_is_objected_to():
    own = replace(HELD, spec=replace(HELD.spec, source=VolumeAttachmentSource(inline_volume_spec={})))
    spec = VolumeSpec.of_persistent_volume(volume())
    nothing: Any = None
    assert objected(attacher_definitions.defined, spec, nothing, Parts(_cache=None), own)


@pytest.mark.parametrize(
    ("name", "held", "looks", "wrong"),
    [
        ("disk", record(volume="disk", attaches="a"), 0, False),
        ("disk", record(volume="disk", attaches="a"), 1, True),
        ("else", record(volume="disk", attaches="a"), 0, True),
        ("disk", record(volume="disk"), 1, False),
        ("", record(), 1, True),
        ("disk", record(volume="disk"), 0, True),
    ],
)
def test_a_detach_of_another_volume_or_after_a_needless_look_is_objected_to(
    name: str, held: VolumeAttachment, looks: int, wrong: bool
):
    async def found() -> bool:
        asked: Any = Parts()
        for _ in range(looks):
            attacher_definitions.lookup_begins(asked, held)
        return [*attacher_definitions.to_detach((name, None), 0, asked, held)] != []

    assert run_in_virtual_time(found()) == wrong


def test_what_a_driver_needs_to_detach_is_noted():
    of_driver: Any = record(attacher="csi.example.com")
    found = [
        objected(attacher_definitions.noted, notes, Parts(), each)
        for each in (of_driver, HELD)
        for notes in ({}, {VOLUME_NAME: "disk"})
    ]
    assert found == [True, False, False, True]
