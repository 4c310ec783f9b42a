"""Links are cut in the kernel: for real packets, of machines with a kernel of their own and of namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TypeVar

import pytest
from network_namespaces import PORT, Server, StandIn, StandInPod, ip, is_silent, reaches

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup, links
from mooring.cluster.machines.interface import Cut, Direction, Far, NotPossible, Quality
from mooring.cluster.machines.link_rules import Ends
from mooring.cluster.machines.links import GroupLinks, TapLinks, heal_all, tables
from mooring.cluster.machines.network import plug
from mooring.node import bridge
from mooring.node.network import claim

pytestmark = pytest.mark.root

ADDRESSES = IPv4Network("10.88.0.0/16")
HOST, STORAGE = IPv4Address("10.88.0.1"), IPv4Address("10.88.0.9")
API, OTHER = 7443, 7000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def ends() -> Ends:
    return Ends(ADDRESSES, API, (STORAGE,))


Opened = TypeVar("Opened", Server, StandIn, StandInPod)


class Scene:
    """A machine of each kind, each with a pod or as one; a node of the host; storage; the API server."""

    def __init__(self, data_dir: Path) -> None:
        self._closing: list[Server | StandIn | StandInPod] = []
        roots = [data_dir / "nodes" / name for name in ("node-1", "node-2", "node-3", "node-4")]
        self.machine, self.other = (self._stand_in(root) for root in roots[:2])
        network = claim(roots[2], ADDRESSES)
        self.pod, self.mate = (self._opened(StandInPod(network.allocate(()))) for _ in range(2))
        self.stranger = self._opened(StandInPod(claim(roots[3], ADDRESSES).allocate(())))
        ip("address", "add", f"{STORAGE}/32", "dev", bridge.BRIDGE)
        self._opened(Server(str(HOST), API))
        self._opened(Server(str(STORAGE)))
        self._opened(Server("127.0.0.1", API))
        self._opened(Server("127.0.0.1", OTHER))
        group = cgroup.of(data_dir, "node-3")
        neighbours = cgroup.of(data_dir, "node-4")
        if group is None or neighbours is None:
            pytest.skip("there are no cgroups of version 2 here")
        for each in (group, neighbours):
            each.make()
        self.agent = group.entering([sys.executable])
        self.neighbour = neighbours.entering([sys.executable])
        self._opened(Server("127.0.0.1", 4000, self.agent))
        self._opened(Server("127.0.0.1", 4001, self.neighbour))
        self.tap_links = TapLinks(data_dir, "node-1", self.machine.link, ends, self.run)
        self.group_links = GroupLinks(data_dir, "node-3", group, roots[2], ends)

    async def run(self, script: str) -> tuple[int, str]:
        """Of the machine with a kernel of its own, whose delay is another test's."""
        return 0, "[]"

    def _stand_in(self, root: Path) -> StandIn:
        machine = self._opened(StandIn(root, plug(root, ADDRESSES)))
        machine.configure()
        return machine

    def _opened(self, each: Opened) -> Opened:
        self._closing.append(each)
        return each

    def close(self) -> None:
        while self._closing:
            self._closing.pop().close()

    def until_all_answer(self) -> None:
        """Servers take a moment to start."""
        for python, address, port in (
            (self.machine.python, self.other.network.address, PORT),
            (self.machine.python, self.stranger.address, PORT),
            (self.machine.python, STORAGE, PORT),
            (self.machine.python, HOST, API),
            (self.pod.python, self.mate.address, PORT),
            (self.agent, self.pod.address, PORT),
            (self.agent, self.machine.network.address, PORT),
            (self.agent, "127.0.0.1", API),
            (self.agent, "127.0.0.1", 4000),
        ):
            assert reaches(python, address, port)

    def of_machine(self) -> dict[str, bool]:
        """What the machine with a kernel of its own reaches."""
        return _reached(self.machine.python, {"api": (HOST, API)} | self._far_ends())

    def of_pod(self) -> dict[str, bool]:
        """What a pod of the namespace machine reaches."""
        ends = {"api": (HOST, API), "mate": (self.mate.address, PORT)}
        return _reached(self.pod.python, ends | self._far_ends())

    def of_agent(self) -> dict[str, bool]:
        """What the agent of the namespace machine reaches."""
        ends = {"api": ("127.0.0.1", API), "own pod": (self.pod.address, PORT), "itself": ("127.0.0.1", 4000)}
        return _reached(self.agent, ends | self._far_ends())

    def _far_ends(self) -> dict[str, tuple[object, int]]:
        return {
            "machine": (self.other.network.address, PORT),
            "stranger": (self.stranger.address, PORT),
            "storage": (STORAGE, PORT),
        }


