"""The network's fence by real traffic: machines are network namespaces on one bridge."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from tests.fence import contract
from tests.fence.contract import Case
from tests.root.fence.conftest import soaked

from mooring.fence.interface import Order, Outcome, State, Target
from mooring.fence.network.nft import Nft
from mooring.fence.network.rules import table

pytestmark = pytest.mark.root

API = 6443
BEATS = """
import socket, sys, time
own, port, others, file = sys.argv[1], 7, sys.argv[2].split(","), sys.argv[3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((own, port)); s.setblocking(False)
while True:
    time.sleep(0.05)
    for other in others:
        try: s.sendto(own.encode(), (other, port))
        except OSError: pass
    said = []
    try:
        while True: said.append(s.recv(99).decode() + "\\n")
    except BlockingIOError: pass
    with open(file, "a") as log: log.write("".join(said)); log.write("TURN\\n")
"""
SERVES = """
import socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    c, _ = s.accept(); c.sendall(b"hello"); c.close()
"""
ASKS = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.5); print(s.recv(9).decode())
"""


class Net:
    """`host` carries the bridge; `one`, `two` and `three` are machines on it, each of which says to all
    others who it is, every 50 ms, and writes down what it hears."""

    addresses: ClassVar = {"host": "10.99.0.1", "one": "10.99.1.1", "two": "10.99.2.1", "three": "10.99.3.1"}
    macs: ClassVar = {"one": "02:99:00:00:00:01", "two": "02:99:00:00:00:02", "three": "02:99:00:00:00:03"}

    def __init__(self, directory: Path) -> None:
        self._prefix = f"f{secrets.token_hex(3)}"
        self._directory = directory
        self._running: list[asyncio.subprocess.Process] = []

    def name(self, of: str) -> str:
        return f"{self._prefix}-{of}"

    def ip(self, *words: str, of: str = "") -> None:
        inside = ["nsenter", f"--net=/run/netns/{self.name(of)}"] if of else []
        subprocess.run([*inside, "ip", *words], check=True, capture_output=True)

    async def start(self) -> None:
        for each in self.addresses:
            self.ip("netns", "add", self.name(each))
            self.ip("link", "set", "lo", "up", of=each)
        self.ip("link", "add", "br0", "type", "bridge", of="host")
        self.ip("address", "add", "10.99.0.1/16", "dev", "br0", of="host")
        self.ip("link", "set", "br0", "up", of="host")
        for each, mac in self.macs.items():
            far = self.name(each)
            words = ("link", "add", f"tap-{each}", "type", "veth", "peer", "name", "eth0", "netns", far)
            self.ip(*words, of="host")
            self.ip("link", "set", f"tap-{each}", "master", "br0", "up", of="host")
            self.ip("link", "set", "eth0", "address", mac, "up", of=each)
            self.ip("address", "add", f"{self.addresses[each]}/16", "dev", "eth0", of=each)
            if each == "one":
                self.ip("address", "add", "10.99.1.2/16", "dev", "eth0", of=each)
        await self.run("host", SERVES, self.addresses["host"], str(API))
        await self.run("two", SERVES, self.addresses["two"], str(API))
        for each, own in self.addresses.items():
            others = ",".join(other for other in self.addresses.values() if other != own)
            await self.run(each, BEATS, own, others, str(self.heard_file(each)))
        await self.run("one", BEATS, "10.99.1.2", self.addresses["three"], str(self.heard_file("pod")))

    async def run(self, of: str, program: str, *words: str) -> None:
        inside = ("nsenter", f"--net=/run/netns/{self.name(of)}", "python3", "-c", program, *words)
        self._running.append(await asyncio.create_subprocess_exec(*inside))

    def heard_file(self, of: str) -> Path:
        return self._directory / f"{of}.heard"

    async def hears(self, of: str) -> set[str]:
        """Whom it hears while every machine speaks ten times; what waited before is not counted."""
        await self._speak(2)
        begin = self._length(of)
        await self._speak(10)
        with self.heard_file(of).open() as log:
            log.seek(begin)
            return set(log.read().split()) - {"TURN"}

    async def _speak(self, turns: int) -> None:
        spoke = {each: self._turns(each) for each in self.addresses}
        while any(self._turns(each) < before + turns for each, before in spoke.items()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def _length(self, of: str) -> int:
        file = self.heard_file(of)
        return file.stat().st_size if file.exists() else 0

    def _turns(self, of: str) -> int:
        file = self.heard_file(of)
        return file.read_text().count("TURN") if file.exists() else 0

    async def reaches(self, of: str, server: str) -> bool:
        """Whether TCP gets through to a server that is there."""
        words = (
            "nsenter",
            f"--net=/run/netns/{self.name(of)}",
            "python3",
            "-c",
            ASKS,
            self.addresses[server],
        )
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, str(API), stdout=pipe, stderr=pipe)
        return (await process.communicate())[0] == b"hello\n"

    async def stop(self) -> None:
        for each in self._running:
            each.kill()
            await each.wait()
        for each in self.addresses:
            self.ip("netns", "del", self.name(each))


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Net]:
    net = Net(tmp_path)
    try:
        await net.start()
        for each in net.addresses:
            while not {net.addresses[other] for other in net.addresses} - {
                net.addresses[each]
            } <= await net.hears(each):
                pass
        yield net
    finally:
        await net.stop()


