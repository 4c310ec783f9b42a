"""The volume manager by itself: what it does when the Node changes: a volume is reported, or not any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from managed_volumes import MOUNTED, ManagedVolumes, disk, names, pod

from mooring.kube.errors import Unreachable

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> ManagedVolumes:
    return ManagedVolumes(tmp_path, played)


def test_what_is_reported_is_mounted_at_once(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        stage.attached = ()
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(60)
        stage.change(write="the next")  # of what is not mounted there is nothing to look at
        stage.change(attached=("d1",))
        await asyncio.sleep(0.1)
        assert stage.machine.journal == MOUNTED
        assert stage.looks == ["Node", "VolumeAttachment"] * 2, "for the device, and for the pod"
        assert names(stage.published_so_far) == ["d1"]

    run(story())


@pytest.mark.parametrize(
    "changes",
    [{"attached": ("d2",)}, {"write": "the next"}, {"uid": "made anew"}],
    ids=lambda each: str([*each]),
)
@pytest.mark.parametrize("lost", [False, True])
def test_an_attachment_is_looked_at_when_the_node_may_not_report_it_any_more(
    run: Run, stage: ManagedVolumes, changes: dict[str, Any], lost: bool
) -> None:
    """Pods end when it is another one than that of the mount, and not else."""

    async def story() -> None:
        await stage.mounted("u")
        stage.looks.clear()
        if lost:
            stage.attachment_uid = "the next"
        stage.attachments = ("d1",)
        stage.change(**changes)
        await asyncio.sleep(0.1)
        assert stage.looks == ["VolumeAttachment"]
        assert stage.manager.state("u").stale is lost
        assert [reason for _, reason, _ in stage.events] == (["VolumeLost"] if lost else [])
        assert stage.machine.journal == MOUNTED
        await asyncio.sleep(300)
        assert stage.looks == ["VolumeAttachment"]

    run(story())


def test_a_node_that_reports_more_or_the_same_is_no_reason_to_look(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.looks.clear()
        stage.change(attached=("d1", "d3"))
        stage.change()
        await asyncio.sleep(5)
        assert stage.looks == []
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(5)
        assert stage.looks == ["Node", "VolumeAttachment"], "for the pod"

    run(story())


def test_an_attachment_is_looked_at_when_the_node_is_gone(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.looks.clear()
        stage.manager.node_changed(stage.node, None)
        await asyncio.sleep(5)
        assert stage.looks == ["VolumeAttachment"]
        stage.manager.node_changed(None, stage.node)
        await asyncio.sleep(5)
        assert stage.looks == ["VolumeAttachment"] * 2
        stage.looks.clear()
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(5)
        assert stage.looks == ["Node", "VolumeAttachment"], "what was looked at is known; this is for the pod"

    run(story())


def test_an_attachment_that_changed_while_its_device_was_being_mounted_is_looked_at_after(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        stage.machine.devices_appear.clear()
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(5)
        stage.attachment_uid = "the next"
        stage.change(write="the next")
        stage.machine.devices_appear.set()
        await asyncio.sleep(5)
        assert stage.looks.count("VolumeAttachment") > 1
        assert stage.machine.journal == [*MOUNTED[:2], "unmount-device d1", *MOUNTED], (
            "it has the next one now"
        )

    run(story())


def test_an_attachment_that_cannot_be_read_is_looked_at_each_second_and_nothing_is_done_meanwhile(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.looks.clear()
        stage.failure, stage.attachment_uid = Unreachable("no answer"), "the next"
        stage.change(write="the next")
        await asyncio.sleep(10.5)
        assert len(stage.looks) == 11
        assert not stage.manager.state("u").stale
        stage.failure = None
        await asyncio.sleep(1)
        assert stage.manager.state("u").stale

    run(story())


def test_a_look_at_an_attachment_that_ends_in_any_other_error_is_repeated_too(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.failure, stage.attachment_uid = RuntimeError("a bug"), "the next"
        stage.change(write="the next")
        await asyncio.sleep(5)
        stage.failure = None
        await asyncio.sleep(60)
        assert stage.manager.state("u").stale

    run(story())


def test_a_look_that_was_under_way_when_the_volume_was_taken_does_not_give_it_back(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.delays = [10.0]
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(1)
        stage.attachment_uid = "the next"
        stage.change(write="the next")
        await asyncio.sleep(5)
        assert stage.manager.state("u").stale
        await asyncio.sleep(60)
        assert stage.manager.state("u").stale

    run(story())


def test_a_pod_whose_volume_was_taken_gets_it_again_when_it_has_let_go(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.attachment_uid = "the next"
        stage.change(write="the next")
        await asyncio.sleep(5)
        stage.manager.release("u")
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(5)
        assert stage.machine.journal == [*MOUNTED, "tear-down d1", "unmount-device d1", *MOUNTED]
        assert stage.manager.state("v").mounted

    run(story())


def test_a_live_look_that_sees_another_attachment_has_lost_the_mount(run: Run, stage: ManagedVolumes) -> None:
    """The Node's cache may be behind: one more pod must not get what is mounted under a former attachment."""

    async def story() -> None:
        await stage.mounted("u")
        stage.attachment_uid = "the next"
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(5)
        assert stage.manager.state("u").stale
        assert not stage.manager.state("v").mounted
        assert stage.machine.journal == MOUNTED

    run(story())
