"""What the agent does with a volume for one pod: what is written down before, what is known when it
fails, and what is refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
from one_volume import PRESENT, UNCERTAIN, OneVolume, disk

from mooring.kube.objects import PodSecurityContext
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.records import PodRecord, VolumeRecord
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> OneVolume:
    return OneVolume(tmp_path, played)


async def test_what_a_pod_gets_is_written_down_before(stage: OneVolume) -> None:
    stage.is_mounted()
    stage.want("u", security_context=PodSecurityContext(fs_group=7))
    stage.volume.outdated = {"u"}
    await stage.operations.set_up(stage.volume, "u")
    assert stage.done == ["can-mount", "set-up 7"]
    record = PodRecord("pv", "/pods/u/volumes/example.com~disk/pv")
    assert stage.recorded[-1].pods == {"u": replace(record, unfinished=True)}
    assert stage.volume.record.pods == stage.records.load()[0].pods == {"u": record}
    assert stage.volume.pods == {"u": PRESENT}
    assert stage.volume.outdated == set()
    assert stage.volume.set_up_at == {"u": pytest.approx(asyncio.get_running_loop().time(), abs=60)}


async def test_what_cannot_be_written_down_is_not_done_and_leaves_no_trace(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a pod that goes before the disk has room again would keep the volume in use for ever."""
    stage.is_mounted()
    stage.want("u")
    stage.volume.outdated = {"u"}
    before = stage.volume.record

    def full(record: VolumeRecord) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.records, "save", full)
    with pytest.raises(OSError, match="No space left"):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.done == ["can-mount"]
    assert (stage.volume.pods, stage.volume.outdated) == ({}, {"u"})
    assert stage.volume.record == before


async def test_a_set_up_that_failed_may_be_there_and_is_due_again(stage: OneVolume) -> None:
    stage.is_mounted()
    stage.want("u")
    stage.failures["set-up"] = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.done[-1] == "set-up None"
    assert stage.volume.pods == {"u": UNCERTAIN}
    assert stage.volume.outdated == {"u"}
    assert stage.records.load()[0].pods["u"].unfinished, "an agent that starts now sets it up again"


async def test_a_remount_is_not_recorded_as_unfinished(stage: OneVolume) -> None:
    """What a pod has changes as a whole: an agent that starts meanwhile finds all of it."""
    stage.is_mounted("u")
    stage.want("u")
    await stage.operations.set_up(stage.volume, "u")
    assert not stage.recorded[-1].pods["u"].unfinished


