"""The disk plugin on real loop devices: a volume's whole life, refusals across processes, kill -9, power
loss."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Pod,
    VolumeResourceRequirements,
)
from mooring.mounts import loop, syscalls
from mooring.mounts.commands import run
from mooring.mounts.errors import FilesystemMismatch
from mooring.mounts.host import HostMounts
from mooring.mounts.power_loss import shutdown_filesystem
from mooring.mounts.table import mounts_below, read_mount_table
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceNotAttached,
    DeviceStillInUse,
    InvalidSpec,
    VolumeInUse,
    VolumeNotFound,
    WrongDevice,
)
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import VolumeOptions
from mooring.volumes.plugins.disk import DiskPlugin
from mooring.volumes.plugins.disk_array import Delays, DiskArray
from mooring.volumes.plugins.disk_source import PLUGIN_NAME
from mooring.volumes.spec import VolumeSpec

pytestmark = pytest.mark.root

SIZE = 16 * 1024 * 1024
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="default", uid="pod-uid"))


class DisksOnNodes:
    """One array and the plugin as it runs on each node (and, without its node, on a controller)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.array = DiskArray(root / "array")

    def plugin(self, node: str) -> DiskPlugin:
        async def nothing(namespace: str, name: str) -> None:
            return None

        settings = {PLUGIN_NAME: {"array": str(self.root / "array")}}
        plugin = DiskPlugin()
        now = lambda: datetime(2030, 1, 1, tzinfo=UTC)  # noqa: E731
        plugin.init(NodeVolumeHost(node, self.root / node, HostMounts(), now, nothing, nothing, settings))
        return plugin

    async def mount(self, spec: VolumeSpec, node: str) -> str:
        """From attached to used by the pod; returns the pod's path."""
        attacher = self.plugin(node).new_attacher()
        device = await attacher.wait_for_attach(spec, {}, 5)
        await attacher.mount_device(spec, device, attacher.get_device_mount_path(spec))
        mounter = self.plugin(node).new_mounter(spec, POD)
        await mounter.can_mount()
        await mounter.set_up()
        return mounter.get_path()

    async def unmount(self, spec: VolumeSpec, node: str) -> None:
        plugin = self.plugin(node)
        await plugin.new_unmounter(spec.name, POD.uid).tear_down()
        await plugin.new_detacher().unmount_device(plugin.new_attacher().get_device_mount_path(spec))

    def clean_up(self) -> None:
        for mount in mounts_below(read_mount_table(), str(self.root)):
            syscalls.unmount(mount.mount_point)
        for disk in os.listdir(self.root / "array" / "disks"):
            medium = str(self.root / "array" / "disks" / disk / "disk.img")
            for device in loop.devices_of(medium):
                loop.remove(device, medium)


@pytest.fixture
def world(tmp_path: Path) -> Generator[DisksOnNodes]:
    world = DisksOnNodes(tmp_path)
    world.array.create("d", SIZE)
    yield world
    world.clean_up()


def volume(disk: str = "d", **options: str) -> VolumeSpec:
    source = FlexVolumeSource(driver=PLUGIN_NAME, fs_type="ext4", options={"disk": disk, **options})
    pv = PersistentVolume(
        metadata=ObjectMeta(name=f"pv-{disk}"), spec=PersistentVolumeSpec(flex_volume=source)
    )
    return VolumeSpec.of_persistent_volume(pv)


async def test_the_whole_life_of_a_volume(world: DisksOnNodes):
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="default", uid="u"),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=VolumeResourceRequirements(requests={"storage": "16Mi"}),
        ),
    )
    plugin = world.plugin("a")
    pv = await plugin.new_provisioner(VolumeOptions("pvc-u", claim)).provision()
    spec = VolumeSpec.of_persistent_volume(pv)
    for node in ("a", "b"):
        await plugin.new_attacher().attach(spec, node)
        path = Path(await world.mount(spec, node))
        (path / node).write_text("written here")
        await world.unmount(spec, node)
        await plugin.new_detacher().detach(plugin.get_volume_name(spec), node)
    await plugin.new_attacher().attach(spec, "a")
    assert {"a", "b"} <= set(os.listdir(await world.mount(spec, "a")))
    await world.unmount(spec, "a")
    with pytest.raises(DeletedVolumeInUse):
        await plugin.new_deleter(spec).delete()
    await plugin.new_detacher().detach("pvc-u", "a")
    await plugin.new_deleter(spec).delete()
    assert "pvc-u" not in world.array.list()


async def test_every_step_can_be_repeated(world: DisksOnNodes):
    plugin, spec = world.plugin("a"), volume()
    for _ in range(2):
        await plugin.new_attacher().attach(spec, "a")
        await world.mount(spec, "a")
    assert len(mounts_below(read_mount_table(), str(world.root))) == 2
    for _ in range(2):
        await world.unmount(spec, "a")
    for _ in range(2):
        await plugin.new_detacher().detach("d", "a")
    assert loop.devices_of(str(world.root / "array/disks/d/disk.img")) == []


