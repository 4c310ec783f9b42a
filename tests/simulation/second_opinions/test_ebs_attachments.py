"""Second opinions about attaching and detaching."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service import attaching
from mooring.ebs.controller_service.attachment_steps import Step
from mooring.ebs.controller_service.detaches import SLOW_S, Detach, PendingDetaches
from mooring.ebs.controller_service.device_names import DeviceNames
from mooring.ebs.ec2.records import Attachment, BlockDevice, Instance, Volume
from mooring.ebs.errors import Ec2Error
from mooring.simulation.checks.second_opinions import ebs_attachments, ebs_device_names
from mooring.simulation.checks.second_opinions.ebs_attachments import (
    of_a_due_request,
    of_a_request,
    of_a_slow_one,
    of_a_try,
    of_an_attach,
    of_an_instance,
    of_detaching,
    of_how_long,
    of_one_in_flight,
    of_the_next_step,
    of_what_is_done,
    of_what_is_shown,
)

NODES = ("i-1", "i-2")
STATES = ("attaching", "attached", "detaching", "busy")
DEVICES = ("/dev/xvdaa", "/dev/sdaa", "/dev/xvdab", "")
attachments = st.builds(Attachment, st.sampled_from(NODES), st.sampled_from(DEVICES), st.sampled_from(STATES))
volumes = st.builds(
    Volume,
    id=st.just("vol-1"),
    state=st.sampled_from(["creating", "available", "in-use", "deleting", "error"]),
    size=st.just(1),
    type=st.just("io2"),
    zone=st.just("us-east-1a"),
    attachments=st.lists(attachments, unique_by=lambda one: one.instance_id).map(tuple),
    multi_attach=st.booleans(),
)
NOBODY: Any = None
NAMES = DeviceNames(lambda: 0.0)
ATTACHER: Any = SimpleNamespace(
    _names=NAMES,
    _detaches=SimpleNamespace(_pending=[Detach("vol-1", "i-1", 0.0, state) for state in STATES]),
)


def volume(*attachments: Attachment, state: str = "in-use", **more: Any) -> Volume:
    return Volume("vol-1", state, 1, "gp3", "us-east-1a", attachments, **more)


def here(state: str, device: str = "/dev/xvdaa") -> Attachment:
    return Attachment("i-1", device, state)


@given(volumes, st.sampled_from(DEVICES), st.booleans(), st.sampled_from([0.0, 90.0, 91.0]), st.booleans())
def test_the_next_step_and_what_is_shown_are_not_objected_to(
    one: Volume, mine: str, proven: bool, attaching_s: float, stays: bool
) -> None:
    with objections(ebs_attachments.QUESTIONS) as found:
        attaching.shown(one, "i-1")
        try:
            attaching.next_step(one, "i-1", mine, proven, attaching_s, stays)
        except CsiError as error:
            assert error.code is Code.FAILED_PRECONDITION
    assert found == []


@given(volumes, st.sampled_from(DEVICES), st.booleans(), st.sampled_from([0.0, 90.0, 91.0]), st.booleans())
def test_every_step_but_one_is_objected_to(
    one: Volume, mine: str, proven: bool, attaching_s: float, stays: bool
) -> None:
    answers: list[Any] = [*Step, CsiError(Code.FAILED_PRECONDITION, ""), CsiError(Code.INTERNAL, "")]
    asked = one, "i-1", mine, proven, attaching_s, stays
    assert sum(not [*of_the_next_step(each, *asked)] for each in answers) == 1


ELSEWHERE = Attachment("i-2", "/dev/xvdaa", "attached")


@pytest.mark.parametrize(
    ("wrong", "one", "mine", "proven", "attaching_s", "stays"),
    [
        (Step.DONE, volume(here("attached")), "", False, 0, True),
        (Step.DONE, volume(here("attached")), "/dev/xvdab", False, 0, True),
        (Step.DONE, volume(here("attached")), "/dev/xvdaa", False, 0, False),
        (Step.WAIT, volume(here("attached")), "/dev/sdaa", False, 0, True),
        (Step.WAIT, volume(here("attached")), "", True, 0, False),
        (Step.WAIT, volume(here("attaching")), "", True, 90.5, True),
        (Step.GIVE_UP, volume(here("attaching")), "", True, 90, True),
        (Step.GIVE_UP, volume(here("busy")), "", True, 91, True),
        (Step.ATTACH, volume(here("detaching")), "", True, 0, True),
        (Step.ATTACH, volume(ELSEWHERE), "", True, 0, True),
        (Step.WAIT, volume(ELSEWHERE, multi_attach=True), "", True, 0, True),
        (CsiError(Code.FAILED_PRECONDITION, ""), volume(ELSEWHERE), "", False, 0, True),
        (Step.ATTACH, volume(state="available"), "/dev/xvdaa", False, 0, True),
        (Step.WAIT, volume(state="available"), "/dev/xvdaa", True, 0, True),
        (Step.WAIT, volume(state="available"), "", False, 0, True),
        (Step.ATTACH, volume(state="creating"), "", True, 0, True),
        (Step.WAIT, volume(state="deleting"), "", True, 0, True),
    ],
)
def test_a_wrong_step_is_objected_to(
    wrong: Any, one: Volume, mine: str, proven: bool, attaching_s: float, stays: bool
) -> None:
    assert [*of_the_next_step(wrong, one, "i-1", mine, proven, attaching_s, stays)]


@pytest.mark.parametrize(
    ("words", "one"),
    [
        ("EC2 shows it as attached on i-1", volume(here("attached"))),
        ("EC2 shows it as attached on i-1 as /dev/xvdaa; open or mounted", volume(here("attached"))),
        ("EC2 shows it as busy on i-1 as /dev/xvdaa", volume(here("busy"))),
        ("EC2 shows it as /dev/xvdaa on i-1", volume(here("attaching"))),
        ("EC2 shows it as available", volume(state="creating")),
    ],
)
def test_words_that_do_not_say_what_is_shown_are_objected_to(words: str, one: Volume) -> None:
    assert [*of_what_is_shown(words, one, "i-1")]


@pytest.mark.parametrize(
    ("answer", "one", "device", "right"),
    [
        (0.0, volume(here("attached")), "", True),
        (2.0, volume(here("attached")), "", False),
        (2.0, volume(here("attaching")), "/dev/xvdaa", True),
        (9.0, volume(here("attaching")), "", True),
        (9.0, volume(here("attaching")), "/dev/xvdaa", False),
        (1.0, volume(here("attaching")), "", False),
    ],
)
def test_attaching_is_timed_from_when_it_was_seen(
    monkeypatch: Any, answer: float, one: Volume, device: str, right: bool
) -> None:
    work = attaching._Attaching(False, device=device)
    monkeypatch.setattr(ebs_attachments, "now", lambda: 8.0)
    assert not [*of_how_long(0.0, NOBODY, volume(here("attaching")), "i-1", work)]
    monkeypatch.setattr(ebs_attachments, "now", lambda: 10.0)
    assert (not [*of_how_long(answer, NOBODY, one, "i-1", work)]) is right


@pytest.fixture
def changed(monkeypatch: Any) -> None:
    """The last DetachVolume was at 10 s; it is 20 s."""
    known = ebs_attachments.Changes(settle_s=5.0, noted={"detach vol-1": 10.0})
    monkeypatch.setattr(ebs_attachments, "CHANGES", SimpleNamespace(of_this_process=lambda: known))
    monkeypatch.setattr(ebs_attachments, "now", lambda: 20.0)


@pytest.mark.parametrize(
    ("state", "is_requested", "requested_at", "due"),
    [
        ("", False, 20.0, True),
        ("attached", False, 11.0, True),
        ("detaching", False, 20.0, False),
        ("busy", True, 20.0, False),
        ("", True, 20.0, False),
        ("attached", True, 15.0, True),
        ("attaching", True, 15.0, True),
        ("attached", True, 14.0, False),
    ],
)
def test_a_detach_is_sent_when_it_is_due_and_not_otherwise(
    changed: None, state: str, is_requested: bool, requested_at: float, due: bool
) -> None:
    asked = ATTACHER, "vol-1", here(state) if state else None, is_requested, requested_at
    assert ([*of_a_due_request(due, *asked)], bool([*of_a_due_request(not due, *asked)])) == ([], True)


def test_the_end_of_a_detach_that_is_not_noted_is_objected_to(changed: None) -> None:
    assert [*of_detaching(None, NOBODY, "vol-1", "i-1")]
    assert not [*of_detaching(None, NOBODY, "vol-1", "no instance")]


@given(st.lists(st.sampled_from([0.0, SLOW_S, 1.0, 100.0]), max_size=4))
def test_how_long_a_detach_takes_is_not_objected_to(pauses: list[float]) -> None:
    at, detach = 5.0, Detach("vol-1", "i-1", 5.0)
    with objections(ebs_attachments.QUESTIONS) as found:
        for pause in pauses:
            at += pause
            detach.saw("detaching", "/dev/xvdaa", at)
    assert found == []


def test_a_slow_detach_that_is_not_told_and_a_quick_one_that_is_are_objected_to() -> None:
    detach = Detach("vol-1", "i-1", 0.0, "busy")
    assert [*of_a_slow_one(None, detach, "busy", "", SLOW_S + 1)]
    assert [*of_a_slow_one(None, detach, "detaching", "", 1.0)]
    assert not [*of_a_slow_one(None, detach, "busy", "", SLOW_S)]
    detach.saw("busy", "", SLOW_S + 1)
    assert [*of_a_slow_one(None, detach, "busy", "", SLOW_S)]


INSTANCE = Instance("i-1", "running", "m5.large", (BlockDevice("/dev/xvda"),))
RIGHT = {"VolumeId": "vol-1", "InstanceId": "i-1", "Device": "/dev/xvdaa"}


@pytest.mark.parametrize(
    ("request_", "cards", "right"),
    [
        (RIGHT, 1, True),
        (RIGHT | {"EbsCardIndex": 1}, 2, True),
        (RIGHT | {"VolumeId": "vol-2"}, 1, False),
        (RIGHT | {"InstanceId": "i-2"}, 1, False),
        (RIGHT, 2, False),
        (RIGHT | {"EbsCardIndex": 0}, 1, False),
        (RIGHT | {"EbsCardIndex": 2}, 2, False),
    ],
)
def test_a_request_names_the_volume_the_instance_and_one_of_several_cards(
    request_: dict[str, Any], cards: int, right: bool
) -> None:
    assert (not [*of_a_request(request_, NOBODY, volume(), INSTANCE, cards)]) is right


@pytest.mark.parametrize(
    ("answer", "before", "after", "right"),
    [
        (None, 0, 1, True),
        (Ec2Error("VolumeInUse", ""), 4, 5, True),
        (CsiError(Code.FAILED_PRECONDITION, ""), 5, 5, True),
        (None, 1, 1, False),
        (None, 5, 5, False),
        (None, 5, 6, False),
    ],
)
def test_an_attach_asks_five_times(answer: Any, before: int, after: int, right: bool) -> None:
    asked = NOBODY, volume(), "i-1", SimpleNamespace(tries=after)
    assert (not [*of_a_try(answer, before, *asked)]) is right


def test_a_detach_that_has_ended_and_counts_as_in_flight_is_objected_to(run: Any) -> None:
    async def story() -> None:
        detaches = PendingDetaches()
        with detaches.waiting("vol-1", "i-1"), detaches.waiting("vol-1", "i-2"):
            assert [*of_one_in_flight(None, detaches, "vol-1", "i-1")]
        with objections(ebs_attachments.QUESTIONS) as found, detaches.waiting("vol-1", "i-1"):
            assert found == []

    run(story())


def test_another_device_than_is_shown_is_objected_to() -> None:
    assert not [*of_what_is_done("/dev/xvdaa", ATTACHER, volume(here("attached")), "i-1")]
    assert [*of_what_is_done("/dev/xvdab", ATTACHER, volume(here("attached")), "i-1")]
    assert [*of_what_is_done("", ATTACHER, volume(here("attached", "")), "i-1")]


def test_a_name_that_works_and_counts_as_refused_or_is_kept_for_nothing_is_objected_to() -> None:
    with objections(ebs_device_names.QUESTIONS):
        NAMES.refused("i-3", "/dev/xvdaa", 0.0)
        NAMES.give("i-3", "vol-1", (), 0.0)
    one = volume(Attachment("i-3", "/dev/xvdaa", "attached"))
    assert [*of_what_is_done("/dev/xvdaa", ATTACHER, one, "i-3")]
    assert [*of_an_attach("", ATTACHER, "vol-1", "i-3")]
    with objections(ebs_device_names.QUESTIONS):
        NAMES.worked("i-3", "/dev/xvdaa", 0.0)
        NAMES.end("i-3", "vol-1", 0.0)
    assert not [*of_what_is_done("/dev/xvdaa", ATTACHER, one, "i-3")]
    assert not [*of_an_attach("", ATTACHER, "vol-1", "i-3")]


def test_a_state_that_is_shown_and_not_told_of_the_detach_is_objected_to(changed: None) -> None:
    quiet: Any = SimpleNamespace(_detaches=SimpleNamespace(_pending=[Detach("vol-1", "i-1", 0.0)]))
    assert [*of_a_due_request(False, quiet, "vol-1", here("busy"), True, 20.0)]


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_an_instance_that_goes_or_another_one_is_objected_to(state: str) -> None:
    assert not [*of_an_instance(INSTANCE, NOBODY, "i-1")]
    assert [*of_an_instance(INSTANCE, NOBODY, "i-2")]
    assert [*of_an_instance(Instance("i-1", state, ""), NOBODY, "i-1")]
