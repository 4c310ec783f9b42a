"""The attacher before an EC2 that shows and answers what a story says: what it asks for, when, and why it
gives up."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from played_ec2 import Answer, Looks, PlayedEc2

from mooring.csi.driver import progress
from mooring.csi.driver.progress import UnderWay, due_in
from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.attaching import Attacher
from mooring.ebs.controller_service.detaches import PendingDetaches
from mooring.ebs.controller_service.device_names import NAMES, DeviceNames
from mooring.ebs.ec2.records import Attachment, BlockDevice, Instance, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable

VOLUME, NODE = "vol-0123456789abcdef0", "i-0123456789abcdef0"
START = datetime(2030, 1, 1, tzinfo=UTC)
FIRST, SECOND = NAMES[:2]


def volume(state: str = "available", *attachments: Attachment, **more: Any) -> Volume:
    return Volume(VOLUME, state, 10, "gp3", "us-east-1a", attachments=attachments, **more)


def on(state: str, device: str = FIRST, since: datetime | None = None, node: str = NODE) -> Volume:
    return volume("in-use", Attachment(node, device, state, since))


def ec2_that(looks: Looks, **answers: list[Answer]) -> PlayedEc2:
    played = PlayedEc2(looks, **answers)
    played.there = Instance(NODE, "running", "m5.large", (), "/dev/xvda")
    return played


def attacher(ec2: PlayedEc2, names: DeviceNames | None = None) -> Attacher:
    played: Any = ec2
    names = names or DeviceNames(lambda: 0.0)
    return Attacher(played, played, names, Settling(), PendingDetaches())


async def refusal(call: Awaitable[object]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


@contextmanager
def under_way():
    """What the operation within says that it waits for."""
    operation = UnderWay("ControllerPublishVolume", None)
    token = progress.current.set(operation)
    try:
        yield operation
    finally:
        progress.current.reset(token)


def test_a_volume_is_asked_for_once_and_polled_ever_more_slowly_until_ec2_shows_it(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume() if at < 3 else on("attaching") if at < 30 else on("attached"))
        with under_way() as operation:
            assert await attacher(ec2).attach(VOLUME, NODE, False) == FIRST
        assert ec2.calls == [(0.0, "AttachVolume", {"VolumeId": VOLUME, "InstanceId": NODE, "Device": FIRST})]
        pauses = [round(after - before, 2) for before, after in itertools.pairwise(ec2.at)]
        assert pauses == sorted(pauses)
        assert 0 < pauses[0] < pauses[-1] <= 15
        assert operation.waits_for == f"EC2 shows it as attaching on {NODE} as {FIRST}"

    run(story())


@pytest.mark.parametrize("since_s", [-3600.0, 0.0, 3600.0, None])
def test_what_an_earlier_operation_has_begun_is_given_up_when_it_was_seen_for_ninety_seconds(
    run, since_s: float | None
) -> None:
    """By a clock that is ahead of EC2's each attach that takes longer than one call would be undone at once,
    for ever."""

    async def story() -> None:
        since = None if since_s is None else START + timedelta(seconds=since_s)
        ec2, names = ec2_that(lambda at: on("attaching", since=since)), DeviceNames(lambda: 0.0)
        asked = attacher(ec2, names)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asked.attach(VOLUME, NODE, False)
        error = await refusal(asked.attach(VOLUME, NODE, False))
        ((moment, action, request),) = ec2.calls
        assert (action, request) == ("DetachVolume", {"VolumeId": VOLUME, "InstanceId": NODE})
        assert 90 <= moment <= 105
        assert error.code is Code.INTERNAL
        assert f"volume {VOLUME} has been attaching to {NODE} as {FIRST} for more than 90 s" in error.message
        assert names.give(NODE, VOLUME, [], moment) not in (FIRST, None)

    run(story())


@pytest.mark.parametrize("detached", [False, True])
def test_another_attachment_has_ninety_seconds_of_its_own(run, detached: bool) -> None:
    async def story() -> None:
        later = START if detached else START + timedelta(seconds=60)
        ec2 = ec2_that(lambda at: on("attaching", since=START if at < 60 else later))
        asked = attacher(ec2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asked.attach(VOLUME, NODE, False)
        if detached:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asked.detach(VOLUME, NODE)
        await refusal(asked.attach(VOLUME, NODE, False))
        moment, action, _ = ec2.calls[-1]
        assert action == "DetachVolume"
        assert 150 <= moment <= 166

    run(story())


def test_what_was_asked_for_here_counts_from_when_ec2_shows_it_attaching_whatever_ec2s_clock_says(
    run,
) -> None:
    async def story() -> None:
        long_ago = START - timedelta(hours=1)
        ec2 = ec2_that(lambda at: volume() if at < 1 else on("attaching", since=long_ago))
        await refusal(attacher(ec2).attach(VOLUME, NODE, False))
        moment, action, _ = ec2.calls[-1]
        assert action == "DetachVolume"
        assert 90 < moment < 120

    run(story())


def test_what_ec2_detaches_first_counts_from_when_it_is_attaching(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(
            lambda at: on("detaching") if at < 60 else on("attaching") if at < 135 else on("attached")
        )
        assert await attacher(ec2).attach(VOLUME, NODE, False) == FIRST
        assert ec2.calls == []

    run(story())


def test_a_stuck_volume_is_not_told_as_being_detached_where_ec2_refused_that(run) -> None:
    async def story() -> None:
        refused = Ec2Error("UnauthorizedOperation", "no")
        ec2 = ec2_that(lambda at: on("attaching"), DetachVolume=[refused])
        with pytest.raises(Ec2Error, match="UnauthorizedOperation"):
            await attacher(ec2).attach(VOLUME, NODE, False)

    run(story())


def test_an_attach_that_ec2_has_taken_back_meanwhile_is_not_stuck(run) -> None:
    async def story() -> None:
        def looks(at: float) -> Volume:
            if 60 < at < 80:
                return volume()
            return on("attached", SECOND) if at > 165 else on("attaching", FIRST if at < 70 else SECOND)

        ec2 = ec2_that(looks)
        assert await attacher(ec2).attach(VOLUME, NODE, False) == SECOND
        assert [action for _, action, _ in ec2.calls] == ["AttachVolume"]

    run(story())


@pytest.mark.parametrize(
    "refused",
    [
        Ec2Error("IncorrectState", "vol is not 'available'.", "AttachVolume"),
        Ec2Error("VolumeInUse", "vol is already in use", "AttachVolume"),
    ],
    ids=lambda error: error.code,
)
def test_a_volume_that_ec2_refuses_by_its_state_is_tried_five_times_and_then_told(
    run, refused: Ec2Error
) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume(), AttachVolume=[refused])
        error = await refusal(attacher(ec2).attach(VOLUME, NODE, False))
        assert len(ec2.calls) == 5
        moments = [moment for moment, _, _ in ec2.calls]
        assert all(after - before >= 5 for before, after in itertools.pairwise(moments))
        assert error.code is Code.FAILED_PRECONDITION
        assert error.message == (
            f"EC2 does not attach volume {VOLUME} to {NODE}, though it shows it as available: {refused}"
        )

    run(story())


def test_what_is_told_of_a_volume_that_ec2_accepts_and_does_not_attach_names_no_former_refusal(run) -> None:
    async def story() -> None:
        refused = Ec2Error("VolumeInUse", "it is attached", "AttachVolume")
        ec2 = ec2_that(lambda at: volume(), AttachVolume=[refused, None])
        error = await refusal(attacher(ec2).attach(VOLUME, NODE, False))
        assert (
            error.message == f"EC2 does not attach volume {VOLUME} to {NODE}, though it shows it as available"
        )

    run(story())


def test_an_attach_without_an_answer_is_repeated_only_when_descriptions_prove_that_it_came_to_nothing(
    run,
) -> None:
    async def story() -> None:
        ec2 = ec2_that(
            lambda at: on("attached", ec2.names()[-1]) if len(ec2.calls) == 2 else volume(),
            AttachVolume=[Ec2Unreachable("no answer"), None],
        )
        assert await attacher(ec2).attach(VOLUME, NODE, False) == SECOND
        (first, _, _), (second, _, _) = ec2.calls
        assert second - first >= 5

    run(story())


def test_an_attachment_by_another_name_than_asked_for_counts_when_it_is_proven(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached", SECOND) if ec2.calls else volume())
        at_work = attacher(ec2)
        await asyncio.sleep(100)
        assert await at_work.attach(VOLUME, NODE, False) == SECOND
        assert ec2.calls[0][0] == 100
        assert ec2.at[-1] >= 105

    run(story())


def test_the_time_for_which_a_volumes_data_was_waited_for_does_not_count_as_attaching(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume() if not ec2.calls else on("attaching" if at < 250 else "attached"))
        ec2.initialized_at = 200.0
        assert await attacher(ec2).attach(VOLUME, NODE, True) == FIRST
        assert [action for _, action, _ in ec2.calls] == ["AttachVolume"]

    run(story())


@pytest.mark.parametrize(
    "refused",
    [
        Ec2Error("UnauthorizedOperation", "no"),
        Ec2Error("InvalidParameterValue", "the instance type has no second EBS card"),
    ],
    ids=lambda error: error.code,
)
def test_other_refusals_end_the_attach_at_once(run, refused: Ec2Error) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume(), AttachVolume=[refused])
        with pytest.raises(Ec2Error, match=refused.code):
            await attacher(ec2).attach(VOLUME, NODE, False)
        assert len(ec2.calls) == 1

    run(story())


def test_a_name_that_ec2_refuses_is_followed_by_another_one_at_once_and_not_given_again(run) -> None:
    async def story() -> None:
        taken = Ec2Error("InvalidParameterValue", f"{FIRST} is already in use")
        names = DeviceNames(lambda: 0.0)
        ec2 = ec2_that(
            lambda at: on("attached", ec2.names()[-1]) if ec2.calls else volume(), AttachVolume=[taken, None]
        )
        given = await attacher(ec2, names).attach(VOLUME, NODE, False)
        assert [moment for moment, _, _ in ec2.calls] == [0.0, 0.0]
        assert ec2.names() == [FIRST, given]
        assert given != FIRST
        after = [names.give(NODE, f"other {number}", [], ec2.at[-1]) for number in range(len(NAMES) - 2)]
        assert {FIRST, given}.isdisjoint(after)

    run(story())


def test_a_name_that_works_again_counts_as_any_other(run) -> None:
    async def story() -> None:
        names = DeviceNames(lambda: 0.0)
        names.refused(NODE, FIRST, 0.0)
        assert await attacher(ec2_that(lambda at: on("attached")), names).attach(VOLUME, NODE, False) == FIRST
        assert names.give(NODE, "other", [], 60.0) == FIRST

    run(story())


def test_an_attachment_without_a_device_name_is_an_error(run) -> None:
    async def story() -> None:
        error = await refusal(attacher(ec2_that(lambda at: on("attached", ""))).attach(VOLUME, NODE, False))
        assert error.code is Code.INTERNAL
        assert error.message == f"EC2 does not say as which device {VOLUME} is attached to {NODE}"

    run(story())


def test_the_names_that_ec2_shows_and_that_of_the_root_device_are_not_given(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached", ec2.names()[-1]) if ec2.calls else volume())
        used = [BlockDevice(name, "vol-1", 0) for name in NAMES[:3]]
        ec2.there = Instance(NODE, "running", "m5.large", tuple(used), NAMES[3])
        assert await attacher(ec2).attach(VOLUME, NODE, False) == NAMES[4]

    run(story())


def test_when_all_names_are_in_use_the_instance_is_exhausted(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume())
        used = [BlockDevice(name, "vol-1", 0) for name in NAMES]
        ec2.there = Instance(NODE, "running", "m5.large", tuple(used), "/dev/xvda")
        error = await refusal(attacher(ec2).attach(VOLUME, NODE, False))
        assert (error.code, error.message) == (
            Code.RESOURCE_EXHAUSTED, f"all device names of {NODE} are in use"
        )  # fmt: skip
        assert ec2.calls == []

    run(story())


@pytest.mark.parametrize(
    ("there", "code", "words"),
    [
        (None, Code.NOT_FOUND, f"there is no instance {NODE}"),
        (Instance(NODE, "shutting-down", "m5.large"), Code.FAILED_PRECONDITION, "is shutting down"),
    ],
)
def test_an_instance_that_is_gone_or_goes_gets_no_volume(run, there, code: Code, words: str) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume())
        ec2.there = there
        error = await refusal(attacher(ec2).attach(VOLUME, NODE, False))
        assert error.code is code
        assert words in error.message
        assert ec2.calls == []

    run(story())


def test_the_cards_of_an_instance_type_are_asked_for_once_and_again_where_ec2_did_not_answer(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached", ec2.names()[-1]) if len(ec2.calls) > done else volume())
        at_work, done = attacher(ec2), 0

        async def card(instance_type: str, *used: int) -> int | None:
            nonlocal done
            done = len(ec2.calls)
            devices = tuple(BlockDevice(f"/dev/sd{number}", "v", card) for number, card in enumerate(used))
            ec2.there = Instance(NODE, "running", instance_type, devices, "/dev/xvda")
            await at_work.attach(VOLUME, NODE, False)
            await asyncio.sleep(60)
            return ec2.calls[-1][2].get("EbsCardIndex")

        ec2.cards_of = {"two": 2, "down": Ec2Unreachable("no answer"), "one": 1}
        assert [await card("two"), await card("two", 0), await card("two", 0, 1, 1)] == [0, 1, 0]
        assert [await card("one"), await card("down"), await card("down"), await card("")] == [None] * 4
        assert ec2.types == ["two", "one", "down", "down"]

    run(story())


def test_a_place_without_a_volume_does_not_count_for_its_card(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached", ec2.names()[-1]) if ec2.calls else volume())
        ec2.cards_of = {"two": 2}
        ec2.there = Instance(NODE, "running", "two", (BlockDevice("/dev/sdb", "", 0),), "/dev/xvda")
        await attacher(ec2).attach(VOLUME, NODE, False)
        assert ec2.calls[0][2]["EbsCardIndex"] == 0

    run(story())


def test_all_data_is_waited_for_once_and_before_the_first_request(run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectState", "not yet")
        ec2 = ec2_that(
            lambda at: on("attached", ec2.names()[-1]) if len(ec2.calls) == 2 else volume(),
            AttachVolume=[refused, None],
        )
        ec2.initialized_at = 100.0
        await attacher(ec2).attach(VOLUME, NODE, True)
        assert [action for _, action, _ in ec2.calls] == ["AttachVolume"] * 2
        first, second = (moment for moment, _, _ in ec2.calls)
        assert 100 <= first <= 115
        assert second - first < 20
        *before, last = ec2.looked_whether_initialized
        assert last == first
        assert len(before) < 20
        assert all(at < 100 for at in before)

    run(story())


def test_nothing_is_attached_for_a_caller_that_has_gone_while_the_data_was_waited_for(run) -> None:
    """It may have lost its lease. Who leads now calls another driver, which knows of no attach under way."""

    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached") if ec2.calls else volume())
        ec2.initialized_at = 100.0
        attaching = attacher(ec2)
        with due_in(15), pytest.raises(CsiError, match="not all data") as told:
            await attaching.attach(VOLUME, NODE, True)
        assert told.value.code is Code.ABORTED
        await asyncio.sleep(100)
        assert ec2.calls == []
        with due_in(15):  # who asks again is answered
            assert await attaching.attach(VOLUME, NODE, True) == FIRST

    run(story())


def test_nothing_is_detached_for_a_caller_that_has_gone_long_ago(run) -> None:
    """Another driver, whose caller leads by now, has detached the volume, and attached it there again."""

    async def story() -> None:
        ec2 = ec2_that(lambda at: on("detaching") if 1 < at < 50 else on("attached"))
        attaching = attacher(ec2)
        with due_in(15), pytest.raises(CsiError, match="has gone") as told:
            await attaching.detach(VOLUME, NODE)
        assert told.value.code is Code.ABORTED
        assert [action for _, action, _ in ec2.calls] == ["DetachVolume"]
        with due_in(15), pytest.raises(TimeoutError):  # who asks again is heard
            async with asyncio.timeout(3):
                await attaching.detach(VOLUME, NODE)
        assert [action for _, action, _ in ec2.calls] == ["DetachVolume"] * 2

    run(story())


def test_nothing_is_detached_after_the_machine_of_the_driver_has_slept(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop's clock stood meanwhile. Another driver may have attached the volume there again."""
    slept, read = 0.0, time.clock_gettime

    def clock(which: int) -> float:
        return read(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock)

    def described(at: float) -> Volume:
        nonlocal slept
        slept = 3600.0
        return on("attached")

    async def story() -> None:
        ec2 = ec2_that(described)
        with due_in(15), pytest.raises(CsiError, match="has gone"):
            await attacher(ec2).detach(VOLUME, NODE)
        assert ec2.calls == []

    run(story())


