"""Images of Ceph on a node: mapped for one, refused by the cluster for a second, let go of after a crash."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from tests.doubles.played_rbd import KEY, PlayedCluster, PlayedDevices

from mooring.volumes.errors import (
    DeviceNotAttached,
    DeviceStillInUse,
    OutcomeUnknown,
    VolumeError,
    WrongDevice,
)
from mooring.volumes.plugins.ceph.cluster import Cluster, Monitor
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.plugins.rbd import images as images_module
from mooring.volumes.plugins.rbd.devices import Mapping, order_of
from mooring.volumes.plugins.rbd.images import Images
from mooring.volumes.plugins.rbd.notes import Notes
from mooring.volumes.plugins.rbd.source import Image

CLUSTER = Cluster((Monitor("10.0.0.1"),), "pods")
ONE, OLD = Image(CLUSTER, "rbd", "one"), Image(CLUSTER, "rbd", "old")


class Node:
    """A node, whose agent may be started anew."""

    def __init__(self, root: Path, cluster: PlayedCluster | None = None) -> None:
        self.root = root
        self.devices = PlayedDevices(cluster or PlayedCluster())
        self.programs: list[tuple[str, ...]] = []
        self.start()

    def start(self, boot: str = "boot-1") -> None:
        async def program(*words: str, deadline_s: float) -> Ended:
            self.programs.append(words)
            self.devices.loaded = True
            return Ended(0)

        self.notes = Notes(self.root, boot)
        self.images = Images(self.notes, self.devices, "node-1", program)  # type: ignore[arg-type]

    def path(self, name: str = "one", *, block: bool = False) -> str:
        return str(self.root / ("volumeDevices" if block else "mounts") / "10.0.0.1:6789" / "rbd" / name)

    async def connect(self, image: Image = ONE, *, block: bool = False, in_use: bool = False) -> str:
        path = self.path(image.name, block=block)
        return await self.images.connect(image, path, KEY, block=block, in_use=in_use)

    def clean(self) -> bool:
        return not self.devices.mapped and not self.notes.all()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_an_image_is_mapped_exclusively_and_unmapped_and_nothing_is_left(node: Node) -> None:
    assert await node.connect() == "/dev/rbd0"
    (order,) = node.devices.orders
    assert order == (
        f"10.0.0.1:6789 name=pods,secret={KEY},exclusive,lock_timeout=60,mount_timeout=30 rbd one"
    )
    await node.images.release(node.path())
    assert node.clean()
    await node.images.release(node.path())


async def test_a_volume_that_is_only_read_is_mapped_for_that_and_holds_nothing(node: Node) -> None:
    await node.connect(Image(CLUSTER, "rbd", "one", read_only=True))
    assert ",ro," in node.devices.orders[0]
    assert node.devices.cluster.holders == {}


async def test_the_key_is_written_nowhere(node: Node) -> None:
    await node.connect()
    assert not any(KEY in path.read_text() for path in node.root.rglob("*") if path.is_file())


async def test_connecting_again_maps_nothing_again(node: Node) -> None:
    first = await node.connect()
    node.start()
    assert await node.connect(in_use=True) == first
    assert len(node.devices.orders) == 1


async def test_a_second_node_is_refused_by_the_cluster_and_told_what_to_do(tmp_path: Path) -> None:
    cluster = PlayedCluster()
    first, second = Node(tmp_path / "1", cluster), Node(tmp_path / "2", cluster)
    await first.connect()
    with pytest.raises(DeviceNotAttached, match="another client has it, and answers"):
        await second.connect()
    await first.images.release(first.path())
    assert await second.connect() == "/dev/rbd0"


async def test_an_image_without_exclusive_locks_is_mapped_as_it_can_be(node: Node) -> None:
    await node.connect(OLD)
    assert [",rw," in order for order in node.devices.orders] == [False, True]
    assert node.devices.cluster.holders == {}


async def test_an_image_with_exclusive_locks_is_never_mapped_without(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(order: str) -> None:
        if "exclusive" in order:
            raise OSError(errno.EINVAL, "")
        PlayedDevices.do(node.devices, order)

    monkeypatch.setattr(node.devices, "do", refuse)
    with pytest.raises(DeviceNotAttached, match="exclusively"):
        await node.connect()
    assert node.devices.mapped == {}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errno.ENOENT, "no such pool or image"),
        (errno.EACCES, "refuse the user or its key"),
        (errno.EPERM, "profile rbd"),
        (errno.ETIMEDOUT, "no Ceph monitor answers"),
        (errno.ENXIO, "rbd feature disable"),
        (errno.EIO, "Input/output error"),
    ],
)
async def test_a_failure_says_what_it_means_and_never_the_key(node: Node, code: int, told: str) -> None:
    node.devices.failure = OSError(code, KEY)
    with pytest.raises(DeviceNotAttached, match=told) as raised:
        await node.connect()
    assert KEY not in str(raised.value)
    assert "rbd/one" in str(raised.value)
    node.devices.failure = None
    assert await node.connect() == "/dev/rbd0"


async def test_the_kernels_driver_is_loaded_when_it_is_needed(node: Node) -> None:
    node.devices.loaded = False
    await node.connect()
    assert node.programs == [("modprobe", "rbd")]


async def test_what_an_agent_that_was_killed_has_mapped_is_taken_over(node: Node) -> None:
    order = order_of(ONE, ["10.0.0.1:6789"], "another", exclusive=True)
    node.devices.do(order)
    assert await node.connect() == "/dev/rbd0"
    assert node.devices.orders == []


async def test_what_is_used_by_something_else_is_not_taken_over(node: Node) -> None:
    node.devices.do(order_of(ONE, ["10.0.0.1:6789"], KEY, exclusive=True))
    node.devices.used.add("0")
    with pytest.raises(DeviceNotAttached, match="another client has it"):
        await node.connect()


async def test_what_an_agent_that_was_killed_has_mapped_is_let_go_of(node: Node) -> None:
    node.devices.failure = OSError(errno.EIO, "")
    with pytest.raises(DeviceNotAttached):
        await node.connect()  # it is written down
    node.devices.failure = None
    node.devices.do(order_of(ONE, ["10.0.0.1:6789"], KEY, exclusive=True))
    node.start()
    await node.images.release(node.path())
    assert node.clean()


async def test_after_a_power_loss_no_device_of_before_is_taken_for_the_volumes(node: Node) -> None:
    await node.connect()
    node.devices = PlayedDevices(PlayedCluster())
    node.devices.do(order_of(Image(CLUSTER, "rbd", "two"), ["10.0.0.1:6789"], KEY, exclusive=True))
    node.start("boot-2")
    assert await node.connect() == "/dev/rbd1"
    await node.images.release(node.path())
    assert list(node.devices.images.values()) == [("rbd", "two")]


async def test_a_device_that_became_another_images_is_not_the_volumes(node: Node) -> None:
    await node.connect()
    before = node.devices.mapped["0"]
    node.devices.mapped["0"] = Mapping("0", before.order, "fsid/1//another/-", before.features, before.size)
    with pytest.raises(WrongDevice, match="not mapped any more"):
        await node.connect(in_use=True)
    await node.images.release(node.path())
    assert "0" in node.devices.mapped


async def test_what_is_mounted_is_not_let_go_of(node: Node) -> None:
    await node.connect()
    node.devices.used.add("0")
    with pytest.raises(DeviceStillInUse):
        await node.images.release(node.path())
    assert node.notes.all()
    node.devices.used.clear()
    await node.images.release(node.path())
    assert node.clean()


async def test_an_image_from_which_the_node_is_barred_is_let_go_of(node: Node) -> None:
    await node.connect()
    node.devices.flush_failure = OSError(errno.ESHUTDOWN, "")
    await node.images.release(node.path())
    assert node.clean()


async def test_a_raw_device_that_could_not_be_mapped_leaves_no_note(node: Node) -> None:
    node.devices.failure = OSError(errno.ETIMEDOUT, "")
    with pytest.raises(DeviceNotAttached):
        await node.connect(block=True)
    assert node.notes.all() == []


async def test_a_raw_device_is_found_by_its_device_after_a_restart(node: Node) -> None:
    device = await node.connect(block=True)
    node.start()
    assert await node.images.has(node.path(block=True))
    path = await node.images.block_path(device)
    assert path == node.path(block=True)
    await node.images.release(path)
    assert node.clean()
    assert await node.images.block_path(device) is None


async def test_two_volumes_of_one_image_never_share_a_device(node: Node) -> None:
    other = str(node.root / "mounts" / "10.0.0.2:6789" / "rbd" / "one")
    one, two = await asyncio.gather(
        node.connect(),
        node.images.connect(ONE, other, KEY, block=False, in_use=False),
        return_exceptions=True,
    )
    assert "/dev/rbd0" in (one, two)
    assert isinstance(one, DeviceNotAttached) or isinstance(two, DeviceNotAttached)


async def test_a_cluster_that_does_not_answer_keeps_nothing_longer_than_the_deadline(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    answers, real = threading.Event(), node.devices.do

    def late(order: str) -> None:
        answers.wait(20)
        real(order)

    monkeypatch.setattr(images_module, "MAP_S", 0.05)
    monkeypatch.setattr(node.devices, "do", late)
    with pytest.raises(OutcomeUnknown, match=r"map 10\.0\.0\.1:6789 name=pods,secret=,exclusive"):
        await node.connect()
    with pytest.raises(OutcomeUnknown):
        await node.connect()
    assert len(node.devices.orders) == 1
    answers.set()
    monkeypatch.setattr(images_module, "MAP_S", 20)
    assert await node.connect() == "/dev/rbd0"
    assert len(node.devices.orders) == 1


async def test_a_raw_device_that_an_agent_which_was_killed_has_mapped_is_let_go_of(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(note: object) -> None:
        raise asyncio.CancelledError

    save = node.notes.save
    monkeypatch.setattr(node.notes, "save", lambda note: save(note) if not note.number else killed(note))  # type: ignore[misc]
    with pytest.raises(asyncio.CancelledError):
        await node.connect(block=True)
    assert node.devices.mapped
    node.start()
    path = await node.images.block_path(node.path(block=True))
    assert path is not None
    await node.images.release(path)
    assert node.clean()


@pytest.mark.parametrize("block", [False, True])
async def test_an_image_that_is_mapped_only_after_its_pod_is_gone_is_let_go_of(
    node: Node, monkeypatch: pytest.MonkeyPatch, block: bool
) -> None:
    """While the kernel may still map it, it is not certain that nothing is mapped: no other node could."""
    import threading

    answers, real = threading.Event(), node.devices.do

    def late(order: str) -> None:
        answers.wait(20)
        real(order)

    for seconds in ("MAP_S", "UNMAP_S"):
        monkeypatch.setattr(images_module, seconds, 0.05)
    monkeypatch.setattr(node.devices, "do", late)
    with pytest.raises(OutcomeUnknown, match="map"):
        await node.connect(block=block)
    path = node.path(block=block)
    if block:  # as the record of a raw device that was not given yet has it
        assert await node.images.block_path(path) == path
    with pytest.raises(OutcomeUnknown, match="map"):
        await node.images.release(path)
    monkeypatch.setattr(images_module, "UNMAP_S", 20)
    answers.set()
    await node.images.release(path)
    assert node.clean()


async def test_the_size_follows_the_image(node: Node) -> None:
    await node.connect()
    assert await node.images.size(node.path()) == ("/dev/rbd0", 64 << 20)
    with pytest.raises(DeviceNotAttached):
        await node.images.size(node.path("two"))


async def test_a_path_that_says_nothing_is_not_let_go_of_by_guessing(node: Node) -> None:
    with pytest.raises(VolumeError, match="does not say"):
        await node.images.release("/elsewhere/a")