async def test_what_is_set_up_and_cannot_be_recorded_so_is_due_again(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.is_mounted()
    stage.want("u")
    save = stage.records.save

    def full_then(record: VolumeRecord) -> None:
        if not record.pods["u"].unfinished:
            raise OSError(28, "No space left on device")
        save(record)

    monkeypatch.setattr(stage.records, "save", full_then)
    with pytest.raises(OSError, match="No space left"):
        await stage.operations.set_up(stage.volume, "u")
    assert (stage.volume.pods, stage.volume.outdated) == ({"u": UNCERTAIN}, {"u"})
    assert stage.volume.record.pods["u"].unfinished


async def test_a_remount_that_failed_leaves_what_the_pod_has(stage: OneVolume) -> None:
    stage.is_mounted("u", "v")
    stage.want("u")
    stage.failures["set-up"] = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.volume.pods == {"u": PRESENT, "v": PRESENT}
    assert stage.volume.outdated == {"u"}


async def test_a_pod_that_has_gone_gets_nothing(stage: OneVolume) -> None:
    stage.is_mounted()
    await stage.operations.set_up(stage.volume, "u")
    assert stage.done == []


@pytest.mark.parametrize("ends", ["it is gone", "it terminates"])
async def test_a_pod_that_ends_while_the_node_is_asked_gets_nothing(stage: OneVolume, ends: str) -> None:
    stage.is_mounted()
    want = stage.want("u")

    async def can_mount(mounter: Any) -> None:
        want.starting = ends == "it is gone"
        if ends == "it is gone":
            del stage.volume.wants["u"]

    stage.operations._can_mount = lambda mounter, want: can_mount(mounter)  # type: ignore[method-assign]
    await stage.operations.set_up(stage.volume, "u")
    assert stage.done == []
    assert stage.volume.pods == {}


async def test_a_node_that_lacks_what_it_takes_is_named_as_the_cause(stage: OneVolume) -> None:
    stage.is_mounted()
    stage.want("u")
    stage.failures["can-mount"] = FileNotFoundError("mkfs.xfs")
    with pytest.raises(VolumeError, match=r"this node lacks what it takes to mount volume pv: mkfs\.xfs"):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.volume.pods == {}


ONE_POD = disk(access_modes=("ReadWriteOncePod",))


@pytest.mark.parametrize(
    ("spec", "other", "refused"),
    [
        (ONE_POD, PRESENT, True),
        (ONE_POD, UNCERTAIN, True),
        (disk(), PRESENT, False),
    ],
)
async def test_a_volume_for_one_pod_is_refused_while_another_may_have_it(
    stage: OneVolume, spec: VolumeSpec, other: Presence, refused: bool
) -> None:
    stage.is_mounted("first", "u")
    stage.volume.pods["first"] = other
    stage.want("u", spec)
    if not refused:
        await stage.operations.set_up(stage.volume, "u")
        return
    with pytest.raises(VolumeError, match="already in use by another pod: one that has gone"):
        await stage.operations.set_up(stage.volume, "u")
    stage.want("first", spec)
    with pytest.raises(VolumeError, match="already in use by another pod: default/first"):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.done == []


async def test_a_volume_for_one_pod_is_refused_if_another_has_begun_to_get_it_meanwhile(
    stage: OneVolume,
) -> None:
    stage.is_mounted()
    stage.want("u", ONE_POD)

    async def can_mount() -> None:
        stage.volume.pods["first"] = UNCERTAIN

    stage.operations._can_mount = lambda mounter, want: can_mount()  # type: ignore[method-assign]
    with pytest.raises(VolumeError, match="already in use by another pod"):
        await stage.operations.set_up(stage.volume, "u")
    assert stage.done == []
    assert stage.volume.pods == {"first": UNCERTAIN}


async def test_what_a_pod_lets_go_of_is_recorded_until_it_is_unmounted(stage: OneVolume) -> None:
    stage.is_mounted("u", "v")
    stage.volume.set_up_at, stage.volume.outdated = {"u": 1.0, "v": 2.0}, {"u", "v"}
    stage.failures["tear-down"] = OSError("busy")
    with pytest.raises(OSError, match="busy"):
        await stage.operations.tear_down(stage.volume, "u")
    assert stage.volume.pods == {"u": UNCERTAIN, "v": PRESENT}
    recorded = stage.records.load()[0].pods
    assert {uid: pod.leaving for uid, pod in recorded.items()} == {"u": True, "v": False}
    assert stage.recorded[0].pods == recorded, "before anything is done"
    stage.failures.clear()
    await stage.operations.tear_down(stage.volume, "u")
    assert stage.done == ["tear-down /pods/u/volumes/example.com~disk/pv"] * 2
    assert stage.volume.pods == {"v": PRESENT}
    assert (stage.volume.set_up_at, stage.volume.outdated) == ({"v": 2.0}, {"v"})
    assert list(stage.records.load()[0].pods) == ["v"]


async def test_what_fills_the_disk_is_taken_from_its_pod_though_nothing_can_be_written_down(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.is_mounted("u")
    save = stage.records.save

    def full(record: VolumeRecord) -> None:
        if not stage.done:
            raise OSError(28, "No space left on device")
        save(record)

    monkeypatch.setattr(stage.records, "save", full)
    await stage.operations.tear_down(stage.volume, "u")
    assert stage.volume.pods == stage.volume.record.pods == {}


async def test_what_a_pod_of_a_missing_plugin_has_left_is_removed_if_it_is_empty(
    stage: OneVolume, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    stage.has_record(pods={"u": PodRecord("pv", str(empty))})
    stage.plugin_is_gone()

    async def mount_table() -> tuple[()]:
        return ()

    stage.operations._mounts = cast(Any, SimpleNamespace(mount_table=mount_table))
    await stage.operations.tear_down(stage.volume, "u")
    assert not empty.exists()
    assert stage.volume.record.pods == {}


async def test_why_a_pod_must_go_is_its_plugins_word(stage: OneVolume) -> None:
    assert await stage.operations.limit_exceeded(stage.volume, stage.want("u")) == "too much"