def case(net: Net, **given: str) -> Case:
    async def works() -> bool:
        return "10.99.1.1" in await net.hears("two") or "10.99.2.1" in await net.hears("one")

    async def elsewhere() -> bool:
        return {"10.99.3.1", "10.99.0.1"} <= await net.hears("two")

    target = Target("node-1", "uid", "boot", addresses=("10.99.1.1",), macs=(net.macs["one"],))
    parameters = {"leave-open": f"10.99.0.1:{API}", "namespace": net.name("host"), **given}
    return Case(Nft(), Order(target, "token-1", parameters, deadline=20), works, elsewhere)


async def test_a_fence_stops_traffic_between_two_ports_of_one_bridge_and_an_unfence_lets_it_go_on(net: Net):
    await contract.a_fence_stops_it_and_an_unfence_lets_it_go_on(case(net))
    assert "10.99.1.1" in await net.hears("two")


async def test_the_same_order_again_does_no_more(net: Net):
    await contract.the_same_order_again_does_no_more(case(net))


@soaked
async def test_a_fence_that_is_cut_short_can_be_ordered_again(net: Net):
    await contract.a_fence_that_is_cut_short_can_be_ordered_again(case(net), (0.02, 0.05, 0.1, 0.2))


async def test_a_look_changes_nothing(net: Net):
    await contract.a_look_changes_nothing(case(net))


async def test_nothing_of_the_machine_gets_anywhere_in_either_direction(net: Net):
    of = case(net)
    await of.mechanism.fence(of.order)
    for each in ("two", "three", "host"):
        assert not {"10.99.1.1", "10.99.1.2"} & await net.hears(each)
    assert await net.hears("one") == set()
    look = await of.mechanism.look(of.order)
    assert int(look.identity["droppedFrom"]) > 0 and int(look.identity["droppedTo"]) > 0


async def test_the_way_to_the_api_server_alone_is_left_open(net: Net):
    of = case(net)
    assert await net.reaches("one", "two") and await net.reaches("one", "host")
    await of.mechanism.fence(of.order)
    assert not await net.reaches("one", "two")
    assert await net.reaches("one", "host")


async def test_no_way_is_left_open_where_none_is_asked_for(net: Net):
    of = case(net, **{"leave-open": "nothing"})
    await of.mechanism.fence(of.order)
    assert not await net.reaches("one", "host")


async def test_by_its_port_it_is_cut_off_under_any_address(net: Net):
    of = case(net, ports="tap-one")
    of.order = replace(of.order, target=Target("node-1", "uid", "boot"))
    net.ip("link", "set", "eth0", "address", "02:99:00:00:00:77", of="one")
    assert (await of.mechanism.fence(of.order)).outcome is Outcome.FENCED
    assert not await of.works()
    assert "10.99.1.2" not in await net.hears("three")
    assert await of.elsewhere()


@soaked
async def test_fences_stand_beside_one_another(net: Net):
    one, again = case(net), case(net)
    again.order = replace(again.order, token="token-2")
    for each in (one, again):
        assert (await each.mechanism.fence(each.order)).outcome is Outcome.FENCED
    assert (await one.mechanism.unfence(one.order)).outcome is Outcome.UNFENCED
    assert not await one.works()
    assert (await again.mechanism.look(again.order)).state is State.SHUT
    assert (await again.mechanism.unfence(again.order)).outcome is Outcome.UNFENCED
    assert await one.works()


@soaked
async def test_an_address_that_another_machine_has_now_is_left_alone(net: Net):
    wrong = case(net)
    target = Target("node-1", "uid", "boot", addresses=("10.99.2.1",), macs=(net.macs["one"],))
    wrong.order = replace(wrong.order, target=target)
    await contract.another_target_is_left_alone(wrong)
    wrong.order = replace(
        wrong.order,
        target=replace(target, addresses=("10.99.0.1",)),
        parameters={**wrong.order.parameters, "leave-open": "nothing"},
    )
    await contract.another_target_is_left_alone(wrong)
    moved = case(net, ports="tap-three")
    await contract.another_target_is_left_alone(moved)


@soaked
async def test_a_fence_that_was_tampered_with_is_seen_and_made_whole_again(net: Net):
    of = case(net)
    await of.mechanism.fence(of.order)
    name = table("node-1", "token-1")
    nft = ["nsenter", f"--net=/run/netns/{net.name('host')}", "nft"]
    for words in (
        ["flush", "chain", "bridge", name, "from"],
        ["delete", "table", "inet", name],
        ["insert", "rule", "bridge", name, "prerouting", "accept"],
        ["add", "table", "bridge", name, "{ flags dormant; }"],
        ["flush", "ruleset"],
    ):
        await asyncio.to_thread(subprocess.run, [*nft, *words], check=True)
        look = await of.mechanism.look(of.order)
        assert look.state is State.OPEN, words
        answer = await of.mechanism.fence(of.order)
        assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
        assert not await of.works()


async def test_without_the_namespace_nothing_is_claimed(net: Net):
    lost = case(net, namespace="mooring-none")
    assert (await lost.mechanism.look(lost.order)).state is State.UNKNOWN
    assert (await lost.mechanism.fence(lost.order)).outcome is Outcome.UNKNOWN
