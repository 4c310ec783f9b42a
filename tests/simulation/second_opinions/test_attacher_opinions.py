"""The second opinion about the attacher: none about production's answers, one about each wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.attacher import requests
from mooring.controllers.attacher.decide import Action, decide
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.verification import correction, is_verified
from mooring.kube.decision import Decision
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.kube.objects.storage import VolumeError
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions import (
    SecondOpinions,
    attacher_requests,
    attacher_steps,
)
from mooring.simulation.engine.trace import Trace
from mooring.volumes.errors import LockNotHeld, NotAsked, StorageRefused
from mooring.volumes.names import ATTACH_EPOCH, ATTACH_REQUESTED_AT, DETACHING

ATTACHER, FINALIZER = "plugins.mooring.dev", "mooring.dev/attacher"
NOW = datetime(2030, 1, 1, 0, 10, tzinfo=UTC)


def ago(seconds: float) -> str:
    return requests.format_micro_time(NOW - timedelta(seconds=seconds))


def record(
    *,
    attacher: str = ATTACHER,
    noted: bool = True,
    attaches: str = "2030-01-01T00:00:00Z",
    attached: bool = False,
    ends: bool = False,
    failed: bool = False,
    marked: bool = False,
    told: dict[str, str] | None = None,
    version: int = 5,
) -> VolumeAttachment:
    annotations = {ATTACH_REQUESTED_AT: attaches} if attaches else {}
    return VolumeAttachment(
        metadata=ObjectMeta(
            name="va",
            uid="uid",
            resource_version=str(version),
            finalizers=("other/finalizer", FINALIZER) if noted else ("other/finalizer",),
            annotations=annotations | ({DETACHING: "t"} if marked else {}),
            deletion_timestamp="t" if ends else None,
        ),
        spec=VolumeAttachmentSpec(attacher=attacher, node_name="n0"),
        status=VolumeAttachmentStatus(
            attached=attached,
            attach_error=VolumeError(message="no slot") if failed else None,
            attachment_metadata=told or {},
        ),
    )


yes_or_no = st.booleans()
records = st.builds(
    record,
    attacher=st.sampled_from([ATTACHER, ATTACHER, "ebs.csi.aws.com"]),
    noted=yes_or_no,
    attaches=st.sampled_from(["", "t"]),
    attached=yes_or_no,
    ends=yes_or_no,
    failed=yes_or_no,
    marked=yes_or_no,
    told=st.sampled_from([{}, {"devicePath": "/dev/a"}, {"devicePath": "/dev/b", "x": "y"}]),
)
said = st.sampled_from([True, False, {}, {"devicePath": "/dev/a"}, {"devicePath": "/dev/c"}])


@given(records, yes_or_no)
def test_production_takes_the_next_step_as_the_rules_say(given_: VolumeAttachment, stored: bool):
    assert [*attacher_steps.step(decide(given_, stored=stored), given_, stored=stored)] == []


@given(records, said)
def test_production_corrects_what_is_recorded_as_the_rules_say(
    given_: VolumeAttachment, told: bool | dict[str, str]
):
    ours = {ATTACHER}
    assert [*attacher_steps.verified(is_verified(given_, ours), given_, ours)] == []
    assert [*attacher_steps.corrected(correction(given_, told), given_, told)] == []


times = st.lists(st.sampled_from([ago(60), ago(1), ago(0), ago(-30)]), max_size=3, unique=True)
moments = st.lists(st.sampled_from([-700.0, -60.0, -59.0, -1.0, 0.0]), max_size=3)


@given(times, moments, st.sampled_from([0.0, 60.0, 600.0]), yes_or_no)
def test_production_knows_which_requests_are_outstanding_as_the_rules_say(
    sent: list[str], since: list[float], validity_s: float, attached: bool
):
    held = record(attached=attached)

    def ask() -> None:
        requests.begun(sent, NOW)
        requests.unanswered(sent, held)
        requests.outstanding_for(since, 0.0, validity_s)
        requests.without(sent, ago(60))

    assert heard(ask) == []


def heard(done: Callable[[], Any]) -> list[str]:
    """What is objected to meanwhile."""
    found, opinions = list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    with opinions.heard((*attacher_requests.QUESTIONS, *attacher_steps.QUESTIONS)):
        done()
    return found


# --- each wrong answer is objected to


@pytest.mark.parametrize(
    ("given_", "stored", "due"),
    [
        (record(attacher="ebs.csi.aws.com"), True, Action.IGNORE),
        (record(noted=False, ends=True), True, Action.IGNORE),
        (record(ends=True), False, Action.DETACH),
        (record(attached=True, failed=True), False, Action.FORGET_ERROR),
        (record(attached=True), False, Action.SETTLED),
        (record(), True, Action.ATTACH),
        (record(), False, Action.STORE_INTENT),
        (record(noted=False), True, Action.STORE_INTENT),
        (record(attaches=""), True, Action.STORE_INTENT),
    ],
)
@pytest.mark.parametrize("taken", [*Action])
def test_another_step_is_objected_to(given_: VolumeAttachment, stored: bool, due: Action, taken: Action):
    right = decide(given_, stored=stored)
    answer = Decision(taken, right.reason)
    assert right.action is due
    assert ([*attacher_steps.step(answer, given_, stored=stored)] == []) == (taken is due)
    assert [*attacher_steps.step(Decision(due, Reason("Else", "")), given_, stored=stored)]


@pytest.mark.parametrize(
    "answer",
    [
        ("uid", False, ("other/finalizer", FINALIZER), False, False, None),
        ("uid", True, ("other/finalizer", FINALIZER), True, False, None),
        ("uid", True, (), False, False, None),
        (True, ("other/finalizer", FINALIZER), False, False, None),
        ("uid", True, ("other/finalizer", FINALIZER), False, False),
    ],
)
def test_a_change_that_would_go_unnoticed_is_objected_to(answer: tuple[object, ...]):
    assert [*attacher_steps.what_matters(answer, record(ends=True))]


def locked(epoch: int, phase: str = "Bound", policy: str = "Delete") -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name="pv", annotations={"mooring.dev/attached-to": f'{{"epoch":{epoch}}}'}),
        spec=PersistentVolumeSpec(persistent_volume_reclaim_policy=policy),
        status=PersistentVolumeStatus(phase=phase),
    )


def test_an_attach_under_another_epoch_is_objected_to():
    held = VolumeAttachment(metadata=ObjectMeta(name="va", annotations={ATTACH_EPOCH: "3"}))
    assert [*attacher_steps.lock_checked(None, held, locked(4))]
    assert [*attacher_steps.lock_checked(LockNotHeld("no"), held, locked(3))]
    assert not [*attacher_steps.lock_checked(None, held, locked(3))]


@pytest.mark.parametrize("phase", ["Released", "Failed", "Bound"])
@pytest.mark.parametrize("policy", ["Delete", "Recycle", "Retain"])
def test_an_attach_of_what_is_to_be_deleted_is_objected_to(phase: str, policy: str):
    marked = phase != "Bound" and policy != "Retain"
    answers = (None, NotAsked("no"))
    wrong = [[*attacher_steps.reclaim_checked(each, record(), locked(3, phase, policy))] for each in answers]
    assert [each != [] for each in wrong] == [marked, not marked]


@pytest.mark.parametrize(
    ("answer", "given_"),
    [
        (True, record()),
        (True, record(attached=True, ends=True)),
        (True, record(attached=True, marked=True)),
        (True, record(attached=True, attacher="ebs.csi.aws.com")),
        (False, record(attached=True)),
    ],
)
def test_a_verification_of_others_than_those_that_are_attached_is_objected_to(
    answer: bool, given_: VolumeAttachment
):
    assert [*attacher_steps.verified(answer, given_, {ATTACHER})]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, False),
        ({"attached": False}, True),
        ({"attachmentMetadata": {"devicePath": "/dev/a"}}, True),
        ({}, {"devicePath": "/dev/b"}),
        ({"attachmentMetadata": {"devicePath": "/dev/b"}}, {"devicePath": "/dev/b", "x": "y"}),
        ({"attachmentMetadata": {"x": "y"}}, {"x": "y"}),
    ],
)
def test_another_correction_is_objected_to(answer: dict[str, Any], told: bool | dict[str, str]):
    assert [*attacher_steps.corrected(answer, record(told={"devicePath": "/dev/a"}), told)]


def slots(limit: int) -> Slots:
    return Slots({"d": limit}, lambda key: None)


def test_slots_are_given_as_the_rules_say():
    found = slots(1)
    assert (
        heard(lambda: [found.take("d", "a"), found.take("d", "b"), found.free("d"), found.take("d", "b")])
        == []
    )


def test_a_slot_beyond_the_limit_and_a_key_that_is_not_woken_are_objected_to():
    found = slots(1)
    found.take("d", "a")
    found.take("d", "b")
    assert [*attacher_steps.slot_taken(True, 1, found, "d", "b")]
    assert [*attacher_steps.slot_taken(False, 0, found, "d", "b")]
    assert [*attacher_steps.slot_taken(False, 1, found, "d", "c")]
    assert [*attacher_steps.slot_freed(None, 1, found, "d")]


@pytest.mark.parametrize(
    ("opinion", "answer", "asked"),
    [
        (attacher_requests.unanswered, [ago(30)], ([ago(30)], record(attached=True))),
        (attacher_requests.unanswered, [], ([ago(30)], record())),
        (attacher_requests.begun, ago(0), ([ago(30)], NOW)),
        (attacher_requests.begun, f"{ago(60)},{ago(30)}", ([ago(60)], NOW)),
        (attacher_requests.begun, f"{ago(0)},{ago(0)}", ([ago(0)], NOW)),
        (attacher_requests.begun, ago(30), ([ago(30)], NOW)),
        (attacher_requests.outstanding, 0.0, ([-30.0], 0.0, 60.0)),
        (attacher_requests.outstanding, 10.0, ([-30.0, -50.0], 0.0, 60.0)),
        (attacher_requests.outstanding, 1.0, ([-60.0], 0.0, 60.0)),
        (attacher_requests.one_answered, None, ([ago(30), ago(30)], ago(30))),
        (attacher_requests.one_answered, ago(30), ([ago(30)], ago(30))),
    ],
)
def test_requests_that_are_forgotten_or_kept_too_long_are_objected_to(
    opinion: Callable[..., Any], answer: Any, asked: tuple[Any, ...]
):
    assert [*opinion(answer, *asked)]


async def test_since_when_requests_are_known_is_judged():
    ages, two = RequestAges(), record(attaches="a,b")
    vars(asyncio.get_running_loop())["time"] = lambda: 100.0
    ages.note(record(attaches="a"))
    assert not [*attacher_requests.seen(None, {}, ages, record(attaches="a"))]
    assert [*attacher_requests.seen(None, {"a": 50.0}, ages, record(attaches="a"))], "it was known before"
    assert [*attacher_requests.seen(None, {}, ages, two)], "one is not known"
    assert [*attacher_requests.seen(None, {}, ages, record(attaches=""))], "one is over"
    assert not [*attacher_requests.valid(["a", "b"], ages, two, ["a", "b"], 60.0)]
    assert [*attacher_requests.valid(["a"], ages, two, ["a", "b"], 60.0)]
    assert [*attacher_requests.valid(["a"], ages, two, ["a"], 0.0)]


async def test_since_when_a_request_is_sent_is_judged():
    ages, two = RequestAges(), record(attaches="a,b")
    vars(asyncio.get_running_loop())["time"] = lambda: 100.0
    ages.note(two)
    before = {"a": 50.0, "b": 60.0}
    vars(ages)["_since"]["uid"] = {"a": 50.0, "b": 100.0}
    assert not [*attacher_requests.sent(None, before, ages, two, ATTACH_REQUESTED_AT)]
    vars(ages)["_since"]["uid"] = before
    assert [*attacher_requests.sent(None, before, ages, two, ATTACH_REQUESTED_AT)], (
        "from when it was intended"
    )
    vars(ages)["_since"]["uid"] = {"a": 100.0, "b": 100.0}
    assert [*attacher_requests.sent(None, before, ages, two, ATTACH_REQUESTED_AT)], (
        "an earlier one got younger"
    )


async def test_since_when_attaches_are_known_that_were_not_answered_is_judged():
    ages = RequestAges()
    vars(asyncio.get_running_loop())["time"] = lambda: 100.0
    vars(ages)["_since"]["uid"] = {"a": 50.0}
    asked: Any = SimpleNamespace(_ages=ages)
    for answer, attached in (([50.0, 100.0], False), ([50.0], True)):
        held = record(attaches="a,b", attached=attached)
        assert not [*attacher_requests.attaches_since(answer, asked, held)]
        assert [*attacher_requests.attaches_since([100.0] * len(answer), asked, held)]


# --- under a Lease


class Api:
    """A client that holds the Lease."""

    def __init__(self, *listed: VolumeAttachment) -> None:
        self.leads = lambda: True
        self._listed = listed

    async def list(self, kind: object) -> Any:
        class Listing:
            items, resource_version = self._listed, "5"

        return Listing


def under_a_lease(*listed: VolumeAttachment) -> RememberedDetaches:
    memory = RememberedDetaches(Api(*listed))  # type: ignore[arg-type]
    asyncio.run(memory.begin())
    return memory


def test_production_remembers_as_the_rules_say():
    memory = under_a_lease()

    async def ask() -> None:
        vars(asyncio.get_running_loop())["time"] = lambda: 100.0  # it stands still, as a run's does
        memory.is_fresh(record(version=6))
        memory.add(record(), 60.0)
        memory.unanswered(record(), NOW)
        memory.answered(record())
        memory.stored(record())
        memory.released(record())

    assert heard(lambda: asyncio.run(ask())) == []


@pytest.mark.parametrize(("version", "released"), [(5, False), (6, True)])
def test_a_deletion_that_is_not_fresh_is_objected_to(version: int, released: bool):
    memory = under_a_lease()
    if released:
        memory.released(record())
    assert [*attacher_requests.is_fresh(True, memory, record(version=version))]
    assert not [*attacher_requests.is_fresh(False, memory, record(version=version))]


def test_one_that_is_fresh_and_is_not_taken_for_it_is_objected_to():
    assert [*attacher_requests.is_fresh(False, under_a_lease(), record(version=6))]


def test_without_a_lease_no_deletion_is_fresh():
    memory = under_a_lease()
    vars(memory)["_client"].leads = None
    assert [*attacher_requests.is_fresh(True, memory, record(version=6))]


def test_requests_that_are_not_remembered_are_objected_to():
    memory = under_a_lease()

    async def found() -> list[list[str]]:
        return [
            [*attacher_requests.remembered(None, [], memory, record(), 60.0)],
            [*attacher_requests.answered(None, [1.0, 2.0], memory, record())],
            [*attacher_requests.ages_remembered([ago(3)], memory, record(), NOW)],
        ]

    assert all(asyncio.run(found()))


def test_requests_that_are_remembered_too_long_are_objected_to():
    memory = under_a_lease(record(ends=True))
    assert [*attacher_requests.all_stored(None, memory, record())]
    assert [*attacher_requests.answered(None, [0.0], memory, record())]


class Asking:
    """As `Detaching`, as far as the opinion looks."""

    def __init__(self, memory: RememberedDetaches) -> None:
        self._remembered = memory
        self._now = lambda: NOW


def test_requests_that_are_stored_and_still_remembered_are_objected_to():
    asked: Any = Asking(under_a_lease(record(ends=True)))
    assert [*attacher_requests.noted(record(), asked, record(), {})]


@pytest.mark.parametrize("leads", [True, False])
def test_an_attacher_that_asks_without_its_lease_is_objected_to(leads: bool):
    client: Any = SimpleNamespace(leads=lambda: leads)
    memory = under_a_lease()

    async def asks() -> list[str]:
        before = [*attacher_requests.asks_while_it_leads(None, "disk", "volume_attach")]
        attacher_requests.begins(None, memory, client)
        return [*before, *attacher_requests.asks_while_it_leads(None, "disk", "volume_attach")]

    assert (asyncio.run(asks()) == []) == leads


@pytest.mark.parametrize(
    ("answer", "known", "objected"),
    [
        (TimeoutError(), attacher_requests.Known(True, 0, 0), True),
        (TimeoutError(), attacher_requests.Known(False, 0, 0), False),
        (record(), attacher_requests.Known(True, 0, 0), False),
        (record(), attacher_requests.Known(False, 0, 0), True),
        (StorageRefused("no"), attacher_requests.Known(True, 0, -1), True),
    ],
)
def test_a_detach_that_is_not_known_of_or_for_ever_is_objected_to(
    answer: Any, known: attacher_requests.Known, objected: bool
):
    asked = Asking(under_a_lease())
    found = [*attacher_requests.detach_asked(answer, known, asked, None, record(), [], 60.0)]  # type: ignore[arg-type]
    assert (found != []) == objected


@pytest.mark.parametrize(("known_for_s", "objects"), [(59.0, True), (61.0, False)])
def test_a_request_is_forgotten_when_it_is_known_for_as_long_as_it_counts(known_for_s: float, objects: bool):
    """Whatever clock has stamped it: here one that was an hour ahead."""

    def as_of(*times: str) -> VolumeAttachment:
        annotations = {ATTACH_REQUESTED_AT: ",".join(times)}
        metadata = ObjectMeta(name="va", finalizers=("ours",), annotations=annotations)
        return VolumeAttachment(metadata=metadata, spec=VolumeAttachmentSpec(attacher="d"))

    plugin = SimpleNamespace(capabilities=lambda spec: SimpleNamespace(request_validity_s=60.0))
    plugins = SimpleNamespace(find_attachable_plugin_by_name=lambda name: plugin)
    asked: Any = SimpleNamespace(_ours={"d": "ours"}, _plugins=plugins)
    before, after = as_of("2030-01-01T01:00:00.000000Z"), as_of("2030-01-01T00:10:00.000000Z")

    async def judged() -> list[str]:
        since = asyncio.get_running_loop().time() - known_for_s
        known = {"2030-01-01T01:00:00.000000Z": since}
        return [*attacher_steps.intended(after, known, asked, before)]

    assert bool(asyncio.run(judged())) == objects
