"""Flocker volumes: the dataset comes to the node before a pod sees it, whatever its control service does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from example_volumes import volume_of
from tests.doubles.storage_api import PlayedFlocker, certificates, client

from mooring.kube.objects import (
    FlockerVolumeSource,
    Node,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)
from mooring.volumes.errors import (
    InvalidSpec,
    NotAsked,
    OutcomeUnknown,
    PluginError,
    StorageRefused,
    VolumeError,
)
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.flocker.control import FILES, Control, api
from mooring.volumes.plugins.flocker.plugin import PLUGIN_NAME, FlockerPlugin
from mooring.volumes.plugins.rest import Api
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
HERE, THERE = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
DATA = "cccccccc-0000-4000-8000-00000000000c"


class Mounts:
    """Flocker's mounts, and those of pods."""

    def __init__(self) -> None:
        self.points: dict[str, tuple[str, bool]] = {}

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        self.points[target] = (source, read_only)

    async def remove_mount_point(self, target: str) -> None:
        self.points.pop(target, None)


class Objects:
    async def find(self, kind: Any, name: str, namespace: str = "") -> Any:
        assert (kind, name) == (Node, "node-1")
        addresses = (
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "Hostname", "address": "10.0.0.2"},
        )
        return Node(metadata=ObjectMeta(name=name), status=NodeStatus(addresses=addresses))


class World:
    """A node, and the control service."""

    def __init__(self, root: Path) -> None:
        self.root, self.mounts, self.flocker = root, Mounts(), PlayedFlocker()
        self.server = certificates(root / "tls")
        self.files = dict(zip(("certFile", "keyFile"), map(str, client(root, "apiuser")), strict=True))
        self.flocker.nodes = {"10.0.0.1": HERE, "10.0.0.2": THERE}
        self.flocker.at, self.flocker.names = {DATA: THERE}, {DATA: "data"}
        self.mounted_by_flocker = True
        self.plugin = FlockerPlugin()

        def arrives(uuid: str) -> bool:
            if self.mounted_by_flocker:
                self.mounts.points[str(root / "flocker" / uuid)] = ("/dev/sdx", False)
            return True

        self.flocker.arrives = arrives

    def context(self) -> ssl.SSLContext:
        context = self.server.context()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=self.root / "apiuser.crt")
        return context

    def run(self, story: Callable[[str], Coroutine[Any, Any, None]], **settings: str) -> None:
        async def served() -> None:
            async with self.flocker.serving(self.context()) as url:
                self._made(url, settings)
                await story(url)

        asyncio.run(served())

    def _made(self, url: str, settings: dict[str, str]) -> None:
        given = {
            "controlService": url.removeprefix("https://"),
            "caFile": str(self.server.authority),
            **self.files,
            **settings,
        }
        of = api(given)
        short = Api(of.url, of.service, of.credentials, of.context, deadline_s=0.5)
        self.plugin = FlockerPlugin(Control(short, moved_s=1.0, poll_s=0.01), self.root / "flocker")
        refuse: Any = None
        reader: Any = Objects()
        self.plugin.init(
            NodeVolumeHost("node-1", self.root, self.mounts, refuse, refuse, refuse, reader=reader)
        )  # type: ignore[arg-type]

    async def set_up(self, spec: VolumeSpec | None = None) -> str:
        mounter = self.plugin.new_mounter(spec or volume(), POD)
        await mounter.set_up()
        return mounter.get_path()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def volume(**source: str) -> VolumeSpec:
    made = FlockerVolumeSource(**(source or {"dataset_uuid": DATA}))
    return VolumeSpec.of_volume(Volume(name="data", flocker=made))


def persistent(*modes: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(flocker=FlockerVolumeSource(dataset_name="data"), access_modes=modes)
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="data"), spec=spec))


def test_a_dataset_is_moved_to_the_node_and_shown_to_the_pod_when_it_is_there(world: World) -> None:
    async def story(url: str) -> None:
        path = await world.set_up()
        assert world.mounts.points[path] == (str(world.root / "flocker" / DATA), False)
        assert world.flocker.at[DATA] == HERE
        assert path.endswith("pods/pod-uid/volumes/kubernetes.io~flocker/data")

    world.run(story)


def test_the_examples_dataset_is_found_by_its_name_and_shown(world: World) -> None:
    async def story(url: str) -> None:
        path = await world.set_up(volume_of("flocker.yaml"))
        assert world.mounts.points[path] == (str(world.root / "flocker" / DATA), False)

    world.run(story)


def test_one_that_is_there_is_not_moved(world: World) -> None:
    world.flocker.at[DATA] = HERE
    world.flocker.arrives(DATA)

    async def story(url: str) -> None:
        await world.set_up(volume(dataset_name="data"))
        assert world.flocker.orders() == []

    world.run(story)


def test_what_is_not_mounted_here_is_not_shown_in_its_place(world: World) -> None:
    """A pod would write to the node's own disk."""
    world.mounted_by_flocker = False

    async def story(url: str) -> None:
        with pytest.raises(VolumeError, match="is not mounted at"):
            await world.set_up()
        assert world.mounts.points == {}

    world.run(story)


def test_a_dataset_that_does_not_come_in_time_may_come_still(world: World) -> None:
    world.flocker.arrives = lambda uuid: False

    async def story(url: str) -> None:
        world.flocker.at[DATA] = None
        with pytest.raises(OutcomeUnknown, match="has not within"):
            await world.set_up()

    world.run(story)


