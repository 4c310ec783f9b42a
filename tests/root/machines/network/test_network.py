"""A machine with a kernel of its own is plugged into the pods' network, and found there after any crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from mooring.cluster.machines.guest.network import INTERFACE
from mooring.cluster.machines.network import MachineNetwork, plug, plugged, unplug
from mooring.node import bridge
from mooring.node.network import claim, claimed, release
from mooring.node.runtime import PodNetwork

pytestmark = pytest.mark.root

ADDRESSES = IPv4Network("10.88.0.0/16")
HOST = IPv4Address("10.88.0.1")


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("one", "two", "three")]


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


def host_addresses() -> set[str]:
    links = json.loads(ip("-json", "-4", "address", "show"))
    return {entry["local"] for link in links for entry in link["addr_info"]}


def test_a_machine_has_a_tap_and_a_part_of_the_addresses_and_finds_them_again(roots: list[Path]) -> None:
    first, second = plug(roots[0], ADDRESSES), plug(roots[1], ADDRESSES)
    assert len({first.tap, second.tap}) == len({first.address, second.address}) == 2
    assert len({first.mac, second.mac, bridge.mac(HOST)}) == 3
    assert first.host == HOST
    assert plug(roots[0], ADDRESSES) == first
    assert (unplug(roots[0]), unplug(roots[0])) == (True, False)
    assert not plugged(roots[0])
    assert plugged(roots[1])


def test_nodes_of_the_host_and_machines_never_have_the_same_part(roots: list[Path]) -> None:
    tap, node = plug(roots[0], ADDRESSES), claim(roots[1], ADDRESSES)
    other = plug(roots[2], ADDRESSES)
    parts = {str(tap.address), node.allocate(()).gateway, str(other.address)}
    assert len(parts) == 3
    assert str(HOST) not in parts
    assert release(roots[1])
    assert claim(roots[1], ADDRESSES).allocate(()).gateway == node.allocate(()).gateway


def test_a_node_that_changes_its_kind_gets_a_part_for_that_kind(roots: list[Path]) -> None:
    tap = plug(roots[0], ADDRESSES)
    node = claim(roots[0], ADDRESSES)
    assert node.allocate(()).gateway != str(tap.address)
    assert unplug(roots[0])
    assert claimed(roots[0])
    assert release(roots[0])


def test_the_host_has_its_address_while_there_is_a_tap(roots: list[Path]) -> None:
    claim(roots[0], ADDRESSES)
    assert str(HOST) not in host_addresses()
    plug(roots[1], ADDRESSES)
    plug(roots[2], ADDRESSES)
    assert str(HOST) in host_addresses()
    assert f"src {HOST}" in ip("route", "get", "10.88.200.2")
    claim(roots[0], ADDRESSES)  # does not take the host's address from the route
    assert f"src {HOST}" in ip("route", "get", "10.88.200.2")
    unplug(roots[1])
    assert str(HOST) in host_addresses()
    unplug(roots[2])
    assert str(HOST) not in host_addresses()
    assert bridge.BRIDGE in ip("route", "get", "10.88.200.2"), "the node of the host lost its route"


@pytest.mark.parametrize("last_is_a_tap", [True, False])
def test_the_bridge_goes_with_the_last_claim_of_either_sort(roots: list[Path], last_is_a_tap: bool) -> None:
    plug(roots[0], ADDRESSES)
    claim(roots[1], ADDRESSES)
    for take in (release, unplug) if last_is_a_tap else (unplug, release):
        assert bridge.exists(bridge.BRIDGE)
        assert take(roots[1] if take is release else roots[0])
    assert not bridge.exists(bridge.BRIDGE)


def test_after_a_crash_in_the_middle_of_plugging_in_it_is_done_again(roots: list[Path]) -> None:
    tap = bridge.tap_name(roots[0])
    ip("tuntap", "add", "dev", tap, "mode", "tap")  # and here the process was killed
    assert plug(roots[0], ADDRESSES).tap == tap
    ip("link", "set", tap, "nomaster")
    plug(roots[0], ADDRESSES)
    assert json.loads(ip("-json", "link", "show", tap))[0]["master"] == bridge.BRIDGE
    assert unplug(roots[0])
    ip("tuntap", "add", "dev", tap, "mode", "tap")
    assert unplug(roots[0]), "a tap that was made and never claimed was left"
    assert not plugged(roots[0])


def test_a_bridge_that_was_deleted_is_made_anew_with_the_same_part(roots: list[Path]) -> None:
    before = plug(roots[0], ADDRESSES)
    ip("link", "delete", bridge.BRIDGE)
    assert plug(roots[0], ADDRESSES) == before
    assert str(HOST) in host_addresses()


def test_a_tap_of_another_program_is_no_claim_and_is_left_alone(roots: list[Path]) -> None:
    others = f"mot{os.getpid()}"
    ip("tuntap", "add", "dev", others, "mode", "tap")
    for alias in ("three words here", "", "mooring0:123456 10.88.7.1", "x" * 255):
        ip("link", "set", others, "alias", alias)
        assert others not in {each.tap for each in bridge.claims()}
    plug(roots[0], ADDRESSES)
    unplug(roots[0])
    assert bridge.exists(others)


SERVE = "import sys, http.server as h; h.HTTPServer((sys.argv[1], 8080), h.SimpleHTTPRequestHandler).serve_forever()"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 8080), timeout=3)"
CLAIM = """
import sys; from pathlib import Path; from ipaddress import IPv4Network; from mooring.node import network
print(network.claim(Path(sys.argv[1]), IPv4Network("10.88.0.0/16")).allocate(()).gateway)
"""


class Namespace:
    """A network namespace, in which a server answers on port 8080; its `interface` is plugged into the
    bridge by the link `outside`."""

    def __init__(self, outside: str, interface: str) -> None:
        self.name = f"motest-{outside}"
        ip("netns", "add", self.name)
        ip("link", "add", outside, "type", "veth", "peer", "name", interface, "netns", self.name)
        ip("link", "set", outside, "master", bridge.BRIDGE, "up")
        self._server = subprocess.Popen([*self.command, "-c", SERVE, ""], stderr=subprocess.DEVNULL)

    @property
    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.name, sys.executable]

    def python(self, *words: str) -> str:
        return subprocess.run([*self.command, *words], capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        self._server.kill()
        self._server.wait()
        ip("netns", "delete", self.name)


def reaches(python: list[str], address: object) -> bool:
    """Whether a server there answers; tried some times, while it starts."""
    tries = (
        subprocess.run([*python, "-c", CONNECT, str(address)], check=False, capture_output=True)
        for _ in range(5)
    )
    return any(done.returncode == 0 or time.sleep(0.3) for done in tries)


class StandIn(Namespace):
    """In the place of a machine: its interface is plugged in where the tap would be."""

    def __init__(self, root: Path, network: MachineNetwork) -> None:
        super().__init__(f"v{network.tap}", INTERFACE)
        self.root, self.network = root, network

    def configure(self) -> None:
        words = (str(self.root), str(self.network.address), str(self.network.addresses))
        self.python("-m", "mooring.cluster.machines.guest.network", *words)


@pytest.fixture
def machines(roots: list[Path]) -> Iterator[list[StandIn]]:
    made: list[StandIn] = []
    try:
        for root in roots[:2]:
            made.append(StandIn(root, plug(root, ADDRESSES)))
            made[-1].configure()
        yield made
    finally:
        for each in made:
            each.close()


@pytest.fixture
def pod(roots: list[Path]) -> Iterator[tuple[Namespace, PodNetwork]]:
    """A pod of a node of the host."""
    network = claim(roots[2], ADDRESSES).allocate(())
    pod = Namespace(network.host_interface, "eth0")
    for command in (f"address add {network.address}/{network.prefix} dev eth0", "link set eth0 up"):
        ip("-n", pod.name, *command.split())
    yield pod, network
    pod.close()


def test_in_the_machine_the_agent_claims_the_part_of_the_machine(machines: list[StandIn]) -> None:
    for machine in machines:
        assert machine.python("-c", CLAIM, str(machine.root)).strip() == str(machine.network.address)
        machine.configure()
        assert machine.python("-c", CLAIM, str(machine.root)).strip() == str(machine.network.address)


def test_machines_and_pods_of_nodes_on_the_host_reach_one_another(
    machines: list[StandIn], pod: tuple[Namespace, PodNetwork]
) -> None:
    one, two = machines
    inside, network = pod
    assert reaches(one.command, two.network.address)
    assert reaches(one.command, network.address)
    assert reaches(inside.command, one.network.address)


def test_machines_and_the_host_reach_one_another(machines: list[StandIn]) -> None:
    one, two = machines
    assert reaches([sys.executable], one.network.address)
    server = subprocess.Popen([sys.executable, "-c", SERVE, str(HOST)], stderr=subprocess.DEVNULL)
    try:
        assert reaches(two.command, HOST)
    finally:
        server.kill()
        server.wait()