def test_nothing_is_attached_for_a_caller_that_has_gone_long_ago(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(
            lambda at: on("attached") if ec2.calls else volume("creating" if at < 60 else "available")
        )
        attaching = attacher(ec2)
        with due_in(15), pytest.raises(CsiError, match="has gone") as told:
            await attaching.attach(VOLUME, NODE, False)
        assert told.value.code is Code.ABORTED
        assert ec2.calls == []
        with due_in(15):  # who asks again is answered
            assert await attaching.attach(VOLUME, NODE, False) == FIRST

    run(story())


@pytest.mark.parametrize("patience_s", [15.0, None])
def test_a_caller_that_has_just_gone_or_waits_for_ever_is_served(run, patience_s: float | None) -> None:
    """EC2 may be slow to answer; who asks again then finds it done."""

    async def story() -> None:
        ends = 30 if patience_s else 300
        ec2 = ec2_that(
            lambda at: on("attached") if ec2.calls else volume("creating" if at < ends else "available")
        )
        with due_in(patience_s):
            assert await attacher(ec2).attach(VOLUME, NODE, False) == FIRST

    run(story())


def test_a_volume_whose_data_cannot_be_asked_about_is_not_attached(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume())
        ec2.initialized_at = Ec2Unreachable("no answer")
        with pytest.raises(Ec2Unreachable):
            await attacher(ec2).attach(VOLUME, NODE, True)
        assert ec2.calls == []

    run(story())


def test_a_name_is_held_a_while_when_an_attach_has_ended_in_whatever_way(run) -> None:
    async def story() -> None:
        names = DeviceNames(lambda: 0.0)
        ec2 = ec2_that(lambda at: volume(), AttachVolume=[Ec2Error("UnauthorizedOperation", "no")])
        with pytest.raises(Ec2Error):
            await attacher(ec2, names).attach(VOLUME, NODE, False)
        others = [name for name in NAMES if name != FIRST]
        assert names.give(NODE, "other", others, 0.0) == FIRST  # nothing else is free

    run(story())


def test_a_detach_is_asked_for_once_and_again_when_descriptions_prove_that_it_is_attached_still(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached") if len(ec2.calls) < 3 else volume())
        await attacher(ec2).detach(VOLUME, NODE)
        moments = [moment for moment, _, _ in ec2.calls]
        assert [action for _, action, _ in ec2.calls] == ["DetachVolume"] * 3
        assert moments[0] == 0
        assert all(after - before >= 5 for before, after in itertools.pairwise(moments))

    run(story())


@pytest.mark.parametrize("state", ["detaching", "busy"])
def test_a_detach_that_is_under_way_is_not_asked_for(run, state: str) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on(state) if at < 30 else volume())
        with under_way() as operation:
            await attacher(ec2).detach(VOLUME, NODE)
        assert [action for _, action, _ in ec2.calls] in ([], ["DetachVolume"])
        assert all(moment >= 30 for moment, _, _ in ec2.calls)
        assert ec2.at[-1] >= 30
        assert operation.waits_for.startswith(f"EC2 shows it as {state} on {NODE} as {FIRST}")

    run(story())


@pytest.mark.parametrize(
    "answer",
    [
        Ec2Error("InvalidVolume.NotFound", "no volume"),
        Ec2Error("InvalidInstanceID.NotFound", "no instance"),
        Ec2Error("InvalidAttachment.NotFound", "not attached"),
        Ec2Error("IncorrectState", "Volume is in the 'available' state."),
    ],
    ids=lambda error: error.code,
)
def test_a_detach_of_what_ec2_says_is_not_attached_has_ended(run, answer: Ec2Error) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached"), DetachVolume=[answer])
        await attacher(ec2).detach(VOLUME, NODE)
        assert len(ec2.calls) == 1

    run(story())


def test_a_detach_that_ec2_refuses_for_a_state_on_the_way_is_waited_for(run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectState", "it is 'detaching'")
        ec2 = ec2_that(
            lambda at: on("attached") if at < 1 else on("detaching") if at < 20 else volume(),
            DetachVolume=[refused],
        )
        await attacher(ec2).detach(VOLUME, NODE)
        assert len(ec2.calls) == 1
        assert ec2.at[-1] >= 20

    run(story())


def test_other_refusals_end_the_detach(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached"), DetachVolume=[Ec2Error("UnauthorizedOperation", "no")])
        with pytest.raises(Ec2Error, match="UnauthorizedOperation"):
            await attacher(ec2).detach(VOLUME, NODE)

    run(story())


def test_a_detach_is_asked_for_once_also_where_ec2_shows_no_attachment(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume())
        at_work = attacher(ec2)
        await asyncio.sleep(100)
        await at_work.detach(VOLUME, NODE)
        assert [action for _, action, _ in ec2.calls] == ["DetachVolume"]

    run(story())


def test_an_attach_that_was_asked_for_before_is_waited_out_until_a_detach_has_ended(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume(), AttachVolume=[Ec2Error("UnauthorizedOperation", "no")])
        at_work = attacher(ec2)
        await asyncio.sleep(100)
        with pytest.raises(Ec2Error):
            await at_work.attach(VOLUME, NODE, False)
        await at_work.detach(VOLUME, NODE)
        assert ec2.at[-1] >= 105

    run(story())


def test_an_attach_without_an_answer_is_waited_out_though_ec2_says_that_nothing_is_attached(run) -> None:
    """It may be carried out just after that, and stay attached when who asked for it has let it go."""

    async def story() -> None:
        nothing = Ec2Error("IncorrectState", f"Volume '{VOLUME}' is in the 'available' state.")
        played = ec2_that(
            lambda at: on("attached") if at >= 4 and len(played.calls) < 3 else volume(),
            AttachVolume=[Ec2Unreachable("no answer")],
            DetachVolume=[nothing, None],
        )
        asked = attacher(played)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asked.attach(VOLUME, NODE, False)
        await asked.detach(VOLUME, NODE)
        assert [action for _, action, _ in played.calls] == ["AttachVolume", "DetachVolume", "DetachVolume"]

    run(story())


def test_what_ec2_goes_on_showing_when_a_detach_has_ended_is_not_attached(run) -> None:
    async def story() -> None:
        ended = float("inf")

        def looks(at: float) -> Volume:
            if ec2.names() or ended <= at < ended + 4:
                return on("attached")
            return on("detaching") if at < 120 else volume()

        ec2 = ec2_that(looks)
        at_work = attacher(ec2)
        await asyncio.sleep(100)
        await at_work.detach(VOLUME, NODE)
        ended = asyncio.get_running_loop().time()
        await at_work.attach(VOLUME, NODE, False)
        assert len(ec2.names()) == 1

    run(story())


@pytest.mark.parametrize(("volume_id", "node"), [("vol-x", NODE), (VOLUME, "a-node")])
def test_what_ec2_cannot_have_is_detached_without_a_question(run, volume_id: str, node: str) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached"))
        await attacher(ec2).detach(volume_id, node)
        assert ec2.calls == []

    run(story())


def test_to_detach_from_all_instances_what_ec2_shows_must_be_proven(run) -> None:
    async def story() -> None:
        other = "i-0123456789abcdef1"
        shown = [Attachment(NODE, FIRST, "attached", None), Attachment(other, FIRST, "attached", None)]
        ec2 = ec2_that(lambda at: volume("in-use", *shown[len(ec2.calls) :]) if at >= 5 else volume())
        await attacher(ec2).detach(VOLUME, "")
        assert [request["InstanceId"] for _, _, request in ec2.calls] == [NODE, other]
        assert ec2.at[0] >= 5

    run(story())


def test_of_a_volume_that_is_gone_nothing_is_to_be_detached(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: None)
        await attacher(ec2).detach(VOLUME, "")
        assert ec2.calls == []

    run(story())


def test_a_volume_that_cannot_be_detached_from_one_of_all_instances_is_an_error(run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: on("attached"), DetachVolume=[Ec2Error("UnauthorizedOperation", "no")])
        with pytest.raises(Ec2Error, match="UnauthorizedOperation"):
            await attacher(ec2).detach(VOLUME, "")

    run(story())
