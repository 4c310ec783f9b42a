"""Second opinions about what EC2's descriptions prove."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from opinions import objections

from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.simulation.checks.second_opinions import ebs_settling
from mooring.simulation.checks.second_opinions.ebs_settling import (
    before_waiting,
    of_a_change,
    of_a_look,
    of_a_proof,
    of_creating,
    of_none_existing,
    of_recency,
    of_waiting,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ATTACH = {"VolumeId": "vol-1", "InstanceId": "i-1", "Device": "/dev/xvdaa"}
ANY: Any = object()
CREATE = {"TagSpecifications": [{"Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}]}]}


def heard(run: Run, story: Callable[[Settling], Coroutine[Any, Any, Any]]) -> list[str]:
    """What is objected to in a story that begins long after the process."""

    async def whole() -> None:
        settling = Settling(5.0)
        await asyncio.sleep(100)
        await story(settling)

    with objections(ebs_settling.QUESTIONS) as found:
        run(whole())
    return found


def asked(action: str, answer: object, request: dict[str, Any] = ATTACH) -> list[str]:
    api: Any = None
    return [*of_a_change(answer, api, action, request)]


@pytest.mark.parametrize("ago", [0.0, 3.0, 4.75, 5.0, 7.0])
def test_what_is_proved_waited_for_and_recent_is_not_objected_to(run: Run, ago: float) -> None:
    async def story(settling: Settling) -> None:
        settling.note("attach vol-1")
        settling.note("detach vol-2")
        await asyncio.sleep(ago)
        settling.note("detach vol-2")
        for change in ("attach vol-1", "detach vol-2", "delete vol-3"):
            for requested_at in (4.0, 99.0, 100.0, 104.0, 105.0, 100.0 + ago):
                settling.proves(requested_at, change, "create pvc-1")
            settling.is_recent(change)
        await settling.settle("attach vol-1")
        await settling.settle()
        await settling.settle_all()
        await settling.settle_all()

    assert heard(run, story) == []


def test_a_description_that_is_too_young_is_no_proof_and_an_old_enough_one_is(run: Run) -> None:
    async def story(settling: Settling) -> None:
        settling.note("attach vol-1")
        await asyncio.sleep(20)
        assert [*of_a_proof(True, settling, 104.0, "attach vol-1")]
        assert [*of_a_proof(False, settling, 105.0, "attach vol-1")]
        assert [*of_a_proof(False, settling, 104.0, "attach vol-2")]
        assert [*of_a_proof(True, settling, 4.0, "attach vol-2")]

    assert heard(run, story) == []


def test_of_several_changes_the_last_one_counts(run: Run) -> None:
    async def story(settling: Settling) -> None:
        settling.note("attach vol-1")
        await asyncio.sleep(3)
        settling.note("detach vol-1")
        assert [*of_a_proof(True, settling, 106.0, "attach vol-1", "detach vol-1")]
        assert [*of_a_proof(True, settling, 106.0, "detach vol-1", "attach vol-1")]

    assert heard(run, story) == []


def test_what_is_recent_is_so_until_the_settle_time_is_over(run: Run) -> None:
    async def story(settling: Settling) -> None:
        settling.note("delete vol-1")
        await asyncio.sleep(4)
        assert [*of_recency(False, settling, "delete vol-1")]
        assert [*of_recency(True, settling, "delete vol-2")]
        await asyncio.sleep(1)
        assert [*of_recency(True, settling, "delete vol-1")]

    assert heard(run, story) == []


def test_a_wait_that_is_too_short_or_not_told_is_objected_to(run: Run) -> None:
    async def story(settling: Settling) -> None:
        settling.note("create pvc-1")
        before = before_waiting(settling, "create pvc-1")
        await asyncio.sleep(4)
        assert [*of_waiting(True, before, settling, "create pvc-1")]
        await asyncio.sleep(1)
        assert not [*of_waiting(True, before, settling, "create pvc-1")]
        assert [*of_waiting(False, before, settling, "create pvc-1")]

    assert heard(run, story) == []


@pytest.mark.parametrize(
    ("action", "answer", "request_", "forgotten"),
    [
        ("AttachVolume", {}, ATTACH, "attach vol-1"),
        ("AttachVolume", Ec2Error("VolumeInUse", ""), ATTACH, "attach vol-1"),
        ("DetachVolume", {}, ATTACH, "detach vol-1"),
        ("DetachVolume", Ec2Unreachable(""), ATTACH, "unanswered detach vol-1 i-1"),
        ("DeleteVolume", {}, ATTACH, "delete vol-1"),
        ("CreateVolume", Ec2Unreachable(""), CREATE, "create pvc-1"),
    ],
)
def test_what_was_asked_for_and_is_not_noted_is_objected_to(
    run: Run, action: str, answer: object, request_: dict[str, Any], forgotten: str
) -> None:
    async def story(settling: Settling) -> None:
        assert asked(action, answer, request_) == []
        settling.proves(100.0, forgotten)  # at the same moment it still may be
        if forgotten.startswith("unanswered"):
            settling.note("detach vol-1")
        await asyncio.sleep(1)
        settling.proves(100.0)

    said = f"{forgotten}: EC2 was asked for it, and it is not noted"
    assert heard(run, story) == [f"Settling.proves: {said}"]


@pytest.mark.parametrize(
    ("action", "answer"),
    [("DeleteVolume", Ec2Error("VolumeInUse", "")), ("DescribeVolumes", {}), ("AttachVolume", {})],
)
def test_what_changes_nothing_or_is_noted_is_not_objected_to(run: Run, action: str, answer: object) -> None:
    async def story(settling: Settling) -> None:
        asked(action, answer)
        settling.note("attach vol-1")
        await asyncio.sleep(1)
        settling.is_recent("attach vol-1")

    assert heard(run, story) == []


def test_that_there_is_no_volume_is_not_known_by_a_look_before_it_would_show(run: Run) -> None:
    wanted, provisioner, asker = SimpleNamespace(name="pvc-1"), ANY, ANY

    async def story(settling: Settling) -> None:
        settling.note("create pvc-1")
        of_a_look((), 104.0, asker, "pvc-1")
        await asyncio.sleep(5)
        assert [*of_none_existing(None, provisioner, wanted)]
        assert not [*of_none_existing(ANY, provisioner, wanted)]
        of_a_look((), 105.0, asker, "pvc-1")
        assert not [*of_none_existing(None, provisioner, wanted)]

    assert heard(run, story) == []


def test_a_volume_that_was_made_and_is_not_noted_is_objected_to(run: Run) -> None:
    volume: Any = SimpleNamespace(id="vol-1")
    provisioner: Any = None

    async def story(settling: Settling) -> None:
        assert [*of_creating(volume, provisioner, None)] == []
        asked("CreateVolume", {"VolumeId": "vol-1"}, CREATE)
        settling.note("create pvc-1")
        assert [*of_creating(volume, provisioner, None)]
        settling.note("make vol-1")
        assert [*of_creating(volume, provisioner, None)] == []

    assert heard(run, story) == []