def _reached(python: list[str], ends: dict[str, tuple[object, int]]) -> dict[str, bool]:
    """False for what is silent, and for nothing else: what is cut must not refuse."""
    return {name: not is_silent(python, *end) for name, end in ends.items()}


@pytest.fixture
def scene(data_dir: Path) -> Iterator[Scene]:
    data_dir.mkdir()
    scene = Scene(data_dir)
    try:
        scene.until_all_answer()
        yield scene
    finally:
        scene.close()
        cgroup.remove_empty(data_dir)


SILENT = {
    Far.ALL: {"api", "machine", "stranger", "storage"},
    Far.API: {"api"},
    Far.PEERS: {"machine", "stranger"},
    Far.STORAGE: {"storage"},
}


@pytest.mark.parametrize("far", Far)
async def test_a_cut_silences_that_end_alone_and_heal_brings_it_back(
    scene: Scene, data_dir: Path, far: Far
) -> None:
    await scene.tap_links.cut(Cut(far))
    assert {name for name, reached in scene.of_machine().items() if not reached} == SILENT[far]
    assert all(scene.of_agent().values()), "another machine's links are cut, too"
    await scene.group_links.cut(Cut(far))
    assert {name for name, reached in scene.of_pod().items() if not reached} == SILENT[far]
    assert {name for name, reached in scene.of_agent().items() if not reached} == SILENT[far]
    assert reaches(scene.neighbour, "127.0.0.1", API)
    assert reaches(scene.stranger.python, scene.other.network.address)
    await scene.tap_links.heal()
    await scene.group_links.heal()
    assert all({**scene.of_machine(), **scene.of_pod(), **scene.of_agent()}.values())
    assert tables(data_dir) == []


async def test_cuts_add_up_and_are_read_from_the_kernel(scene: Scene, data_dir: Path) -> None:
    for each in (scene.tap_links, scene.group_links):
        assert await each.state() == []
        await each.cut(Cut(Far.API, Direction.OUT))
        await each.cut(Cut(Far.STORAGE))
        await each.cut(Cut(Far.STORAGE, Direction.IN))
        await each.worsen(Quality(loss=0.125))
        told = ["cut from the API server (out)", "cut from storage", "loses 12.5% of its packets"]
        assert await each.state() == told
        await each.renew()
        assert await each.state() == told
        await each.worsen(Quality())
        assert await each.state() == told[:2]
    assert len({name for _, name in tables(data_dir)}) == 2


async def test_after_a_crash_all_cuts_of_the_cluster_and_of_no_other_are_healed(
    scene: Scene, data_dir: Path, tmp_path: Path
) -> None:
    await scene.tap_links.cut(Cut())
    await scene.group_links.cut(Cut())
    others = TapLinks(tmp_path / "other", "node-1", scene.other.link, ends, scene.run)
    await others.cut(Cut())
    assert heal_all(data_dir) == ["node-1", "node-3"]  # nothing remembers what was cut
    assert (heal_all(data_dir), tables(data_dir)) == ([], [])
    assert all({**scene.of_agent(), "api": True}[name] for name in ("api", "stranger", "storage"))
    assert await others.state() == ["cut from everything"]
    assert heal_all(tmp_path / "other") == ["node-1"]


async def test_a_connection_that_was_open_falls_silent_and_goes_on_when_the_link_is_healed(
    scene: Scene,
) -> None:
    for cable, address in (
        (scene.tap_links, scene.machine.network.address),
        (scene.group_links, scene.pod.address),
    ):
        with socket.create_connection((str(address), PORT), timeout=3) as connection:
            assert _echoed(connection, b"a") == b"a"
            await cable.cut(Cut())
            connection.settimeout(0.7)
            with pytest.raises(TimeoutError):
                _echoed(connection, b"b")
            await cable.heal()
            connection.settimeout(10)
            assert connection.recv(1) == b"b"


def _echoed(connection: socket.socket, sent: bytes) -> bytes:
    connection.sendall(sent)
    return connection.recv(1)


@pytest.mark.parametrize("direction", [Direction.IN, Direction.OUT])
async def test_a_cut_of_one_direction_lets_the_other_through(scene: Scene, direction: Direction) -> None:
    await scene.tap_links.cut(Cut(Far.API, direction))
    await scene.group_links.cut(Cut(Far.ALL, direction))
    for python, address, port in (
        (scene.machine.python, str(HOST), 5000),
        (scene.pod.python, str(HOST), 5001),
        (scene.agent, "127.0.0.1", 5002),
    ):
        assert _asked(python, address, port) == (direction is Direction.IN, "silence")


