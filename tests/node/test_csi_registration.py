"""Drivers register with the agent; the CSINode and the Node's labels say so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from virtual_server import started
from waiting import until

from mooring.csi import rpc
from mooring.csi.driver.registration import registering
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.client import Client
from mooring.kube.events import Recorder
from mooring.kube.objects import CSINode, Node
from mooring.kube.transport import InProcess, Request, Response, Transport
from mooring.mounts.host import HostMounts
from mooring.node import inotify
from mooring.node.csi.csinode import CSINodeWriter, missing_labels
from mooring.node.csi.drivers import NodeDrivers
from mooring.node.csi.folder import TIMEOUT_S, RegistrationFolder
from mooring.volumes.errors import VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.csi.plugin import CSIPlugin

ZONE = "topology.example.com/zone"


class WatchedFolder:
    """A folder that is watched, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.registered: dict[str, str] = {}
        self.times = 0
        self.refuse = ""
        self.held: asyncio.Event | None = None
        self.unregistered: list[str] = []
        self.folder = RegistrationFolder(folder, self.register, self.unregister)

    async def register(self, name: str, address: str) -> None:
        self.times += 1
        if self.refuse:
            raise VolumeError(self.refuse)
        if self.held is not None:
            await self.held.wait()
        self.registered[name] = address

    async def unregister(self, name: str) -> None:
        del self.registered[name]
        self.unregistered.append(name)


async def watched(folder: Path, story: Callable[[WatchedFolder], Awaitable[None]]) -> None:
    watch = WatchedFolder(folder)
    running = asyncio.create_task(watch.folder.run())
    try:
        await story(watch)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_driver_is_known_for_as_long_as_its_registrar_serves(tmp_path: Path):
    async def story(watch: WatchedFolder) -> None:
        async with registering("a.example.com", "/run/a.sock", tmp_path):
            await until(lambda: watch.registered == {"a.example.com": "/run/a.sock"})
        await until(lambda: watch.registered == {})

    await watched(tmp_path, story)


async def test_a_driver_whose_registrar_ends_before_it_is_told_is_not_known_for_ever(tmp_path: Path):
    async def story(watch: WatchedFolder) -> None:
        watch.held = asyncio.Event()
        async with registering("a.example.com", "/run/a.sock", tmp_path):
            await until(lambda: watch.times == 1)
        watch.held.set()
        await until(lambda: watch.unregistered == ["a.example.com"])
        assert watch.registered == {}

    await watched(tmp_path, story)


async def test_a_driver_that_was_there_first_is_found(tmp_path: Path):
    async with registering("a.example.com", "/run/a.sock", tmp_path):
        await watched(tmp_path, lambda watch: until(lambda: "a.example.com" in watch.registered))


async def test_a_registrar_that_is_started_again_is_asked_again(tmp_path: Path):
    async def story(watch: WatchedFolder) -> None:
        for endpoint in ("/run/a.sock", "/run/b.sock"):
            async with registering("a.example.com", endpoint, tmp_path):
                await until(lambda: watch.registered == {"a.example.com": endpoint})  # noqa: B023

    await watched(tmp_path, story)


async def test_of_two_sockets_of_a_driver_the_one_that_stays_counts(tmp_path: Path):
    """A driver is replaced by another version, which listens elsewhere; the former is asked last, as after a
    start of the agent, and then ends."""
    (folder := tmp_path / "folder").mkdir()

    async def story(watch: WatchedFolder) -> None:
        async with registering("a.example.com", "/run/new.sock", folder):
            await until(lambda: watch.registered == {"a.example.com": "/run/new.sock"})
            async with registering("a.example.com", "/run/old.sock", tmp_path) as former:
                former.rename(folder / "old-reg.sock")
                await until(lambda: watch.registered == {"a.example.com": "/run/old.sock"})
                (folder / "old-reg.sock").unlink()
                await until(lambda: watch.registered == {"a.example.com": "/run/new.sock"})
        await until(lambda: watch.registered == {})
        assert watch.unregistered == ["a.example.com"]

    await watched(folder, story)


async def test_a_driver_that_cannot_be_registered_is_tried_again(tmp_path: Path):
    async def story(watch: WatchedFolder) -> None:
        watch.refuse = "not now"
        async with registering("a.example.com", "/run/a.sock", tmp_path):
            await until(lambda: watch.times > 0)
            assert watch.registered == {}
            watch.refuse = ""
            await until(lambda: watch.registered != {})

    await watched(tmp_path, story)


async def test_a_socket_that_does_not_answer_keeps_no_other_waiting(tmp_path: Path):
    silent = tmp_path / "a-reg.sock"

    async def story(watch: WatchedFolder) -> None:
        async with registering("b.example.com", "/run/b.sock", tmp_path):
            await until(lambda: "b.example.com" in watch.registered, seconds=TIMEOUT_S / 2)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(silent))
        listening.listen()
        await watched(tmp_path, story)


