"""Disks of Photon Controller: attached, found by their own name, given back, whatever the service does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_volumes import volume_of
from tests.doubles.played_fc import PlayedFabric
from tests.doubles.storage_api import PlayedPhoton, certificates

from mooring.kube.errors import NotLeading
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    PhotonPersistentDiskVolumeSource,
    Pod,
)
from mooring.volumes.errors import (
    DeviceNotAttached,
    InvalidSpec,
    NotAsked,
    OutcomeUnknown,
    PluginError,
    StorageRefused,
    VolumeError,
    VolumeInUse,
    VolumeNotFound,
    WrongDevice,
)
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost
from mooring.volumes.plugins.photon.controller import Controller, api
from mooring.volumes.plugins.photon.plugin import PhotonPlugin
from mooring.volumes.plugins.photon.source import PLUGIN_NAME
from mooring.volumes.spec import VolumeSpec

DISK = "6000c298-595b-f457-5739-e9105b2c0c2d"
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


class World:
    """A controller, and the service."""

    def __init__(self, root: Path) -> None:
        self.root, self.photon = root, PlayedPhoton(token="t0ken")
        self.photon.disks = {DISK: []}
        self.server = certificates(root / "tls")
        (root / "token").write_text("t0ken\n")
        self.plugin = PhotonPlugin()
        self.settings: dict[str, str] = {}

    def run(self, story: Callable[[], Coroutine[Any, Any, None]], **settings: str) -> None:
        async def served() -> None:
            async with self.photon.serving(self.server.context()) as url:
                self._made(url, settings)
                await story()

        asyncio.run(served())

    def _made(self, url: str, settings: dict[str, str]) -> None:
        files = {"caFile": str(self.server.authority), "tokenFile": str(self.root / "token")}
        self.settings = {"target": url, "project": "p-1", **files, **settings}
        of = api(self.settings, lambda: None)
        assert of is not None
        short = replace(of, deadline_s=0.5)
        self.plugin = PhotonPlugin(Controller(short, "p-1", order_s=1.0, poll_s=0.01))
        refuse: Any = None
        self.plugin.init(NodeVolumeHost("node-1", self.root, refuse, refuse, refuse, refuse))

    async def attach(self, node: str = "node-1") -> None:
        assert await self.plugin.new_attacher().attach(volume(), node) == {}

    async def detach(self, node: str = "node-1", disk: str = DISK) -> None:
        await self.plugin.new_detacher().detach(disk, node)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def volume(pd_id: str = DISK) -> VolumeSpec:
    source = PhotonPersistentDiskVolumeSource(pd_id=pd_id)
    spec = PersistentVolumeSpec(photon_persistent_disk=source, access_modes=("ReadWriteOnce",))
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="data"), spec=spec))


def test_a_disk_is_attached_once_and_detached_once_each_as_a_task_that_is_waited_for(world: World) -> None:
    world.photon.slow = 3

    async def story() -> None:
        await world.attach()
        await world.attach()
        assert world.photon.disks == {DISK: ["vm-1"]}
        spec = volume()
        attacher = world.plugin.new_attacher()
        assert await attacher.volumes_are_attached([spec], "node-1") == {spec: True}
        assert await attacher.volumes_are_attached([spec], "node-2") == {spec: False}
        await world.detach()
        await world.detach()
        assert world.photon.disks == {DISK: []}
        assert world.photon.orders() == ["/vms/vm-1/attach_disk", "/vms/vm-1/detach_disk"]

    world.run(story)


def test_who_has_lost_the_lease_since_it_looked_orders_nothing(world: World) -> None:
    """Its successor may have detached the disk, and attached it there again."""

    def check_leading() -> None:
        raise NotLeading("another one leads")

    async def story() -> None:
        plugin, settings = PhotonPlugin(), {PLUGIN_NAME: world.settings}
        plugin.init(ControllerVolumeHost(lambda: pytest.fail("no clock"), settings, leads=check_leading))
        with pytest.raises(NotLeading):
            await plugin.new_attacher().attach(volume(), "node-1")
        world.photon.disks = {DISK: ["vm-1"]}
        with pytest.raises(NotLeading):
            await plugin.new_detacher().detach(DISK, "node-1")
        assert world.photon.orders() == []

    world.run(story)


def test_the_examples_disk_is_attached(world: World) -> None:
    async def story() -> None:
        await world.plugin.new_attacher().attach(volume_of("photon.yaml"), "node-1")
        assert world.photon.disks == {DISK: ["vm-1"]}

    world.run(story)


def test_a_disk_that_another_machine_has_is_refused_and_left_there(world: World) -> None:
    world.photon.disks[DISK] = ["vm-2"]

    async def story() -> None:
        with pytest.raises(VolumeInUse):
            await world.attach()
        await world.detach("node-1")
        assert world.photon.disks == {DISK: ["vm-2"]}
        assert world.photon.orders() == []

    world.run(story)


def test_a_disk_that_is_not_there_is_not_attached_and_counts_as_detached(world: World) -> None:
    world.photon.disks.clear()

    async def story() -> None:
        with pytest.raises(VolumeNotFound):
            await world.attach()
        await world.detach()

    world.run(story)


def test_a_node_without_a_machine_has_nothing_attached_and_what_another_has_is_not_said_detached(
    world: World,
) -> None:
    world.photon.disks[DISK] = ["vm-2"]

    async def story() -> None:
        with pytest.raises(NotAsked, match="no machine of the name node-9"):
            await world.attach("node-9")
        with pytest.raises(OutcomeUnknown, match="vm-2"):
            await world.detach("node-9")

    world.run(story)


def test_a_task_that_failed_has_not_happened_where_the_disk_says_so(world: World) -> None:
    world.photon.fails = "Disk is in the wrong \x1b[31m state"

    async def story() -> None:
        with pytest.raises(StorageRefused, match=r"wrong .*state") as raised:
            await world.attach()
        assert str(raised.value).isprintable()

    world.run(story)


def test_a_task_that_is_done_and_has_changed_nothing_is_of_unknown_outcome(world: World) -> None:
    world.photon.lost = True

    async def story() -> None:
        with pytest.raises(OutcomeUnknown, match="says otherwise"):
            await world.attach()

    world.run(story)


@pytest.mark.parametrize(
    "trouble", ["hang", "drop", 500, 404, 403, b"{}", b'{"id": "../x", "state": "QUEUED"}']
)
def test_after_an_order_nothing_is_certain_that_is_not_answered(world: World, trouble: Any) -> None:
    """`POST` itself may fail for certain: then it has not happened; what became of its task may not."""
    world.photon.trouble["GET /tasks"] = trouble

    async def story() -> None:
        with pytest.raises(OutcomeUnknown):
            await world.attach()
        world.photon.trouble.clear()
        await world.attach()
        assert world.photon.disks == {DISK: ["vm-1"]}

    world.run(story)


def test_a_task_that_does_not_end_may_happen_still(world: World) -> None:
    world.photon.slow = 10_000

    async def story() -> None:
        with pytest.raises(OutcomeUnknown, match="may happen still"):
            await world.attach()

    world.run(story)


def test_an_order_that_is_refused_has_not_happened(world: World) -> None:
    world.photon.trouble["POST"] = 400

    async def story() -> None:
        with pytest.raises(StorageRefused, match="no: 400"):
            await world.attach()

    world.run(story)


@pytest.mark.parametrize(
    ("trouble", "error"),
    [("hang", OutcomeUnknown), ("drop", OutcomeUnknown), (503, OutcomeUnknown), (401, StorageRefused)],
)
def test_without_an_answer_nothing_is_said_of_an_attachment(
    world: World, trouble: Any, error: type[Exception]
) -> None:
    world.photon.trouble["GET /disks"] = trouble

    async def story() -> None:
        with pytest.raises(error):
            await world.plugin.new_attacher().volumes_are_attached([volume()], "node-1")
        with pytest.raises(error):
            await world.detach()

    world.run(story)


@pytest.mark.parametrize("text", ["wrong", "", "two words", "line\nline"])
def test_a_wrong_token_is_said_and_shown_nowhere(world: World, text: str) -> None:
    (world.root / "token").write_text(text)

    async def story() -> None:
        with pytest.raises((StorageRefused, NotAsked), match=r"look at .*token") as raised:
            await world.attach()
        assert not text or f" {text} " not in str(raised.value)
        assert world.photon.orders() == []

    world.run(story)


def test_without_settings_nothing_is_asked(tmp_path: Path) -> None:
    plugin = PhotonPlugin()
    refuse: Any = None
    plugin.init(NodeVolumeHost("node-1", tmp_path, refuse, refuse, refuse, refuse))
    with pytest.raises(NotAsked, match="target="):
        asyncio.run(plugin.new_attacher().attach(volume(), "node-1"))


@pytest.mark.parametrize(
    "text", ["http://x", "https://", "https://u:p@x", "https://x/a b", "https://x?y", "https://[x"]
)
def test_a_target_that_is_no_such_url_is_refused(text: str) -> None:
    with pytest.raises(PluginError, match="target"):
        api({"target": text}, lambda: None)


@pytest.mark.parametrize("text", ["", "disk", "../../etc", DISK + "\n", DISK[:-1]])
def test_an_identifier_that_is_none_is_refused(world: World, text: str) -> None:
    with pytest.raises(InvalidSpec, match="pdID"):
        world.plugin.get_volume_name(volume(text))


# --- on a node


class Mounts:
    def __init__(self) -> None:
        self.mounted: list[tuple[str, str, str, tuple[str, ...]]] = []

    async def format_and_mount(self, device: str, target: str, fs_type: str, options: Any = ()) -> None:
        self.mounted.append((device, target, fs_type, tuple(options)))

    async def get_device_mount_refs(self, path: str) -> list[str]:
        return [target for _, target, *_ in self.mounted]


def node(root: Path, fabric: PlayedFabric) -> tuple[PhotonPlugin, Mounts]:
    plugin, mounts = PhotonPlugin(devices=fabric), Mounts()
    refuse: Any = None
    plugin.init(NodeVolumeHost("node-1", root, mounts, refuse, refuse, refuse))  # type: ignore[arg-type]
    return plugin, mounts


def test_a_disk_is_known_by_the_name_that_it_tells_and_mounted_once_for_the_node(tmp_path: Path) -> None:
    fabric = PlayedFabric(tmp_path)
    port = fabric.port("50060e801049cfd1")
    fabric.disk(port, 0, "36000c29000000000000000000000000f")
    name = fabric.disk(port, 1, "3" + DISK.replace("-", ""))
    fabric.shows = lambda path: True  # type: ignore[attr-defined]
    plugin, mounts = node(tmp_path, fabric)
    attacher, spec = plugin.new_attacher(), volume()

    async def story() -> None:
        device = await attacher.wait_for_attach(spec, {}, 5.0)
        assert device.endswith(name)
        with pytest.raises(WrongDevice):
            await attacher.verify_device(spec, device[:-1] + "a")
        place = attacher.get_device_mount_path(spec)
        await attacher.mount_device(spec, device, place)
        assert mounts.mounted == [(device, place, "ext4", ())]
        assert place.endswith(f"plugins/kubernetes.io~photon-pd/mounts/{DISK}")
        found = await plugin.construct_volume_spec("data", "/pod")
        assert plugin.get_volume_name(found) == DISK
        assert plugin.get_volume_name_at(place) == DISK

    asyncio.run(story())


def test_a_disk_that_does_not_come_is_looked_for_and_said(tmp_path: Path) -> None:
    fabric = PlayedFabric(tmp_path)
    plugin, _ = node(tmp_path, fabric)
    with pytest.raises(DeviceNotAttached, match="did not appear"):
        asyncio.run(plugin.new_attacher().wait_for_attach(volume(), {}, 0.6))
    assert fabric.scanned


def test_a_scan_that_fails_is_said(tmp_path: Path) -> None:
    fabric = PlayedFabric(tmp_path)

    def refuse() -> None:
        raise OSError("no such host adapter")

    fabric.hooks["scan"] = refuse
    plugin, _ = node(tmp_path, fabric)
    with pytest.raises(VolumeError, match="no such host adapter"):
        asyncio.run(plugin.new_attacher().wait_for_attach(volume(), {}, 0.6))