async def test_a_detach_is_refused_until_the_node_has_unmounted(world: DisksOnNodes):
    plugin, spec = world.plugin("a"), volume()
    await plugin.new_attacher().attach(spec, "a")
    await world.mount(spec, "a")
    with pytest.raises(DeviceStillInUse, match=f"mounted at {world.root}/a/plugins"):
        await plugin.new_detacher().detach("d", "a")
    await plugin.new_unmounter(spec.name, POD.uid).tear_down()
    with pytest.raises(DeviceStillInUse):
        await plugin.new_detacher().detach("d", "a")
    await world.unmount(spec, "a")
    await plugin.new_detacher().detach("d", "a")


async def test_a_node_is_asked_for_other_references_before_it_unmounts_the_device(world: DisksOnNodes):
    plugin, spec = world.plugin("a"), volume()
    await plugin.new_attacher().attach(spec, "a")
    path = await world.mount(spec, "a")
    device_mount_path = plugin.new_attacher().get_device_mount_path(spec)
    assert await plugin.get_device_mount_refs(device_mount_path) == [path]
    await plugin.new_unmounter(spec.name, POD.uid).tear_down()
    assert await plugin.get_device_mount_refs(device_mount_path) == []


async def test_a_restarted_agent_finds_the_disk_behind_a_pods_mount(world: DisksOnNodes):
    plugin, spec = world.plugin("a"), volume()
    await plugin.new_attacher().attach(spec, "a")
    path = await world.mount(spec, "a")
    found = await plugin.construct_volume_spec(spec.name, path)
    assert (found.name, plugin.get_volume_name(found)) == (spec.name, "d")
    with pytest.raises(InvalidSpec):
        await plugin.construct_volume_spec(spec.name, str(world.root))


async def test_a_volume_that_is_attached_elsewhere_is_refused_and_what_is_attached_is_told(
    world: DisksOnNodes,
):
    attacher, spec = world.plugin("").new_attacher(), volume()
    await attacher.attach(spec, "a")
    with pytest.raises(VolumeInUse, match="attached to node a"):
        await attacher.attach(spec, "b")
    assert await attacher.bulk_verify_volumes({"a": [spec], "b": [spec]}) == {
        "a": {spec: True},
        "b": {spec: False},
    }


async def test_a_missing_disk_and_a_wrong_claim_of_exclusiveness_are_refused(world: DisksOnNodes):
    attacher = world.plugin("").new_attacher()
    with pytest.raises(VolumeNotFound, match="no volume nowhere"):
        await attacher.attach(volume("nowhere"), "a")
    with pytest.raises(InvalidSpec, match="exclusive: true"):
        await attacher.attach(volume(exclusive="false"), "a")
    assert world.array.attachments() == {"d": ()}


async def test_a_device_that_does_not_come_is_named_with_the_place_where_it_was_looked_for(
    world: DisksOnNodes,
):
    with pytest.raises(DeviceNotAttached, match="by-id/mooring-d"):
        await world.plugin("a").new_attacher().wait_for_attach(volume(), {}, 0)


async def test_a_device_that_comes_later_is_waited_for(world: DisksOnNodes):
    waiting = asyncio.create_task(world.plugin("a").new_attacher().wait_for_attach(volume(), {}, 60))
    await asyncio.sleep(0)
    path = (await world.plugin("").new_attacher().attach(volume(), "a"))["devicePath"]
    assert await waiting == path


async def test_the_device_of_another_disk_is_never_mounted(world: DisksOnNodes):
    world.array.create("other", SIZE)
    attacher = world.plugin("a").new_attacher()
    theirs = (await attacher.attach(volume("other"), "a"))["devicePath"]
    with pytest.raises(WrongDevice, match="not a device of disk d"):
        await attacher.mount_device(volume(), theirs, attacher.get_device_mount_path(volume()))
    assert (await HostMounts().probe(os.path.realpath(theirs))).content.value == "blank"


async def test_a_raw_device_is_verified_and_not_taken_away_while_it_is_open(world: DisksOnNodes):
    plugin, spec = world.plugin("a"), volume()
    world.array.create("other", SIZE)
    await plugin.new_attacher().attach(volume("other"), "a")
    path = (await plugin.new_attacher().attach(spec, "a"))["devicePath"]
    with pytest.raises(WrongDevice):
        await plugin.set_up_device(volume("other"), path)
    device = await plugin.set_up_device(spec, path)
    opened = os.open(device, os.O_RDWR)
    with pytest.raises(DeviceStillInUse):
        await plugin.new_detacher().detach("d", "a")
    os.close(opened)
    await plugin.new_detacher().detach("d", "a")


async def test_a_disk_with_a_foreign_file_system_is_left_as_it_is(world: DisksOnNodes):
    device = os.path.realpath((await world.plugin("").new_attacher().attach(volume(), "a"))["devicePath"])
    await run("mkfs.ext2", "-q", device)
    with pytest.raises(FilesystemMismatch, match="ext2"):
        await world.mount(volume(), "a")