def test_a_service_that_stops_to_answer_while_a_dataset_moves_is_asked_again(world: World) -> None:
    before = world.flocker.arrives

    def told(uuid: str) -> bool:
        world.flocker.trouble["GET /v1/state/datasets"] = 503

        async def back() -> None:
            await asyncio.sleep(0.1)
            world.flocker.trouble.clear()

        world.flocker.late.append(asyncio.get_running_loop().create_task(back()))
        return before(uuid)

    world.flocker.arrives = told

    async def story(url: str) -> None:
        await world.set_up()
        assert world.flocker.orders() == [f"/v1/configuration/datasets/{DATA}"]

    world.run(story)


def test_while_it_is_mounted_and_at_its_end_no_service_is_needed(world: World) -> None:
    async def story(url: str) -> None:
        path = await world.set_up()
        world.flocker.trouble["GET"] = "hang"
        assert await world.set_up() == path
        await world.plugin.new_unmounter("data", POD.uid).tear_down()
        assert path not in world.mounts.points

    world.run(story)


@pytest.mark.parametrize(
    ("trouble", "error", "told"),
    [
        ("hang", OutcomeUnknown, "within 0.5 s"),
        ("drop", OutcomeUnknown, "broke off"),
        (403, StorageRefused, "look at .*apiuser.crt"),
        (500, OutcomeUnknown, "500"),
        (302, OutcomeUnknown, "302"),
        (b"<html>", OutcomeUnknown, "what it should not"),
        (b'[{"uuid": 1, "host": "10.0.0.1"}]', OutcomeUnknown, "what it should not"),
        (b"[" * 100_000, OutcomeUnknown, "what it should not"),
        (b" " * (5 << 20), OutcomeUnknown, "more than"),
    ],
)
def test_a_service_that_fails_is_told_of_and_nothing_is_mounted(
    world: World, trouble: Any, error: type[Exception], told: str
) -> None:
    world.flocker.trouble["GET /v1/state/nodes"] = trouble

    async def story(url: str) -> None:
        with pytest.raises(error, match=told) as raised:
            await world.set_up()
        assert str(raised.value).isprintable()
        assert world.mounts.points == {}

    world.run(story)


def test_a_service_that_is_not_there_has_not_been_asked(world: World) -> None:
    async def story(url: str) -> None:
        with pytest.raises(NotAsked, match="does not answer"):
            await world.set_up()

    world.run(story, controlService="127.0.0.1:1")


def test_a_certificate_that_the_service_does_not_know_is_said(world: World) -> None:
    files = client(world.root, "stranger")

    async def story(url: str) -> None:
        with pytest.raises(VolumeError, match=r"look at .*stranger\.crt|does not answer"):
            await world.set_up()
        assert world.flocker.asked == []

    world.run(story, certFile=str(files[0]), keyFile=str(files[1]))


def test_a_service_of_another_authority_is_not_spoken_to(world: World) -> None:
    other = certificates(world.root / "other")

    async def story(url: str) -> None:
        with pytest.raises(NotAsked, match="does not answer"):
            await world.set_up()
        assert world.flocker.asked == []

    world.run(story, caFile=str(other.authority))


@pytest.mark.parametrize("setting", sorted(FILES))
def test_a_file_that_is_not_there_is_said(world: World, setting: str) -> None:
    async def story(url: str) -> None:
        with pytest.raises(NotAsked, match="/not/there"):
            await world.set_up()

    world.run(story, **{setting: "/not/there"})


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"dataset_name": "other"}, "no dataset of the name"),
        ({"dataset_uuid": HERE}, "Flocker has no dataset"),
        ({"dataset_name": "twice"}, "more than one"),
    ],
)
def test_a_dataset_that_is_not_found_is_said(world: World, source: dict[str, str], told: str) -> None:
    for uuid in ("d" + DATA[1:], "e" + DATA[1:]):
        world.flocker.at[uuid], world.flocker.names[uuid] = THERE, "twice"

    async def story(url: str) -> None:
        with pytest.raises(VolumeError, match=told):
            await world.set_up(volume(**source))
        assert world.flocker.orders() == []

    world.run(story)


def test_a_node_that_flocker_does_not_have_is_said(world: World) -> None:
    world.flocker.nodes.pop("10.0.0.1")

    async def story(url: str) -> None:
        with pytest.raises(VolumeError, match="no node with this node's address"):
            await world.set_up()

    world.run(story)


@pytest.mark.parametrize(
    "source",
    [
        {"dataset_name": "", "dataset_uuid": ""},
        {"dataset_name": "a", "dataset_uuid": DATA},
        {"dataset_uuid": "../etc"},
        {"dataset_name": "a/b"},
        {"dataset_name": "a\nb"},
        {"dataset_name": "x" * 300},
    ],
)
def test_what_cannot_be_meant_is_refused(world: World, source: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec):
        world.plugin.get_volume_name(volume(**source))


@pytest.mark.parametrize(
    "text", ["localhost", "localhost:0", "localhost:65536", "a b:1", "http://x:1", "x:1/y", "x@y:1"]
)
def test_a_setting_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(PluginError, match="controlService"):
        api({"controlService": text})


def test_a_volume_for_one_node_is_granted_and_one_that_a_pod_defines_itself_is_not(world: World) -> None:
    async def story(url: str) -> None:
        assert world.plugin.can_attach(persistent("ReadWriteOnce"))
        assert not world.plugin.can_attach(volume())
        assert world.plugin.get_plugin_name() == PLUGIN_NAME

    world.run(story)