async def test_a_folder_that_is_replaced_as_a_whole_is_looked_at_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inotify, "LOOK_S", 0.05)
    monkeypatch.setattr(inotify, "RETRY_S", 0.05)
    folder = tmp_path / "r"  # a socket's path is short

    async def story(watch: WatchedFolder) -> None:
        await until(folder.is_dir)
        async with registering("a.example.com", "/run/a.sock", folder):
            await until(lambda: "a.example.com" in watch.registered)
            folder.rename(tmp_path / "former")
            await until(lambda: watch.registered == {})
            folder.mkdir()
            async with registering("b.example.com", "/run/b.sock", folder):
                await until(lambda: watch.registered == {"b.example.com": "/run/b.sock"})

    await watched(folder, story)


async def test_what_is_no_socket_is_not_looked_at(tmp_path: Path):
    (tmp_path / "file.sock").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file.sock")

    async def story(watch: WatchedFolder) -> None:
        async with registering("a.example.com", "/run/a.sock", tmp_path):
            await until(lambda: watch.times == 1)

    await watched(tmp_path, story)


def answer(node_id: str, limit: int = 0, **segments: str) -> csi.NodeGetInfoResponse:
    places = {f"topology.example.com/{key}": value for key, value in segments.items()}
    topology = csi.Topology(segments=places)
    return csi.NodeGetInfoResponse(node_id=node_id, max_volumes_per_node=limit, accessible_topology=topology)


@pytest.fixture
def api(
    run: Callable[[Any], Any], now: Callable[[], Any]
) -> Callable[[Callable[[Client], Awaitable[None]]], None]:
    def play(story: Callable[[Client], Awaitable[None]]) -> None:
        async def on_server() -> None:
            server = await started(now)
            client = Client(InProcess(server.call, server.tokens.admin()))
            await client.create(Node, {"metadata": {"name": "n"}})
            await story(client)

        run(on_server())

    return play


Api = Callable[[Callable[[Client], Awaitable[None]]], None]


def test_the_csinode_is_the_nodes_and_lists_each_driver(api: Api):
    async def story(client: Client) -> None:
        writer = CSINodeWriter(client, "n")
        await writer.add("a.example.com", answer("i-1", 5, zone="z"))
        await writer.add("b.example.com", answer("i-2"))
        made, node = await client.get(CSINode, "n"), await client.get(Node, "n")
        first, second = made.spec.drivers
        assert (first.name, first.node_id, first.topology_keys) == ("a.example.com", "i-1", (ZONE,))
        assert first.allocatable is not None
        assert first.allocatable.count == 5
        assert (second.name, second.allocatable) == ("b.example.com", None)
        assert [owner.uid for owner in made.metadata.owner_references] == [node.uid]
        assert node.metadata.labels[ZONE] == "z"

    api(story)


def test_a_limit_beyond_what_a_csinode_can_say_is_the_largest_that_it_can(api: Api):
    async def story(client: Client) -> None:
        await CSINodeWriter(client, "n").add("a.example.com", answer("i-1", 2**63 - 1))
        (entry,) = (await client.get(CSINode, "n")).spec.drivers
        assert entry.allocatable is not None
        assert entry.allocatable.count == 2**31 - 1

    api(story)


def test_the_csinode_of_a_node_that_is_registered_anew_is_the_new_ones(api: Api):
    async def story(client: Client) -> None:
        writer = CSINodeWriter(client, "n")
        await writer.add("a.example.com", answer("i-1"))
        await client.delete(Node, "n")
        node = await client.create(Node, {"metadata": {"name": "n"}})
        await writer.add("a.example.com", answer("i-1"))
        found = await client.get(CSINode, "n")
        assert [owner.uid for owner in found.metadata.owner_references] == [node.uid]
        assert [each.name for each in found.spec.drivers] == ["a.example.com"]

    api(story)


def test_whoever_keeps_the_node_is_told_of_what_was_written_to_it(api: Api):
    async def story(client: Client) -> None:
        writer, answers = CSINodeWriter(client, "n"), list[Node]()
        writer.written = answers.append
        await writer.add("a.example.com", answer("i-1", zone="z"))
        await writer.add("b.example.com", answer("i-2", zone="z"))
        assert [node.metadata.labels[ZONE] for node in answers] == ["z"]
        assert answers[0].metadata.resource_version == (await client.get(Node, "n")).metadata.resource_version

    api(story)


