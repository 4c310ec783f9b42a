"""What the agent does with a volume's device: what is written down before, what is known when it fails, and
what is refused.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from one_volume import ABSENT, DISK, PERMISSION, PRESENT, RECORDED, UNCERTAIN, OneVolume, disk

from mooring.kube.objects import (
    Pod,
)
from mooring.node.volumes import operations as module
from mooring.node.volumes.handshake import NotAttachedYet, Permission
from mooring.node.volumes.orphans import OrphanedVolume
from mooring.node.volumes.records import DeviceRecord
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.interfaces import DEVICE_PATH, AttachCapabilities
from mooring.volumes.spec import VolumeSpec


@pytest.fixture
def stage(tmp_path: Path, played: Any) -> OneVolume:
    return OneVolume(tmp_path, played)


async def test_a_device_is_found_verified_and_written_down_before_it_is_mounted(stage: OneVolume) -> None:
    stage.want("u")
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.done == ["wait 600", "verify /dev/d1 3", "mount /dev/d1 /plugins/mounts/d1"]
    device = DeviceRecord("/plugins/mounts/d1", "attachment", "node")
    assert stage.recorded == [replace(stage.volume.record, device=replace(device, unfinished=True))]
    assert stage.volume.record.device == device
    assert stage.volume.device is PRESENT
    assert stage.records.load() == [stage.volume.record]


async def test_what_nothing_attaches_is_mounted_without_a_device_to_wait_for(stage: OneVolume) -> None:
    stage.want("u")
    await stage.operations.mount_device(stage.volume, None)
    assert stage.done == ["mount  /plugins/mounts/d1"]
    assert stage.volume.record.device == DeviceRecord("/plugins/mounts/d1")


async def test_a_mount_that_failed_may_be_there(stage: OneVolume) -> None:
    stage.want("u")
    stage.failures["mount"] = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.volume.device is UNCERTAIN
    assert [each.device for each in stage.records.load()] == [
        DeviceRecord("/plugins/mounts/d1", "attachment", "node", unfinished=True)
    ]


@pytest.mark.parametrize("step", ["wait", "verify"])
async def test_a_device_that_is_not_found_to_be_the_volumes_is_not_mounted(
    stage: OneVolume, step: str
) -> None:
    stage.want("u")
    stage.failures[step] = VolumeError("it is another disk")
    with pytest.raises(VolumeError, match="another disk"):
        await stage.operations.mount_device(stage.volume, PERMISSION)
    assert not [each for each in stage.done if each.startswith("mount")]
    assert (stage.volume.device, stage.volume.record.device) == (ABSENT, None)


async def test_a_device_is_mounted_for_a_pod_that_starts_and_for_no_other(stage: OneVolume) -> None:
    stage.want("u").starting = False
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.done == []
    stage.want("v", disk(mount_options=("noatime",)))
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.done[-1] == "mount /dev/d1 /plugins/mounts/d1 noatime"


async def test_what_was_leaving_is_recorded_as_mounted_only_once_it_is(stage: OneVolume) -> None:
    stage.want("u")
    stage.has_record(device=DeviceRecord("/plugins/mounts/d1", "attachment", "node", leaving=True))
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert {each.device.leaving for each in stage.recorded if each.device} == {True}
    assert stage.records.load()[0].device == DeviceRecord("/plugins/mounts/d1", "attachment", "node")


async def test_mount_options_are_refused_before_anything_is_done(stage: OneVolume) -> None:
    stage.plugin.mount_options = False
    stage.want("u", disk(mount_options=("noatime", "ro")))
    stage.is_mounted()
    for step in (
        stage.operations.mount_device(stage.volume, PERMISSION),
        stage.operations.set_up(stage.volume, "u"),
    ):
        with pytest.raises(InvalidSpec, match="cannot honour the mount options noatime, ro"):
            await step
    assert stage.done == []


SELINUX = {"securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}}}


@pytest.mark.parametrize(
    ("kernel", "plugin", "options"),
    [(True, True, ' context="labelled"'), (False, True, ""), (True, False, "")],
)
async def test_a_pods_label_is_mounted_where_kernel_and_plugin_have_labels(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch, kernel: bool, plugin: bool, options: str
) -> None:
    def labelled(spec: VolumeSpec, pod: Pod) -> VolumeSpec:
        return disk(mount_options=('context="labelled"',))

    monkeypatch.setattr(module, "has_selinux", lambda: kernel)
    monkeypatch.setattr(module, "labelled", labelled)
    monkeypatch.setattr(stage.plugin, "supports_selinux_mount", lambda spec: plugin)
    stage.want("u")
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.done[-1] == f"mount /dev/d1 /plugins/mounts/d1{options}"


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_file_system_that_has_just_been_mounted_may_have_to_grow(
    stage: OneVolume, claimed: bool
) -> None:
    """The claim of a volume that was grown while nothing had it mounted asks for it still."""
    stage.want("u", disk(claim_ref={"name": "c"} if claimed else None))
    await stage.operations.mount_device(stage.volume, PERMISSION)
    assert stage.volume.to_grow is claimed


async def test_a_device_is_let_go_of_only_when_nothing_else_shows_it(stage: OneVolume) -> None:
    stage.is_mounted()
    stage.references = ("/elsewhere", "/there")
    with pytest.raises(VolumeError, match="still mounted at /elsewhere, /there: unmount it there"):
        await stage.operations.unmount_device(stage.volume, "n1")
    assert stage.done == []
    assert stage.volume.device is UNCERTAIN


async def test_that_an_unmount_has_begun_is_written_down_before_and_stays_if_it_fails(
    stage: OneVolume,
) -> None:
    stage.is_mounted()
    stage.volume.stale = True
    stage.failures["unmount"] = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        await stage.operations.unmount_device(stage.volume, "n1")
    assert stage.done == ["unmount /m"]
    leaving = replace(RECORDED, leaving=True)
    assert [each.device for each in stage.recorded] == [leaving]
    assert stage.volume.record.device == leaving
    assert (stage.volume.device, stage.volume.stale) == (UNCERTAIN, True)
    stage.failures.clear()
    await stage.operations.unmount_device(stage.volume, "n1")
    assert (stage.volume.device, stage.volume.stale, stage.volume.record.device) == (ABSENT, False, None)
    assert stage.records.load() == []
    assert "detach" not in "".join(stage.done), "a controller has attached it"


async def test_a_plugin_that_mounts_no_devices_any_more_is_to_be_installed_again(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.plugins, "find_device_mountable_plugin_by_name", lambda name: None)
    stage.is_mounted()
    with pytest.raises(VolumeError, match="cannot mount devices any more: install its version"):
        await stage.operations.unmount_device(stage.volume, "n1")


# --- attached by this agent


async def test_what_this_agent_attaches_is_written_down_first(stage: OneVolume) -> None:
    stage.want("u")
    permission = await stage.operations.attach(stage.volume, "n1", "node-uid")
    assert permission == Permission({DEVICE_PATH: "/dev/d1"}, "", "node-uid", epoch=0)
    assert stage.done == ["attach pv n1"]
    assert [each.attached_here for each in stage.recorded] == [True]
    assert stage.volume.device is UNCERTAIN


async def test_an_attach_that_is_repeated_leaves_a_mounted_device_known_as_mounted(stage: OneVolume) -> None:
    stage.want("u")
    stage.is_mounted("u")
    await stage.operations.attach(stage.volume, "n1", "node-uid")
    assert stage.volume.device is PRESENT


@pytest.mark.parametrize("multi_attach", [True, False])
async def test_an_agent_alone_attaches_no_volume_that_only_the_controllers_lock_would_keep(
    stage: OneVolume, multi_attach: bool
) -> None:
    stage.capabilities = AttachCapabilities(refuses=False, revokes=False, multi_attach=multi_attach)
    stage.want("u", disk(access_modes=("ReadWriteMany",)))
    if multi_attach:
        await stage.operations.attach(stage.volume, "n1", "node-uid")
        return
    with pytest.raises(InvalidSpec, match="does not refuse a second node"):
        await stage.operations.attach(stage.volume, "n1", "node-uid")
    assert (stage.done, stage.records.load()) == ([], [])


async def test_what_this_agent_has_attached_is_detached_when_it_is_unmounted(stage: OneVolume) -> None:
    stage.is_mounted()
    stage.has_record(attached_here=True)
    stage.failures["detach"] = VolumeError("busy")
    with pytest.raises(VolumeError, match="busy"):
        await stage.operations.unmount_device(stage.volume, "n1")
    assert [(each.device, each.attached_here) for each in stage.records.load()] == [(None, True)]
    assert stage.volume.device is UNCERTAIN
    stage.failures.clear()
    await stage.operations.unmount_device(stage.volume, "n1")
    assert stage.done == ["unmount /m", "detach d1 n1", "detach d1 n1"]
    assert stage.records.load() == []
    assert stage.volume.device is ABSENT


async def test_what_a_plugin_that_is_gone_has_attached_is_told_and_stays_recorded(stage: OneVolume) -> None:
    stage.has_record(attached_here=True)
    stage.plugin_is_gone()
    with pytest.raises(OrphanedVolume, match="install the plugin, to detach it"):
        await stage.operations.unmount_device(stage.volume, "n1")
    assert stage.volume.record.attached_here


async def test_a_plugin_that_attaches_nothing_any_more_cannot_detach_either(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.plugins, "find_attachable_plugin_by_name", lambda name: None)
    stage.has_record(attached_here=True)
    with pytest.raises(VolumeError, match="cannot detach volumes any more"):
        await stage.operations.unmount_device(stage.volume, "n1")
    assert stage.volume.record.attached_here


async def test_a_plugin_that_attaches_nothing_is_not_asked_for_an_attached_device(
    stage: OneVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.want("u")
    mountable: Any = SimpleNamespace(
        get_plugin_name=lambda: DISK,
        supports_mount_option=lambda: True,
    )
    monkeypatch.setattr(stage.plugins, "find_device_mountable_plugin_by_name", lambda name: mountable)
    with pytest.raises(NotAttachedYet, match="has no attachable volumes"):
        await stage.operations.mount_device(stage.volume, PERMISSION)
