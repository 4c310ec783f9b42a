"""The volume manager by itself: how it goes on when something fails, and after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from managed_volumes import CACHE, D1, DISK, LOCAL, MOUNTED, NODE, ManagedVolumes, disk, names, pod

from mooring.kube.errors import ServerError, Unreachable
from mooring.volumes.errors import VolumeError

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> ManagedVolumes:
    return ManagedVolumes(tmp_path, played)


# --- what fails


@pytest.mark.parametrize(
    ("obstacle", "told"),
    [
        ({"failure": Unreachable("no answer")}, "no answer"),
        ({"failure": ServerError("starting", status=500)}, "starting"),
        ({"attachment_node": "another"}, "is for node another"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_does_not_permit_a_mount_yet_is_looked_at_each_second_and_is_no_failure(
    run: Run, stage: ManagedVolumes, obstacle: dict[str, Any], told: str, again: bool
) -> None:
    """Be it the attachment, or the API server that does not tell; for the device, and for one more pod, whose
    look is its own."""

    async def story() -> None:
        await (stage.mounted("u") if again else stage.start())
        usual = {name: getattr(stage, name) for name in obstacle}
        vars(stage).update(obstacle)
        stage.looks.clear()
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(100.5)
        assert 95 < stage.looks.count("Node") <= 101
        assert stage.events == []
        assert told in stage.manager.state("v").waiting["data"].message
        vars(stage).update(usual)
        await asyncio.sleep(1)
        assert stage.manager.state("v").mounted

    run(story())


@pytest.mark.parametrize("closed", [False, True])
def test_a_node_that_cannot_say_what_it_uses_tries_each_second(
    run: Run, stage: ManagedVolumes, closed: bool
) -> None:
    """Before it mounts anything; where the volume was taken from it, it says that it waits for it."""

    async def story() -> None:
        stage.attached = () if closed else stage.attached
        await stage.start()
        if closed:
            stage.manager.want(pod("u"), {"data": disk()})
            await asyncio.sleep(5)
        stage.refusal, stage.writes = Unreachable("no answer"), 0
        stage.manager.want(pod("u"), {"data": disk(closed_for=NODE if closed else "")})
        await asyncio.sleep(20.5)
        assert stage.writes == 21
        assert (stage.machine.journal, stage.events) == ([], [])
        stage.refusal = None
        await asyncio.sleep(30)
        assert stage.writes == 22
        assert bool(stage.manager.state("u").mounted) is not closed

    run(story())


def test_a_volume_is_forgotten_only_when_the_node_has_said_that_it_is_not_used(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.refusal = Unreachable("no answer")
        stage.manager.release("u")
        await asyncio.sleep(20)
        assert stage.machine.mounts == set()
        assert list(stage.manager.remembered() or ()) == [D1]
        stage.refusal = None
        await asyncio.sleep(1)
        assert stage.manager.remembered() == {}
        assert stage.published_so_far[-1] == ()

    run(story())


def test_a_device_that_cannot_be_mounted_is_told_and_tried_again_ever_more_slowly(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.start()
        stage.machine.failures["mount-device"] = VolumeError("xfs is damaged")
        stage.manager.want(pod("u"), {"data": disk(), "again": disk()})
        stage.manager.want(pod("v"), {"data": disk()})
        await asyncio.sleep(31)  # after 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s
        told = {("u", "FailedMount", "volume data, again: xfs is damaged")}
        told |= {("v", "FailedMount", "volume data: xfs is damaged")}
        assert set(stage.events) == told
        assert len(stage.events) == 2 * 6
        assert stage.manager.state("u").waiting["again"].message == "xfs is damaged"
        stage.machine.failures.clear()
        await asyncio.sleep(1)
        assert stage.manager.state("u").mounted

    run(story())


def test_a_pod_whose_set_up_fails_is_told_and_no_other(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.start()
        stage.machine.failures["set-up u"] = OSError("no such export")
        for uid in ("u", "v"):
            stage.manager.want(pod(uid), {"data": disk()})
        await asyncio.sleep(31)
        assert stage.events == [("u", "FailedMount", "volume data: no such export")] * 6
        assert stage.manager.state("v").mounted
        assert {"u", "v"} <= set(stage.changed)

    run(story())


@pytest.mark.parametrize("reported", [True, False])
def test_a_pod_waits_for_its_attach_and_hears_of_it_after_two_minutes(
    run: Run, stage: ManagedVolumes, reported: bool
) -> None:
    """Whether the attachment is not reported yet, or does not permit a mount."""

    async def story() -> None:
        stage.attached = ("d1",) if reported else ()
        stage.attachment_node = "another"
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(120)
        assert stage.events == []
        await asyncio.sleep(10)
        assert [reason for _, reason, _ in stage.events] == ["FailedMount"]
        assert "not mounted after 123 s" in stage.events[0][2]
        assert len(stage.published_so_far) == 1

    run(story())


def test_a_node_says_that_it_waits_for_a_volume_that_was_taken_from_it_by_force(
    run: Run, stage: ManagedVolumes
) -> None:
    """Nothing of it is mounted here any more: so the controller may open the node for it again."""

    async def story() -> None:
        stage.attached = ()
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk(closed_for=NODE)})
        stage.manager.want(pod("u"), {"other": disk("d2")})
        await asyncio.sleep(5)
        assert stage.manager.volumes_awaited() == {D1: 4}
        assert names(stage.published_so_far) == ["d1 d2"] * 2, "what is in use, and what is awaited"

    run(story())


# --- an agent that attaches by itself


def test_an_agent_that_attaches_waits_for_no_report_and_looks_at_no_attachment(
    run: Run, tmp_path: Path, played: Any
) -> None:
    async def story() -> None:
        stage = ManagedVolumes(tmp_path, played, attaches=True)
        stage.attached = ()
        await stage.mounted("u", "v")
        stage.change(write="the next")
        await asyncio.sleep(5)
        assert stage.machine.journal[:3] == ["attach d1", *MOUNTED[:2]]
        assert sorted(stage.machine.journal[3:]) == [*["attach d1"] * 2, *["set-up d1"] * 2]
        assert stage.looks == []
        for uid in ("u", "v"):
            stage.manager.release(uid)
        await asyncio.sleep(5)
        assert stage.machine.journal[-3:] == ["tear-down d1", "unmount-device d1", "detach d1"]
        assert stage.manager.volumes_in_use() == ()

    run(story())


# --- after a restart


def test_what_an_earlier_agent_left_is_known_before_anything_is_done_and_let_go_when_no_pod_comes(
    run: Run, tmp_path: Path, played: Any
) -> None:
    async def story() -> None:
        former = ManagedVolumes(tmp_path, played)
        task = await former.start()
        for uid in ("u", "v"):
            former.manager.want(pod(uid), {"data": disk(), "cache": CACHE})
        await asyncio.sleep(5)
        task.cancel()
        stage = ManagedVolumes(tmp_path, played)
        stage.machine.mounts |= former.machine.mounts | {str(tmp_path / "plugins/example.com~disk/mounts/d9")}
        await stage.manager.reconstruct()
        assert sorted(stage.manager.remembered() or ()) == [
            D1,
            f"{DISK}/d9",
            f"{LOCAL}/u-cache",
            f"{LOCAL}/v-cache",
        ]
        assert stage.manager.volumes_in_use() == (D1, f"{DISK}/d9")
        assert sorted(stage.manager.pods()) == ["u", "v"]
        stage.manager.want(pod("u"), {"data": disk()})
        for uid in ("u", "v"):
            stage.manager.release(uid)
        assert stage.machine.journal == []
        running = asyncio.create_task(stage.manager.run(stage))
        await stage.manager.drained()
        assert sorted(stage.machine.journal) == [
            *["tear-down cache"] * 2,
            *["tear-down d1"] * 2,
            "unmount-device d1",
            "unmount-device d9",
        ]
        assert stage.machine.mounts == set()
        running.cancel()

    run(story())
