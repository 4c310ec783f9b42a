"""Taking, finding and deleting snapshots before an EC2 that shows and answers what a story says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from played_ec2 import Answer, PlayedEc2
from structlog.testing import capture_logs

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.snapshots import Snapshotter
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.ec2.records import SNAPSHOT_NAME_TAG, Snapshot
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable

VOLUME, OTHER_VOLUME = "vol-0123456789abcdef0", "vol-0123456789abcdef1"
ID, OTHER = "snap-0123456789abcdef0", "snap-0123456789abcdef1"
START = datetime(2030, 1, 1, tzinfo=UTC)
MADE: dict[str, Any] = {
    "SnapshotId": ID, "VolumeId": VOLUME, "State": "pending", "VolumeSize": 10, "StartTime": START
}  # fmt: skip
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def snapshot(id: str = ID, name: str = "s", **more: Any) -> Snapshot:
    given = {"volume_id": VOLUME, "state": "completed", "size": 10, "started": START}
    return Snapshot(id, tags={SNAPSHOT_NAME_TAG: name}, **given | more)


def ec2_that(**answers: list[Answer]) -> PlayedEc2:
    return PlayedEc2(lambda at: None, **{"CreateSnapshot": [MADE]} | answers)


async def snapshotter(ec2: PlayedEc2) -> Snapshotter:
    """One that has been at work for so long that what EC2 shows is proof."""
    played: Any = ec2
    made = Snapshotter(played, played, Settling(), TagPolicy())
    await asyncio.sleep(100)
    return made


def wanted(name: str = "s", volume: str = VOLUME) -> csi.CreateSnapshotRequest:
    return csi.CreateSnapshotRequest(name=name, source_volume_id=volume)


def actions(ec2: PlayedEc2) -> list[str]:
    return [action for _, action, _ in ec2.calls]


def test_of_several_snapshots_of_one_name_the_first_is_taken_and_people_are_told(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = await snapshotter(ec2)
        for shown, told in (([snapshot()], 0), ([snapshot(), snapshot(OTHER)], 1)):
            ec2.snapshots = lambda at, shown=shown: shown
            with capture_logs() as lines:
                assert (await at_work.create(wanted())).id == ID
            assert len(lines) == told
        assert ec2.calls == []

    run(story())


def test_a_snapshot_without_an_answer_is_taken_again_only_when_descriptions_prove_that_there_is_none(
    run: Run,
) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateSnapshot=[Ec2Unreachable("no answer")])
        at_work = await snapshotter(ec2)
        with pytest.raises(Ec2Unreachable):
            await at_work.create(wanted())
        ec2.snapshots = lambda at: [snapshot()] if at > 104 else []
        assert (await at_work.create(wanted())).id == ID
        assert actions(ec2) == ["CreateSnapshot"]

    run(story())


def test_a_snapshot_that_was_taken_here_is_waited_for_where_descriptions_do_not_show_it_yet(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = await snapshotter(ec2)
        await at_work.create(wanted())
        ec2.snapshots = lambda at: [snapshot()] if at > 104 else []
        assert (await at_work.get(ID)).id == ID

    run(story())


def test_a_snapshot_is_taken_at_the_first_look_though_another_one_has_just_been_taken(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = await snapshotter(ec2)
        await at_work.create(wanted("one"))
        await at_work.create(wanted("other"))
        assert ec2.at == [100, 100]
        assert actions(ec2) == ["CreateSnapshot"] * 2

    run(story())


@pytest.mark.parametrize("answer", [None, Ec2Error("InvalidSnapshot.NotFound", "no such snapshot")])
def test_a_snapshot_that_was_deleted_here_is_not_shown_any_more_and_all_others_are(
    run: Run, answer: Answer
) -> None:
    async def story() -> None:
        ec2 = ec2_that(DeleteSnapshot=[answer])
        ec2.snapshots = lambda at: [snapshot(), snapshot(OTHER)]
        at_work = await snapshotter(ec2)
        await at_work.delete(ID)
        assert [*await at_work.listed("", "")] == [OTHER]
        assert await at_work.listed(ID, "") == {}
        assert (await at_work.create(wanted())).id == OTHER

    run(story())


def test_a_snapshot_that_ec2_does_not_delete_is_an_error_and_shown_still(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(DeleteSnapshot=[Ec2Error("InvalidSnapshot.InUse", "an image uses it")])
        ec2.snapshots = lambda at: [snapshot()]
        at_work = await snapshotter(ec2)
        with pytest.raises(Ec2Error, match="an image uses it"):
            await at_work.delete(ID)
        assert [*await at_work.listed("", "")] == [ID]

    run(story())


def test_what_ec2_cannot_have_is_not_asked_for(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = await snapshotter(ec2)
        await at_work.delete("a-snapshot")
        with pytest.raises(CsiError, match="there is no volume a-disk") as caught:
            await at_work.create(wanted(volume="a-disk"))
        assert caught.value.code is Code.NOT_FOUND
        assert ec2.calls == []

    run(story())


@pytest.mark.parametrize(
    ("id", "volume", "found"),
    [
        ("", "", [ID, OTHER]),
        ("", VOLUME, [ID]),
        ("", "a-disk", []),
        (ID, "", [ID]),
        (ID, VOLUME, [ID]),
        (ID, OTHER_VOLUME, []),
        ("snap-0123456789abcdef2", "", []),
        ("snap-0123456789abcdef2", VOLUME, []),
    ],
)
def test_snapshots_are_listed_by_what_is_asked_for(run: Run, id: str, volume: str, found: list[str]) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        ec2.snapshots = lambda at: [snapshot(), snapshot(OTHER, volume_id=OTHER_VOLUME)]
        assert [*await (await snapshotter(ec2)).listed(id, volume)] == found

    run(story())


@pytest.mark.parametrize(("message", "told"), [("no key", "no key"), ("", "delete it")])
def test_a_snapshot_that_went_wrong_says_why(run: Run, message: str, told: str) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        ec2.snapshots = lambda at: [snapshot(state="error", message=message)]
        with pytest.raises(CsiError) as caught:
            await (await snapshotter(ec2)).create(wanted())
        assert (caught.value.code, caught.value.message) == (
            Code.INTERNAL, f"snapshot {ID} of the name s went wrong: {told}"
        )  # fmt: skip

    run(story())
