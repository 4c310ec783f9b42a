"""A machine with a kernel of its own is plugged into the pods' network, and found there after any crash."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from network_namespaces import Server, StandIn, StandInPod, ip, reaches

from mooring.cluster.machines.network import plug, plugged, unplug
from mooring.node import bridge
from mooring.node.network import claim, claimed, release

pytestmark = pytest.mark.root

ADDRESSES = IPv4Network("10.88.0.0/16")
HOST = IPv4Address("10.88.0.1")


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("one", "two", "three")]


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


CLAIM = """
import sys; from pathlib import Path; from ipaddress import IPv4Network; from mooring.node import network
print(network.claim(Path(sys.argv[1]), IPv4Network("10.88.0.0/16")).allocate(()).gateway)
"""


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
def pod(roots: list[Path]) -> Iterator[StandInPod]:
    """A pod of a node of the host."""
    pod = StandInPod(claim(roots[2], ADDRESSES).allocate(()))
    yield pod
    pod.close()


def test_in_the_machine_the_agent_claims_the_part_of_the_machine(machines: list[StandIn]) -> None:
    for machine in machines:
        assert machine.run("-c", CLAIM, str(machine.root)).strip() == str(machine.network.address)
        machine.configure()
        assert machine.run("-c", CLAIM, str(machine.root)).strip() == str(machine.network.address)


def test_machines_and_pods_of_nodes_on_the_host_reach_one_another(
    machines: list[StandIn], pod: StandInPod
) -> None:
    one, two = machines
    assert reaches(one.python, two.network.address)
    assert reaches(one.python, pod.address)
    assert reaches(pod.python, one.network.address)


def test_machines_and_the_host_reach_one_another(machines: list[StandIn]) -> None:
    one, two = machines
    assert reaches([sys.executable], one.network.address)
    server = Server(str(HOST))
    try:
        assert reaches(two.python, HOST)
    finally:
        server.close()