def test_a_driver_whose_node_id_has_changed_is_entered_anew(api: Api):
    async def story(client: Client) -> None:
        writer = CSINodeWriter(client, "n")
        await writer.add("a.example.com", answer("i-1"))
        await writer.add("a.example.com", answer("i-2"))
        (entry,) = (await client.get(CSINode, "n")).spec.drivers
        assert entry.node_id == "i-2"

    api(story)


def test_a_driver_that_goes_is_taken_out_and_the_others_stay(api: Api):
    async def story(client: Client) -> None:
        writer = CSINodeWriter(client, "n")
        await writer.add("a.example.com", answer("i-1"))
        await writer.add("b.example.com", answer("i-2"))
        await writer.remove("a.example.com")
        assert [each.name for each in (await client.get(CSINode, "n")).spec.drivers] == ["b.example.com"]

    api(story)


def test_a_label_that_says_another_place_is_not_overwritten(api: Api):
    async def story(client: Client) -> None:
        await client.patch(Node, "n", {"metadata": {"labels": {ZONE: "elsewhere"}}})
        with pytest.raises(VolumeError, match="correct one of them"):
            await CSINodeWriter(client, "n").add("a.example.com", answer("i-1", zone="z"))
        assert await client.find(CSINode, "n") is None

    api(story)


def test_labels_are_written_in_one_order_whatever_the_order_of_the_answer():
    node = Node()
    orders = [("region", "zone", "rack"), ("zone", "rack", "region")]
    patches = [[*missing_labels(node, dict.fromkeys(order, "a"), "ebs.csi.aws.com")] for order in orders]
    assert patches[0] == patches[1]


def test_an_answer_without_a_node_id_is_refused(api: Api):
    async def story(client: Client) -> None:
        with pytest.raises(VolumeError, match="no node_id"):
            await CSINodeWriter(client, "n").add("a.example.com", answer(""))

    api(story)


class AtAddress:
    """A channel to the driver of an address; the one at "unready" does not know its node yet."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def call(self, method: Any, request: Any, timeout_s: float) -> Any:
        if method is rpc.Identity.get_plugin_info:
            return csi.GetPluginInfoResponse(name="a.example.com")
        if self.address == "unready":
            raise CsiError(Code.UNAVAILABLE, "the metadata service does not answer", method.name)
        return answer(self.address)

    async def close(self) -> None:
        return


async def nothing(_namespace: str, _name: str) -> None:
    return None


def of_node(client: Client, root: Path, now: Callable[[], Any]) -> tuple[CSIPlugin, NodeDrivers]:
    plugin = CSIPlugin(AtAddress)
    plugin.init(NodeVolumeHost("n", root, HostMounts(), now, nothing, nothing))
    recorder = Recorder(client, "agent", now=now, random=Random(1))
    return plugin, NodeDrivers(client, "n", None, plugin, recorder, random=Random(1))


def test_a_driver_that_works_stays_known_while_another_version_cannot_be_registered(
    api: Api, tmp_path: Path, now: Callable[[], Any]
):
    """The other version goes again, as after a rollout that was taken back: nothing asks the former anew."""

    async def story(client: Client) -> None:
        plugin, drivers = of_node(client, tmp_path, now)
        await drivers.register("a.example.com", "i-1")
        with pytest.raises(VolumeError, match="metadata"):
            await drivers.register("a.example.com", "unready")
        known = plugin.drivers_here.find("a.example.com")
        assert (await known.call(rpc.Node.node_get_info, csi.NodeGetInfoRequest())).node_id == "i-1"

    api(story)


class Held:
    """The way to the API server, on which requests about CSINodes wait for `go`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def send(self, request: Request) -> Response:
        if "/csinodes" in request.path:
            self.asked.set()
            await self.go.wait()
        return await self._inner.send(request)

    async def close(self) -> None:
        return


def test_a_node_that_is_made_anew_while_a_driver_is_published_gets_its_csinode(
    api: Api, tmp_path: Path, now: Callable[[], Any]
):
    """Or the garbage collector takes the CSINode with the former Node, and nothing makes it again."""

    async def story(client: Client) -> None:
        held = Held(client.transport)
        _, drivers = of_node(Client(held), tmp_path, now)
        former = await client.get(Node, "n")
        drivers.node_changed(None, former)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(drivers.run())
            registering = group.create_task(drivers.register("a.example.com", "i-1"))
            await held.asked.wait()
            await client.delete(Node, "n")
            anew = await client.create(Node, {"metadata": {"name": "n"}})
            drivers.node_changed(former, None)
            drivers.node_changed(None, anew)
            held.go.set()
            await registering

            async def is_the_new_ones() -> bool:
                found = await client.get(CSINode, "n")
                return [owner.uid for owner in found.metadata.owner_references] == [anew.uid]

            await until(is_the_new_ones)
            running.cancel()

    api(story)