async def test_power_loss_of_a_node_moves_what_was_fsynced_to_another_and_nothing_else(world: DisksOnNodes):
    attacher, spec = world.plugin("").new_attacher(), volume()
    await attacher.attach(spec, "a")
    path = Path(await world.mount(spec, "a"))
    for name, synced in (("kept", True), ("lost", False)):
        descriptor = os.open(path / name, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"record")
        if synced:
            os.fsync(descriptor)
        os.close(descriptor)
    shutdown_filesystem(str(path))
    with pytest.raises(DeviceStillInUse):
        world.array.power_off("a")
    for mount in mounts_below(read_mount_table(), str(world.root)):  # the machine's mount namespace ends
        syscalls.unmount(mount.mount_point)
    world.array.power_off("a")
    with pytest.raises(VolumeInUse):
        await attacher.attach(spec, "b")
    await attacher.detach("d", "a")
    await attacher.attach(spec, "b")
    moved = Path(await world.mount(spec, "b"))
    assert (moved / "kept").read_text() == "record"
    assert not (moved / "lost").exists()


async def test_a_request_that_is_given_up_in_its_delay_has_no_effect(world: DisksOnNodes):
    world.array.set_delays("d", Delays(attach=3600, detach=3600))
    attacher = world.plugin("").new_attacher()
    request = asyncio.create_task(attacher.attach(volume(), "a"))
    await asyncio.sleep(0.05)
    request.cancel()
    await asyncio.wait([request])
    assert world.array.attachments() == {"d": ()}


async def test_a_request_whose_answer_is_lost_has_had_its_effect(world: DisksOnNodes):
    world.array.set_delays("d", Delays(attach_reply=3600))
    attacher = world.plugin("").new_attacher()
    request = asyncio.create_task(attacher.attach(volume(), "a"))
    while world.array.device("d", "a") is None:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert not request.done()
    request.cancel()
    await asyncio.wait([request])
    assert (await attacher.attach(volume(), "a"))["devicePath"] == world.array.device_path("d", "a")


# --- several processes

ATTACH = """
import sys
from pathlib import Path
from mooring.volumes.errors import VolumeInUse
from mooring.volumes.plugins.disk_array import DiskArray
array, node = DiskArray(Path(sys.argv[1])), sys.argv[2]
input()
try:
    array.attach("d", node)
    print("attached")
except VolumeInUse:
    print("refused")
"""


def test_of_many_processes_that_attach_at_once_one_succeeds(world: DisksOnNodes):
    command = [sys.executable, "-c", ATTACH, str(world.root / "array")]
    processes = [
        subprocess.Popen([*command, f"n{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(6)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate()[0].strip() for process in processes]
    assert sorted(answers) == ["attached"] + ["refused"] * 5
    winner = f"n{answers.index('attached')}"
    assert world.array.attachments() == {"d": (winner,)}
    assert list(world.array.devices(winner)) == ["d"]


WORK = """
import random, sys
from contextlib import suppress
from pathlib import Path
from mooring.volumes.errors import StorageRefused
from mooring.volumes.plugins.disk_array import DiskArray
array, rng = DiskArray(Path(sys.argv[1])), random.Random(int(sys.argv[2]))

def power(disk, node):
    rng.choice([array.power_on, array.power_off])(node)

print("ready", flush=True)
while True:
    with suppress(StorageRefused):
        rng.choice([array.attach, array.detach, power])(rng.choice("de"), rng.choice("ab"))
"""


@pytest.mark.parametrize("seed", range(30 if os.environ.get("MOORING_SOAK") else 3))
def test_killed_at_random_moments_the_array_stays_whole(world: DisksOnNodes, seed: int):
    """Two processes work on the same disks until they are killed; then everything that must hold, holds."""
    world.array.create("e", SIZE)
    rng = random.Random(seed)
    for _ in range(3):
        workers = [_worker(world, rng.randrange(10**6)) for _ in range(2)]
        for worker in workers:
            _after_a_moment(rng)
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        for name, disk in world.array.list().items():
            assert len(disk.nodes) <= 1
            assert {node for node in "ab" if world.array.device(name, node)} <= set(disk.nodes)
    world.array.recover()
    _assert_devices_are_the_recorded_ones(world)


def _worker(world: DisksOnNodes, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, str(world.root / "array"), str(seed)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert worker.stdout
    assert worker.stdout.readline() == "ready\n"
    return worker


def _after_a_moment(rng: random.Random) -> None:
    subprocess.run(["sleep", f"{rng.uniform(0.01, 0.15):.3f}"], check=True)


def _assert_devices_are_the_recorded_ones(world: DisksOnNodes) -> None:
    for name, disk in world.array.list().items():
        expected = [world.array.device(name, node) for node in disk.nodes if world.array.powered(node)]
        assert None not in expected
        assert sorted(map(str, expected)) == loop.devices_of(
            str(world.root / "array" / "disks" / name / "disk.img")
        )
