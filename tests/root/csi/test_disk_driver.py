"""`disk.mooring.dev` as an orchestrator meets it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from csi_answers import code_of

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi_disk.values import TOPOLOGY_KEY
from mooring.mounts.commands import run
from mooring.mounts.table import mount_at, read_mount_table

from .conftest import SIZE, TIMEOUT_S, Disks, mounted, raw

pytestmark = pytest.mark.root


async def test_the_whole_life_of_a_volume(disks: Disks) -> None:
    volume = await disks.create()
    assert (volume.volume_id, volume.capacity_bytes, dict(volume.volume_context)) == (
        "v1",
        SIZE,
        {"fsType": "ext4"},
    )
    assert dict(volume.accessible_topology[0].segments) == {TOPOLOGY_KEY: "m1"}
    path = await disks.mount()
    (path / "file").write_text("kept")
    await disks.unmount()
    assert not path.exists()
    assert ((await disks.mount()) / "file").read_text() == "kept"
    await disks.unmount()
    await disks.delete()
    assert disks.array.list() == {}


async def test_every_step_can_be_repeated(disks: Disks) -> None:
    assert await disks.create() == await disks.create()
    for step in (
        disks.attach,
        disks.stage,
        disks.publish,
        disks.unpublish,
        disks.unstage,
        disks.detach,
        disks.delete,
    ):
        assert await step() == await step()


async def test_a_raw_device_is_a_file_in_its_targets_place(disks: Disks) -> None:
    await disks.create(capability=raw())
    path = await disks.mount(capability=raw())
    assert path.is_block_device()
    path.write_bytes(b"raw" + bytes(509))
    assert (await disks.publish(capability=raw())) == path
    await disks.unmount()
    assert not path.exists()


async def test_a_target_that_shows_another_device_is_refused(disks: Disks) -> None:
    for volume in ("v1", "v2"):
        await disks.create(volume, capability=raw())
    path = await disks.mount("v2", capability=raw())
    there = os.stat(path).st_rdev
    await disks.attach("v1", capability=raw())
    await disks.stage("v1", raw())
    with pytest.raises(CsiError, match=f"is mounted at {path}") as caught:
        await disks.publish("v1", capability=raw())
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert os.stat(path).st_rdev == there


async def test_a_target_that_shows_another_file_system_is_refused(disks: Disks) -> None:
    for volume in ("v1", "v2"):
        await disks.create(volume)
    path = await disks.mount("v2")
    await disks.attach("v1")
    await disks.stage("v1")
    with pytest.raises(CsiError, match=f"is mounted at {path}") as caught:
        await disks.publish("v1")
    assert caught.value.code is Code.FAILED_PRECONDITION


async def test_a_target_that_shows_the_volume_in_the_other_way_is_refused(disks: Disks) -> None:
    await disks.create()
    path = await disks.mount()
    assert await code_of(disks.publish(capability=raw())) is Code.FAILED_PRECONDITION
    await disks.unpublish()
    await disks.publish(capability=raw())
    assert await code_of(disks.publish()) is Code.FAILED_PRECONDITION
    assert path.is_block_device()


async def test_a_file_that_holds_something_is_not_removed_from_a_targets_place(disks: Disks) -> None:
    disks.target().write_text("somebody's")
    with pytest.raises(CsiError, match="it is no empty file") as caught:
        await disks.unpublish()
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert disks.target().read_text() == "somebody's"


async def test_a_snapshot_and_a_clone_hold_what_was_written_before(disks: Disks) -> None:
    await disks.create()
    path = await disks.mount()
    (path / "file").write_text("before")
    request = csi.CreateSnapshotRequest(source_volume_id="v1", name="s1")
    snapshot = (await disks.controller.create_snapshot(request, timeout_s=TIMEOUT_S)).snapshot
    assert (snapshot.source_volume_id, snapshot.size_bytes, snapshot.ready_to_use) == ("v1", SIZE, True)
    (path / "file").write_text("after")
    sources = {
        "restored": csi.VolumeContentSource(
            snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id="s1")
        ),
        "cloned": csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id="v1")),
    }
    await disks.unmount()
    found: dict[str, str] = {}
    for name, source in sources.items():
        volume = await disks.create(name, volume_content_source=source)
        assert volume.content_source == source
        found[name] = ((await disks.mount(name)) / "file").read_text()
        await disks.unmount(name)
    assert found == {"restored": "before", "cloned": "after"}


@pytest.mark.parametrize(
    ("source", "size", "code"),
    [
        (csi.VolumeContentSource(volume={"volume_id": "nothing"}), SIZE, Code.NOT_FOUND),
        (csi.VolumeContentSource(snapshot={"snapshot_id": "nothing"}), SIZE, Code.NOT_FOUND),
        (csi.VolumeContentSource(volume={"volume_id": "v1"}), SIZE // 2, Code.OUT_OF_RANGE),
    ],
)
async def test_content_that_is_not_there_or_does_not_fit(
    disks: Disks, source: Any, size: int, code: Code
) -> None:
    await disks.create()
    assert await code_of(disks.create("v2", size=size, volume_content_source=source)) is code
    assert [*disks.array.list()] == ["v1"]


async def test_a_file_system_grows_with_its_volume(disks: Disks) -> None:
    """While it is mounted, where the kernel lets this process do that; else when it is staged next."""
    await disks.create()
    path = await disks.mount()
    before = os.statvfs(path).f_blocks
    grow = csi.ControllerExpandVolumeRequest(volume_id="v1", capacity_range={"required_bytes": 4 * SIZE})
    grown = await disks.controller.controller_expand_volume(grow, timeout_s=TIMEOUT_S)
    assert (grown.capacity_bytes, grown.node_expansion_required) == (4 * SIZE, True)
    request = csi.NodeExpandVolumeRequest(
        volume_id="v1", volume_path=str(path), capacity_range=grow.capacity_range
    )
    try:
        reply = await disks.node.node_expand_volume(request, timeout_s=TIMEOUT_S)
        assert reply.capacity_bytes == 4 * SIZE
    except CsiError as error:
        assert "CAP_SYS_RESOURCE" in error.message
        assert error.code is Code.FAILED_PRECONDITION
        await disks.unmount()
        await disks.mount()
    assert os.statvfs(path).f_blocks > 3 * before


async def test_a_volume_says_how_full_it_is(disks: Disks) -> None:
    await disks.create()
    path = await disks.mount()
    request = csi.NodeGetVolumeStatsRequest(volume_id="v1", volume_path=str(path))
    reply = await disks.node.node_get_volume_stats(request, timeout_s=TIMEOUT_S)
    size, inodes = reply.usage
    assert (size.unit, inodes.unit) == (csi.VolumeUsage.Unit.BYTES, csi.VolumeUsage.Unit.INODES)
    assert 0 < size.available <= size.total <= SIZE
    await disks.unmount()
    assert await code_of(disks.node.node_get_volume_stats(request, timeout_s=TIMEOUT_S)) is Code.NOT_FOUND


async def test_a_disk_is_attached_to_one_node_and_lists_say_to_which(disks: Disks) -> None:
    await disks.create()
    await disks.attach()
    (disks.root / "array" / "csi-nodes" / "n2").write_text("0")
    assert await code_of(disks.attach(node="n2")) is Code.FAILED_PRECONDITION
    listed = await disks.controller.list_volumes(csi.ListVolumesRequest(), timeout_s=TIMEOUT_S)
    assert [list(entry.status.published_node_ids) for entry in listed.entries] == [["n1"]]
    assert await code_of(disks.delete()) is Code.FAILED_PRECONDITION


async def test_a_node_that_nobody_knows_is_not_found(disks: Disks) -> None:
    await disks.create()
    for node in ("n7", "../n1", "n1/../n1"):
        assert await code_of(disks.attach(node=node)) in (Code.NOT_FOUND, Code.INVALID_ARGUMENT)
    assert disks.array.get("v1").nodes == ()


async def test_a_detach_is_refused_while_the_volume_is_mounted(disks: Disks) -> None:
    await disks.create()
    await disks.mount()
    assert await code_of(disks.detach()) is Code.FAILED_PRECONDITION
    await disks.unpublish()
    await disks.unstage()
    await disks.detach(node="")
    assert disks.array.get("v1").nodes == ()


async def test_the_order_of_steps_is_kept(disks: Disks) -> None:
    await disks.create()
    assert await code_of(disks.stage()) is Code.FAILED_PRECONDITION
    await disks.attach()
    assert await code_of(disks.publish()) is Code.FAILED_PRECONDITION
    assert not disks.target().exists()


async def test_a_read_only_publication_beside_a_writable_one(disks: Disks) -> None:
    await disks.create()
    writable = await disks.mount()
    reading = await disks.publish(target="reading", readonly=True)
    (writable / "file").write_text("x")
    assert (reading / "file").read_text() == "x"
    with pytest.raises(OSError, match="Read-only"):
        (reading / "file").write_text("y")
    assert await code_of(disks.publish(target="reading")) is Code.ALREADY_EXISTS
    await disks.unpublish(target="reading")


async def test_a_volume_for_readers_is_read_only_on_every_way(disks: Disks) -> None:
    await disks.create()
    await disks.mount()
    await disks.unmount()
    reading = mounted(mode=AccessMode.SINGLE_NODE_READER_ONLY)
    path = await disks.mount(capability=reading)
    await disks.publish(capability=reading)
    with pytest.raises(OSError, match="Read-only"):
        (path / "file").write_text("x")


async def test_a_volume_for_one_workload_has_one_target(disks: Disks) -> None:
    alone = mounted(mode=AccessMode.SINGLE_NODE_SINGLE_WRITER)
    await disks.create(capability=alone)
    await disks.mount(capability=alone)
    assert await code_of(disks.publish(target="second", capability=alone)) is Code.FAILED_PRECONDITION
    await disks.publish(capability=alone)


async def test_a_disk_that_holds_something_else_is_not_formatted(disks: Disks) -> None:
    await disks.create()
    device = os.path.realpath((await disks.attach())["devicePath"])
    await run("mkswap", "-q", device)
    assert await code_of(disks.stage()) is Code.FAILED_PRECONDITION
    assert b"SWAPSPACE2" in (disks.root / "array" / "disks" / "v1" / "disk.img").read_bytes()[:8192]


async def test_mount_options_reach_the_mount(disks: Disks) -> None:
    capability = mounted(fs_type="ext4", flags=("noatime", "nosuid"))
    await disks.create(capability=capability)
    await disks.attach()
    path = await disks.stage(capability=capability)
    mount = mount_at(read_mount_table(), str(path))
    assert mount is not None
    assert {"noatime", "nosuid"} <= mount.options


async def test_a_name_may_hold_anything(disks: Disks) -> None:
    names = ["a/../../b", ".hidden", "ümläut ; rm -rf /", "x" * 128]
    volumes = [await disks.create(name) for name in names]
    again = [await disks.create(name) for name in names]
    assert volumes == again
    assert len({volume.volume_id for volume in volumes}) == 4
    assert all(volume.volume_id.startswith("sha256-") for volume in volumes)


async def test_a_name_is_taken_by_a_volume_of_another_size(disks: Disks) -> None:
    await disks.create()
    assert await code_of(disks.create(size=2 * SIZE)) is Code.ALREADY_EXISTS


async def test_what_cannot_be_reached_is_not_provisioned(disks: Disks) -> None:
    elsewhere = csi.TopologyRequirement(requisite=[csi.Topology(segments={TOPOLOGY_KEY: "m2"})])
    assert await code_of(disks.create(accessibility_requirements=elsewhere)) is Code.RESOURCE_EXHAUSTED
    elsewhere.requisite.append(csi.Topology(segments={TOPOLOGY_KEY: "m1"}))
    await disks.create(accessibility_requirements=elsewhere)


async def test_lists_come_in_pages_that_survive_a_deletion(disks: Disks) -> None:
    for name in ("a", "b", "c", "d"):
        await disks.create(name)
    request = csi.ListVolumesRequest(max_entries=2)
    first = await disks.controller.list_volumes(request, timeout_s=TIMEOUT_S)
    await disks.delete("b")
    request.starting_token = first.next_token
    second = await disks.controller.list_volumes(request, timeout_s=TIMEOUT_S)
    assert [entry.volume.volume_id for entry in (*first.entries, *second.entries)] == ["a", "b", "c", "d"]
    assert second.next_token == ""
    assert first.next_token != ""


async def test_a_node_does_not_grow_what_has_not_grown_in_the_array(disks: Disks) -> None:
    await disks.create()
    path = str(await disks.mount())
    request = csi.NodeExpandVolumeRequest(
        volume_id="v1", volume_path=path, capacity_range={"required_bytes": 8 * SIZE}
    )
    assert await code_of(disks.node.node_expand_volume(request, timeout_s=TIMEOUT_S)) is Code.OUT_OF_RANGE
