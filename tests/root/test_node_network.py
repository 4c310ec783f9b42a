"""Pods with networks of their own, for real; and what is left when they are gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from agent_process import AgentProcess, agent_world

from mooring.kube.objects import Pod
from mooring.node.bridge import BRIDGE, mac
from mooring.node.network import claim, release
from mooring.node.runtime import PodNetwork

pytestmark = pytest.mark.root

ADDRESSES = IPv4Network("10.88.0.0/16")
SERVER = "cd / && exec python3 -m http.server --bind 0.0.0.0 8080"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        await world.start()
        yield world


def links() -> set[str]:
    found = json.loads(
        subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout
    )
    return {link["ifname"] for link in found}


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[list[Path]]:
    roots = [tmp_path / name for name in ("one", "two")]
    yield roots
    for root in roots:
        release(root)


async def pod(world: AgentProcess, name: str) -> Pod:
    return await world.api.get(Pod, name, "default")


async def test_pods_reach_one_another_and_are_probed_at_their_own_addresses(world: AgentProcess) -> None:
    probe = {"httpGet": {"port": "web", "path": "/etc/hostname"}, "periodSeconds": 1}
    server = {
        "name": "main",
        "image": "x",
        "command": ["sh", "-c", SERVER],
        "readinessProbe": probe,
        "ports": [{"name": "web", "containerPort": 8080}],
    }
    await world.create_pod(name="server", volumes=[], containers=[server])
    await world.until(lambda: ready(world, "server"))
    address = (await pod(world, "server")).status.pod_ip
    assert hardware_address(address) == mac(IPv4Address(address)), "or others look for it at the former pod's"
    fetch = (
        f"import urllib.request as u; print(u.urlopen('http://{address}:8080/etc/hostname').read().decode())"
    )
    script = f'python3 -c "{fetch}"; hostname; cat /etc/hosts; echo ip=$IP; exec sleep 1000'
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    client = {"name": "main", "image": "x", "command": ["sh", "-c", script], "env": env}
    created = await world.create_pod(
        name="client",
        volumes=[],
        containers=[client],
        hostAliases=[{"ip": "10.9.8.7", "hostnames": ["other"]}],
    )
    await world.until(lambda: any(line.startswith("ip=") for line in world.log(created)))
    own, lines = (await pod(world, "client")).status.pod_ip, world.log(created)
    assert own != address
    assert lines[0] == "server"
    assert "client" in lines
    assert f"{own}\tclient" in lines
    assert "10.9.8.7\tother" in lines
    assert lines[-1] == f"ip={own}"


def hardware_address(address: str) -> str:
    """That the host has learned for it."""
    shown = subprocess.run(["ip", "-json", "neigh", "show", address], capture_output=True, check=True).stdout
    return json.loads(shown)[0]["lladdr"]


async def ready(world: AgentProcess, name: str) -> bool:
    return any(
        each.type == "Ready" and each.status == "True" for each in (await pod(world, name)).status.conditions
    )


async def test_a_pod_with_the_hosts_network_has_its_links_and_its_address(world: AgentProcess) -> None:
    created = await world.create_pod("cat /proc/net/dev; exec sleep 1000", volumes=[], hostNetwork=True)
    await world.until(lambda: any(BRIDGE in line for line in world.log(created)))
    await world.until(world.running)
    assert (await pod(world, "web-0")).status.pod_ip == "127.0.0.1"


async def test_nothing_is_left_of_the_links_when_pods_and_node_have_gone(world: AgentProcess) -> None:
    await world.create_pod("exec sleep 1000", volumes=[])
    await world.until(world.running)
    link = f"mor{int(IPv4Address((await pod(world, 'web-0')).status.pod_ip)):08x}"
    assert link in links()
    assert await world.stop(signal.SIGKILL) != 0
    await world.start()
    await world.until(lambda: (world.root / "agent.log").read_text().count("event=registered") == 2)
    assert link in links()
    await world.stop(signal.SIGUSR1)
    of_this_node = link[:-2]
    await world.until(lambda: not any(each.startswith(of_this_node) for each in links()))
    assert not release(world.node_root), "the node that was shut down still had its part of the addresses"


AFTER_A_KILL = f"""
import subprocess, sys
from ipaddress import IPv4Network
from pathlib import Path
from mooring.node.network import claim, release
first, second = map(Path, sys.argv[1:])
network = claim(first, IPv4Network("{ADDRESSES}"))
link = network.allocate(()).host_interface
subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", "of-a-pod"], check=True)
release(first)
assert claim(second, IPv4Network("{ADDRESSES}")).gateway == network.gateway
assert subprocess.run(["ip", "link", "show", link], capture_output=True).returncode != 0, "it is there still"
"""


def test_a_part_that_is_given_out_again_has_no_links_of_its_former_node(tmp_path: Path) -> None:
    """One that was killed, and a process of which holds its link. In a network of its own, where no other
    node takes the part."""
    roots = [str(tmp_path / name) for name in ("one", "two")]
    command = ["unshare", "--net", sys.executable, "-c", AFTER_A_KILL, *roots]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def taken() -> Iterator[str]:
    """A link that is not Mooring's and has the addresses that Mooring would use."""
    link = f"mor{os.getpid()}"
    for command in (
        f"link add {link} type bridge",
        f"address add 10.89.255.1/24 dev {link}",
        f"link set {link} up",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    yield link
    subprocess.run(["ip", "link", "delete", link], check=True)


async def test_where_there_can_be_no_network_an_event_says_so(tmp_path: Path, taken: str) -> None:
    async with agent_world(tmp_path) as world:
        await world.start("boot-1", "--pod-network", "10.89.0.0/16")
        await world.create_pod("exec sleep 1000", volumes=[])
        await world.until(world.running)
        message = await world.until(lambda: world.event("NoPodNetwork"))
        assert f"10.89.0.0/16 is used by {taken}" in message


def test_each_node_has_a_part_of_the_addresses_and_finds_it_again(roots: list[Path]) -> None:
    first, second = (claim(root, ADDRESSES).allocate(()) for root in roots)
    assert first.gateway != second.gateway
    assert claim(roots[0], ADDRESSES).allocate(()).gateway == first.gateway
    assert release(roots[0])
    assert not release(roots[0])
    assert claim(roots[1], ADDRESSES).allocate(()) == second


def test_an_address_is_not_used_again_at_once(roots: list[Path]) -> None:
    network = claim(roots[0], ADDRESSES)
    given = [network.allocate(()) for _ in range(253)]
    assert len({each.address for each in given}) == 253
    assert network.allocate([given[0].address]) == given[1]
    assert isinstance(given[0], PodNetwork)


def test_in_a_user_namespace_there_is_no_network_and_it_is_said(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ipaddress import IPv4Network; from mooring.node import network\n"
        "try:\n    network.claim(Path(sys.argv[1]), IPv4Network('10.88.0.0/16'))\n"
        "except network.NetworkUnavailable as error:\n    print('unavailable:', error)"
    )
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", code, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.startswith("unavailable: ")