def _asked(python: list[str], address: str, port: int) -> tuple[bool, str]:
    """Whether a datagram arrives at a server on this host, and what of its answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, port))
        server.settimeout(1)
        asking = subprocess.Popen([*python, "-c", ASK, address, str(port)], stdout=subprocess.PIPE, text=True)
        arrived = False
        with contextlib.suppress(TimeoutError, PermissionError):  # the host's own datagram is refused, to it
            _, client = server.recvfrom(10)
            arrived = True
            server.sendto(b"answer", client)
        answered, _ = asking.communicate()
        return arrived, answered.strip()


ASK = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(1)
asking.sendto(b"question", (sys.argv[1], int(sys.argv[2])))
try:
    print(asking.recv(10))
except TimeoutError:
    print("silence")
"""


async def test_what_the_api_server_asks_of_the_agent_is_silent_when_it_is_cut_off(scene: Scene) -> None:
    assert reaches([sys.executable], "127.0.0.1", 4000)
    await scene.group_links.cut(Cut(Far.API))
    assert is_silent([sys.executable], "127.0.0.1", 4000)
    assert reaches(scene.agent, "127.0.0.1", 4000)
    await scene.group_links.heal()
    assert reaches([sys.executable], "127.0.0.1", 4000)


async def test_packets_are_lost(scene: Scene) -> None:
    await scene.tap_links.worsen(Quality(loss=1))
    await scene.group_links.worsen(Quality(loss=1))
    assert is_silent(scene.machine.python, HOST, API)
    assert is_silent(scene.pod.python, scene.stranger.address)
    assert is_silent(scene.agent, "127.0.0.1", API)


async def test_a_machine_of_namespaces_cannot_be_slow_and_says_why(scene: Scene) -> None:
    with pytest.raises(NotPossible, match="--machines uml"):
        await scene.group_links.worsen(Quality(delay=0.2, loss=0.5))
    assert await scene.group_links.state() == []


async def test_a_cut_is_of_the_machine_also_when_its_cgroup_was_made_anew(
    scene: Scene, data_dir: Path
) -> None:
    await scene.group_links.cut(Cut(Far.API))
    scene.close()
    cgroup.remove_empty(data_dir)
    await scene.group_links.renew()
    assert await scene.group_links.state() == ["cut from the API server"]
    server = Server("127.0.0.1", API)
    try:
        assert reaches([sys.executable], "127.0.0.1", API)
        assert is_silent(scene.agent, "127.0.0.1", API)
    finally:
        server.close()


async def test_without_nft_the_package_is_named_and_nothing_counts_as_cut(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    network = plug(data_dir / "nodes" / "node-1", ADDRESSES)
    (tmp_path / "bin").mkdir()
    ip_there = shutil.which("ip")
    assert ip_there is not None
    (tmp_path / "bin" / "ip").symlink_to(ip_there)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    async def run(script: str) -> tuple[int, str]:
        return 0, "[]"

    cable = TapLinks(data_dir, "node-1", network.tap, ends, run)
    with pytest.raises(NotPossible, match="apt-get install nftables"):
        await cable.cut(Cut())
    with pytest.raises(NotPossible, match="apt-get install nftables"):
        await cable.worsen(Quality(loss=0.1))
    await cable.heal()
    await cable.renew()
    assert (await cable.state(), heal_all(data_dir), tables(data_dir)) == ([], [], [])


async def test_a_machine_that_does_not_answer_is_cut_and_healed_and_its_delay_is_not_known(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "INSIDE_S", 0.05)

    async def run(script: str) -> tuple[int, str]:
        await asyncio.Event().wait()  # as a machine that is frozen
        raise AssertionError

    frozen = TapLinks(data_dir, "node-1", plug(data_dir / "nodes" / "node-1", ADDRESSES).tap, ends, run)
    await frozen.cut(Cut())
    assert await frozen.state() == ["cut from everything", "perhaps delayed: it does not answer"]
    with pytest.raises(ClusterError, match="node-1 does not answer"):
        await frozen.worsen(Quality(delay=0.1))
    with pytest.raises(ClusterError, match="node-1 does not answer"):
        await frozen.heal()
    assert tables(data_dir) == []


async def test_a_machine_that_is_off_is_cut_and_healed_and_has_no_delay(data_dir: Path) -> None:
    async def run(script: str) -> tuple[int, str]:
        raise ClusterError("node-1 is off")

    off = TapLinks(data_dir, "node-1", plug(data_dir / "nodes" / "node-1", ADDRESSES).tap, ends, run)
    await off.cut(Cut(Far.API))
    await off.worsen(Quality(loss=0.5))
    assert await off.state() == ["cut from the API server", "loses 50% of its packets"]
    with pytest.raises(ClusterError, match="node-1 is off"):
        await off.worsen(Quality(delay=0.1))
    await off.heal()
    assert await off.state() == []
