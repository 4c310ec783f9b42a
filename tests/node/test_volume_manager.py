"""The volume manager by itself: what it is asked, and what it is told by others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from managed_volumes import CACHE, D1, DISK, LOCAL, ManagedVolumes, disk, names, pod
from msgspec.structs import replace

from mooring.kube.errors import Unreachable
from mooring.kube.objects import (
    HostPathVolumeSource,
    ObjectReference,
    Volume,
)
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.spec import VolumeSpec

Run = Callable[[Coroutine[Any, Any, None]], None]


SHARED = AttachCapabilities(refuses=True, revokes=False, multi_attach=True)


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> ManagedVolumes:
    return ManagedVolumes(tmp_path, played)


# --- what it is asked


def test_nothing_is_remembered_before_an_earlier_agents_mounts_are_known(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        assert stage.manager.remembered() is None
        await stage.mounted("u")
        assert list(stage.manager.remembered() or ()) == [D1]

    run(story())


def test_a_volume_is_its_csi_drivers_unless_a_plugin_of_the_node_has_it(stage: ManagedVolumes) -> None:
    assert stage.manager.supports(CACHE)
    assert stage.manager.supports(disk())
    path = Volume(name="path", host_path=HostPathVolumeSource(path="/x"))
    assert not stage.manager.supports(VolumeSpec.of_volume(path))


def test_what_is_mounted_is_listed_by_pod_and_by_each_name_in_the_pod(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk(), "again": disk(), "cache": CACHE})
        stage.manager.want(pod("v"), {"data": disk("missing")})
        await asyncio.sleep(5)
        listed = [
            (each.uid, name, Path(volume.get_path()).name) for each, name, volume in stage.manager.mounted()
        ]
        assert listed == [("u", "data", "d1"), ("u", "again", "d1"), ("u", "cache", "cache")]
        del stage.plugins._plugins[LOCAL]
        assert [name for _, name, _ in stage.manager.mounted()] == ["data", "again"], "a driver may go"

    run(story())


def test_only_pods_that_may_have_a_volume_of_one_node_share_it(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        shared = disk("d2", access_modes=("ReadWriteMany",))
        stage.disk.capabilities = lambda spec: SHARED
        await stage.mounted("u", "v")
        stage.manager.want(pod("u"), {"data": disk(), "shared": shared, "cache": CACHE})
        stage.manager.want(pod("w"), {"shared": shared})
        await asyncio.sleep(5)
        assert stage.manager.state("w").mounted
        assert stage.manager.sharers("u") == {"v"}
        assert stage.manager.sharers("w") == set()
        stage.machine.failures["set-up"] = OSError("busy")
        stage.manager.want(pod("x"), {"data": disk()})
        await asyncio.sleep(5)
        assert stage.manager.sharers("u") == {"v", "x"}, "what failed may be there"

    run(story())


@pytest.mark.parametrize(
    ("how", "refused"), [({"alone": True}, True), ({"alone": True, "attaches": True}, False), ({}, False)]
)
def test_without_an_api_server_only_an_agent_that_attaches_takes_volumes_to_attach(
    tmp_path: Path, played: Any, run: Run, how: dict[str, bool], refused: bool
) -> None:
    async def story() -> None:
        manager = ManagedVolumes(tmp_path, played, **how).manager
        manager.want(pod("u"), {"cache": CACHE})
        if refused:
            with pytest.raises(InvalidSpec, match="volume data, again: without an API server"):
                manager.want(pod("v"), {"data": disk(), "again": disk()})
            assert not manager.state("v").wanted, "it would start without"
        else:
            manager.want(pod("v"), {"data": disk(), "again": disk()})

    run(story())


def made_anew(uid: str, **spec: Any) -> VolumeSpec:
    """A volume of the same name, whose PersistentVolume is another one."""
    former = disk(**spec)
    assert former.persistent_volume is not None
    metadata = replace(former.persistent_volume.metadata, uid=uid)
    return VolumeSpec.of_persistent_volume(replace(former.persistent_volume, metadata=metadata))


@pytest.mark.parametrize("named", [False, True], ids=["named by the storage", "named by its object"])
def test_what_is_left_of_a_volume_named_by_its_object_is_let_go_before_it_is_given_to_another_pod(
    run: Run, stage: ManagedVolumes, named: bool
) -> None:
    """Its PersistentVolume may have been made anew, for another directory of the node."""

    async def story() -> None:
        stage.disk.is_named_by_object = lambda: named
        await stage.mounted("u")
        stage.machine.failures["unmount-device"] = OSError("busy")
        stage.manager.release("u")
        await asyncio.sleep(5)
        if named:
            with pytest.raises(VolumeError, match="as former pods had it"):
                stage.manager.want(pod("v"), {"data": made_anew("anew")})
            assert not stage.manager.state("v").wanted
            del stage.machine.failures["unmount-device"]
            await asyncio.sleep(60)
        stage.manager.want(pod("v"), {"data": made_anew("anew")})
        await asyncio.sleep(5)
        assert stage.manager.state("v").mounted
        assert stage.machine.journal.count("mount-device /dev/d1") == 2

    run(story())


def test_a_pod_of_another_persistent_volume_of_that_name_waits_for_those_of_the_former(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        stage.disk.is_named_by_object = lambda: True
        await stage.mounted("u")
        stage.manager.want(pod("w"), {"data": disk()})
        with pytest.raises(VolumeError, match="as former pods had it"):
            stage.manager.want(pod("v"), {"data": made_anew("anew")})
        stage.manager.want(pod("u"), {"data": disk()})

    run(story())


def test_what_was_mounted_is_not_given_to_a_pod_that_wants_it_as_a_device(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        device = made_anew("anew", volume_mode="Block")
        with pytest.raises(VolumeError, match="as former pods had it"):
            stage.manager.want(pod("v"), {"data": device})
        stage.manager.release("u")
        await asyncio.sleep(5)
        assert stage.machine.mounts == set()

    run(story())


# --- what it is told of pods


def test_a_volume_of_several_names_is_followed_once_until_its_pod_lets_go(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.start()
        claimed = disk(claim_ref=ObjectReference(namespace="default", name="c"))
        stage.manager.want(pod("u"), {"data": claimed, "again": claimed, "cache": CACHE})
        assert stage.content.followed == [("u", D1, True), ("u", f"{LOCAL}/u-cache", False)]
        assert stage.manager.state("u").wanted
        await asyncio.sleep(5)
        stage.manager.release("u")
        assert stage.content.followed == []
        await asyncio.sleep(5)
        assert stage.machine.mounts == set()
        assert stage.manager.volumes_in_use() == ()
        assert stage.manager.pods() == []
        await stage.manager.drained()

    run(story())


@pytest.mark.parametrize("first", ["seen", "written"])
def test_a_volume_that_a_pod_has_by_two_names_is_mounted_to_be_written_if_by_one_it_is(
    run: Run, stage: ManagedVolumes, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """There is one mount for both: containers that may only read it are kept from writing by their own."""

    async def story() -> None:
        specs = {"seen": replace(disk(), read_only=True), "written": disk()}
        monkeypatch.setattr(stage.manager._operations, "is_read_only", lambda spec, pod: spec.read_only)
        await stage.start()
        stage.manager.want(pod("u"), {first: specs.pop(first), **specs})
        await asyncio.sleep(5)
        assert stage.manager.state("u").read_only == {"seen"}
        assert [want.spec.read_only for _, want in stage.manager._known.set_up()] == [False]

    run(story())


def test_what_failed_is_tried_again_at_once_when_its_pod_wants_it_anew(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.start()
        stage.machine.failures["set-up"] = OSError("busy")
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(300)
        stage.machine.failures.clear()
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(0.1)
        assert stage.manager.state("u").mounted

    run(story())


def test_a_pod_that_terminates_keeps_what_it_has_and_gets_nothing_new(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u")
        stage.attached = ()
        stage.manager.want(pod("u"), {"data": disk(), "late": disk("d2")})
        stage.manager.terminating("u")
        stage.manager.terminating("a pod of which nothing is known")
        stage.change(attached=("d1", "d2"))
        await asyncio.sleep(300)
        state = stage.manager.state("u")
        assert (list(state.mounted), list(state.waiting), state.wanted) == (["data"], ["late"], True)

    run(story())


def test_a_pod_that_goes_before_it_has_anything_is_told_of_at_once(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        stage.attached = ()
        await stage.start()
        stage.manager.want(pod("u"), {"data": disk()})
        await asyncio.sleep(5)
        stage.changed.clear()
        stage.manager.release("u")
        assert stage.changed == ["u"]
        assert stage.manager.pods() == []
        await asyncio.sleep(5)
        assert stage.machine.journal == []
        assert names(stage.published_so_far) == ["d1", ""]

    run(story())


def test_content_that_has_changed_is_shown_to_the_pods_that_want_it(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.start()
        for uid in ("u", "v"):
            stage.manager.want(pod(uid), {"cache": CACHE, "data": disk()})
        await asyncio.sleep(5)
        before = [*stage.machine.journal]
        stage.manager.content_changed("u", f"{LOCAL}/u-cache")
        stage.manager.content_changed("u", D1)  # what a disk shows follows nothing
        stage.manager.content_changed("u", f"{DISK}/unknown")
        stage.manager.content_changed("u", f"{LOCAL}/v-cache")
        await asyncio.sleep(5)
        assert stage.machine.journal[len(before) :] == ["set-up cache"]

    run(story())


def test_a_change_of_its_content_is_tried_at_once_whatever_failed_before(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.start()
        stage.machine.failures["set-up"] = VolumeError("ConfigMap settings does not exist")
        stage.manager.want(pod("u"), {"cache": CACHE})
        await asyncio.sleep(300)
        stage.machine.failures.clear()
        stage.manager.content_changed("u", f"{LOCAL}/u-cache")
        await asyncio.sleep(0.1)
        assert stage.manager.state("u").mounted

    run(story())


@pytest.mark.parametrize("claimed", [True, False])
def test_a_claim_that_has_changed_is_read_if_its_file_system_can_grow(
    run: Run, stage: ManagedVolumes, claimed: bool
) -> None:
    async def story() -> None:
        reference = ObjectReference(namespace="default", name="c") if claimed else None
        await stage.mounted("u", spec=disk(claim_ref=reference))
        stage.looks.clear()
        stage.manager.content_changed("u", D1)
        await asyncio.sleep(5)
        assert stage.looks == (["PersistentVolume"] if claimed else [])

    run(story())


def test_a_claim_that_could_not_be_read_is_read_again_soon(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.mounted("u", spec=disk(claim_ref=ObjectReference(namespace="default", name="c")))
        stage.looks.clear()
        stage.failure = Unreachable("no answer")
        stage.manager.content_changed("u", D1)
        await asyncio.sleep(3.5)
        assert stage.looks == ["PersistentVolume"] * 4

    run(story())


def test_a_driver_that_has_come_back_is_asked_again_at_once(run: Run, stage: ManagedVolumes) -> None:
    async def story() -> None:
        await stage.start()
        stage.machine.failures["set-up"] = OSError("no such driver")
        stage.manager.want(pod("u"), {"cache": CACHE, "data": disk()})
        await asyncio.sleep(300)
        stage.machine.failures.clear()
        stage.manager.plugin_changed(DISK)
        await asyncio.sleep(0.1)
        assert list(stage.manager.state("u").mounted) == ["data"]

    run(story())


def test_a_pods_new_labels_and_annotations_are_shown_and_its_other_changes_are_not(
    run: Run, stage: ManagedVolumes
) -> None:
    async def story() -> None:
        await stage.mounted("u", spec=CACHE)
        before = pod("u")
        for changes, count in (({"labels": {"a": "b"}}, 2), ({"annotations": {"c": "d"}}, 3), ({}, 4)):
            after = pod("u", **changes)
            stage.manager.pod_updated(before, after)
            stage.manager.pod_updated(after, replace(after))
            await asyncio.sleep(5)
            assert stage.machine.journal == ["set-up cache"] * count
            assert [each for each, _, _ in stage.manager.mounted()] == [after], (
                "events are told of what it is now"
            )
            before = after
        stage.manager.pod_updated(None, pod("a pod of which nothing is known"))
        stage.manager.pod_updated(before, None)
        stage.manager.content_changed("u", f"{LOCAL}/u-cache")
        await asyncio.sleep(5)
        assert stage.machine.journal == ["set-up cache"] * 4, (
            "it gets nothing new when it is gone from the API"
        )

    run(story())
