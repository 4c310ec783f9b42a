"""The SNMP agent: what it shows, what may be set, and packets that are none."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysnmp.proto import rfc1902, rfc1905

from mooring.cluster.machines.bmc import mib, snmp
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence, Verb
from mooring.cluster.machines.bmc.snmp import DATAGRAM, PENDING, VARIABLES, Agent, Requests, SnmpError
from mooring.cluster.processes import free_port

NAMES = ("node-1", "node-2")
OUTLET_1 = (*mib.OUTLET_CONTROL, 4, 1)
STATE_2 = (*mib.OUTLET_STATUS, 4, 2)
ADMIN_1, OPER_1 = (*mib.IF_ENTRY, 7, 1), (*mib.IF_ENTRY, 8, 1)


class World:
    """node-1 is on, node-2 is off."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.power = {"node-1": "on", "node-2": "off"}
        self.ports = {"node-1": "up", "node-2": "up"}
        self.hold = asyncio.Event()
        self.hold.set()
        self.broken = False
        self.silent = False

    async def ask(self, device: Device, machine: str, verb: Verb) -> str:
        self.asked.append(f"{device} {machine} {verb}")
        await self.hold.wait()
        if self.silent:
            raise Silence
        if self.broken:
            raise DeviceError("it is broken")
        return {Verb.POWER: self.power, Verb.PORT: self.ports}.get(verb, {machine: "done"})[machine]


def requests(world: World, tree: mib.Tree | None = None) -> Requests:
    return Requests(tree or mib.strip(NAMES), world.ask)


def numbers(bindings: list[tuple[Any, Any]]) -> list[Any]:
    return [int(value) if isinstance(value, rfc1902.Integer32) else value for _, value in bindings]


def test_a_socket_shows_the_power_of_its_machine(run: Callable[..., Any]):
    found = run(requests(World()).read([OUTLET_1, (*mib.OUTLET_STATUS, 4, 1), STATE_2]))
    assert numbers(found) == [mib.ON, mib.ON, mib.OFF]


@pytest.mark.parametrize(("number", "verb"), [(1, "on"), (2, "off"), (3, "reset")])
def test_a_socket_is_switched_by_its_number(run: Callable[..., Any], number: int, verb: str):
    world = World()
    run(requests(world).write([(OUTLET_1, rfc1902.Integer32(number))]))
    assert world.asked == [f"strip node-1 {verb}"]


def test_a_port_is_up_while_it_is_set_so_and_its_machine_has_power(run: Callable[..., Any]):
    world = World()
    switch = requests(world, mib.switch(NAMES))
    read = [ADMIN_1, OPER_1, (*mib.IF_ENTRY, 7, 2), (*mib.IF_ENTRY, 8, 2)]
    assert numbers(run(switch.read(read))) == [mib.UP, mib.UP, mib.UP, mib.DOWN]
    world.ports["node-1"] = "down"
    assert numbers(run(switch.read(read))) == [mib.DOWN, mib.DOWN, mib.UP, mib.DOWN]
    run(switch.write([(ADMIN_1, rfc1902.Integer32(mib.UP))]))
    assert world.asked[-1] == "switch node-1 up"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (STATE_2, rfc1902.Integer32(2), "notWritable"),
        ((*mib.SYSTEM, 1, 0), rfc1902.OctetString("x"), "notWritable"),
        ((*mib.OUTLET_CONTROL, 4, 3), rfc1902.Integer32(2), "notWritable"),
        ((1, 3, 9), rfc1902.Integer32(2), "noCreation"),
        (OUTLET_1, rfc1902.Integer32(0), "wrongValue"),
        (OUTLET_1, rfc1902.Integer32(4), "wrongValue"),
        (OUTLET_1, rfc1902.OctetString("2"), "wrongType"),
        (OUTLET_1, rfc1902.Gauge32(2), "wrongType"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_of_the_request_is_done(
    run: Callable[..., Any], name: mib.Oid, value: Any, status: str
):
    world = World()
    with pytest.raises(SnmpError) as error:
        run(requests(world).write([(OUTLET_1, rfc1902.Integer32(2)), (name, value)]))
    assert (error.value.status, error.value.index) == (status, 2)
    assert world.asked == []


def test_what_is_not_there_is_told_so(run: Callable[..., Any]):
    found = run(requests(World()).read([(*mib.OUTLET_CONTROL, 4, 9), (1, 2, 3)]))
    assert [value for _, value in found] == [rfc1905.noSuchInstance, rfc1905.noSuchObject]


def test_a_device_that_fails_is_a_general_error_at_its_place(run: Callable[..., Any]):
    world = World()
    world.broken = True
    with pytest.raises(SnmpError) as error:
        run(requests(world).read([(*mib.SYSTEM, 1, 0), OUTLET_1]))
    assert (error.value.status, error.value.index) == ("genErr", 2)


@pytest.mark.parametrize("tree", [mib.strip(NAMES), mib.switch(NAMES)], ids=["strip", "switch"])
def test_a_walk_meets_every_object_once_in_order_and_ends(run: Callable[..., Any], tree: mib.Tree):
    async def walk() -> list[mib.Oid]:
        agent, name, met = requests(World(), tree), (1,), list[mib.Oid]()
        while (found := await agent.read_next([name]))[0][1] is not rfc1905.endOfMibView:
            name = found[0][0]
            met.append(name)
        return met

    met = run(walk())
    assert met == sorted(set(met))
    assert all(tree.get(name) for name in met)
    assert len(met) == (15 if tree.device is Device.STRIP else 18)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20).map(tuple))
def test_what_follows_any_identifier_is_behind_it(oid: mib.Oid):
    for tree in (mib.strip(NAMES), mib.switch(NAMES)):
        following = tree.after(oid)
        assert following is None or following > oid
        tree.knows_column(oid)


@given(st.integers(0, 5), st.integers(0, 10**6), st.integers(1, 60))
def test_bulk_is_bounded_and_starts_as_next_does(single: int, repetitions: int, names: int):
    async def story() -> None:
        agent, asked = requests(World()), [(1, 3)] * names
        found = await agent.read_bulk(asked, single, repetitions)
        assert len(found) <= max(VARIABLES, names)
        assert found[: min(single, names)] == (await agent.read_next(asked))[: min(single, names)]

    asyncio.run(story())


# --- packets


class Wire:
    """An agent, and a socket that speaks to it."""

    def __init__(self) -> None:
        self.world = World()
        self.port = free_port()
        self.agent = Agent(mib.strip(NAMES), self.world.ask, "secret", "mooring", "password1234")
        self.agent.open("127.0.0.1", self.port)

    async def exchange(self, packet: bytes, patience: float = 5) -> bytes | None:
        """The first answer; None if there is none within `patience` seconds."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(("127.0.0.1", self.port))
            await loop.sock_sendall(client, packet)
            try:
                return await asyncio.wait_for(loop.sock_recv(client, 65536), patience)
            except TimeoutError:
                return None


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    await asyncio.sleep(0.05)
    yield wire
    wire.agent.close()


def length(body: bytes) -> bytes:
    if len(body) < 128:
        return bytes([len(body)])
    size = len(body).to_bytes(4, "big").lstrip(b"\0")
    return bytes([0x80 | len(size)]) + size


def tlv(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([tag]) + length(body) + body


def encoded(oid: mib.Oid) -> bytes:
    body = bytes([40 * oid[0] + oid[1]])
    for number in oid[2:]:
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(0x80 | number & 0x7F)
        body += bytes(reversed(groups))
    return tlv(6, body)


GET, NEXT, SET, BULK = 0xA0, 0xA1, 0xA3, 0xA5


def request(
    kind: int,
    *bindings: bytes,
    community: bytes = b"secret",
    version: int = 1,
    number: int = 7,
    fields: tuple[int, int] = (0, 0),
) -> bytes:
    varbinds = tlv(0x30, *bindings)
    counts = [tlv(2, bytes([field])) for field in fields]
    pdu = tlv(kind, tlv(2, number.to_bytes(4, "big")), *counts, varbinds)
    return tlv(0x30, tlv(2, bytes([version])), tlv(4, community), pdu)


def binding(oid: mib.Oid, value: bytes = b"\5\0") -> bytes:
    return tlv(0x30, encoded(oid), value)


READ = request(GET, binding(OUTLET_1))
SWITCH_OFF = request(SET, binding(OUTLET_1, tlv(2, b"\2")))


@pytest.mark.parametrize("version", [0, 1])
async def test_a_packet_is_answered(wire: Wire, version: int):
    reply = await wire.exchange(request(GET, binding(OUTLET_1), version=version))
    assert reply is not None
    assert reply.endswith(encoded(OUTLET_1) + tlv(2, b"\1"))
    assert wire.world.asked == ["strip node-1 power"]


async def test_a_wrong_community_is_not_answered_and_does_nothing(wire: Wire):
    off = request(SET, binding(OUTLET_1, tlv(2, b"\2")), community=b"private")
    assert await wire.exchange(off, 0.3) is None
    assert wire.world.asked == []
    assert await wire.exchange(SWITCH_OFF)
    assert wire.world.asked == ["strip node-1 off"]


async def test_an_order_that_is_sent_again_while_it_is_under_way_is_done_once_and_answered_each_time(
    wire: Wire,
):
    wire.world.hold.clear()
    sent = [asyncio.create_task(wire.exchange(SWITCH_OFF)) for _ in range(3)]
    await asyncio.sleep(0.3)
    wire.world.hold.set()
    assert all(await asyncio.gather(*sent))
    assert wire.world.asked == ["strip node-1 off"]


async def test_no_more_than_so_many_requests_wait(wire: Wire, monkeypatch: pytest.MonkeyPatch):
    all_arrived, arrived = asyncio.Event(), list[object]()
    before = snmp._Responder.handle_management_operation

    def noted(responder: snmp._Responder, *args: Any) -> None:
        before(responder, *args)
        arrived.append(args)
        if len(arrived) == len(packets):
            all_arrived.set()

    monkeypatch.setattr(snmp._Responder, "handle_management_operation", noted)
    wire.world.hold.clear()
    packets = [request(GET, *[binding(OUTLET_1)] * (1 + n % 40), number=n) for n in range(PENDING + 30)]
    sent = [asyncio.create_task(wire.exchange(packet, 3)) for packet in packets]
    await all_arrived.wait()
    wire.world.hold.set()
    assert sum(reply is not None for reply in await asyncio.gather(*sent)) == PENDING
    assert await wire.exchange(READ)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_silent_device_is_not_answered_and_leaves_nothing_behind(wire: Wire, version: int):
    wire.world.silent = True
    for number in range(50):
        await wire.exchange(request(GET, binding(OUTLET_1), version=version, number=number), 0.02)
    assert wire.world.asked
    model = wire.agent._engine.message_processing_subsystems[version]
    assert held(model._cache) == 0
    wire.world.silent = False
    assert await wire.exchange(READ)


def held(cache: object) -> int:
    """How many requests pysnmp remembers there."""
    return len(vars(cache)["_Cache__stateReferenceIndex"])


async def test_a_request_of_too_many_variables_is_refused(wire: Wire):
    name = (*mib.SYSTEM, 1, 0)
    many = request(GET, *[binding(name)] * (VARIABLES + 1))
    assert len(many) < DATAGRAM
    assert b"Switched" not in (await wire.exchange(many) or b"Switched")
    assert wire.world.asked == []


HOSTILE = [
    b"",
    b"\0",
    b"\x30",
    b"\x30\x84\xff\xff\xff\xff",
    b"\x30\x80" * 1000,
    b"\xa0\x80" * 1000,
    b"\x30" * 2000,
    tlv(0x30, tlv(2, b"\1"), tlv(4, b"secret"), b"\xa0\x80" * 900),
    request(GET, binding(OUTLET_1), version=9),
    request(0xA2, binding(OUTLET_1)),
    request(0xA7, binding(OUTLET_1)),
    request(0xBF, binding(OUTLET_1)),
    request(BULK, binding((1, 3)), fields=(0x80, 0x80)),
    request(GET, tlv(0x30, b"\6\0", b"\5\0")),
    request(GET, tlv(0x30, b"\6\x09" + b"\xff" * 9, b"\5\0")),
    request(SET, binding(OUTLET_1, b"\2\0")),
    request(SET, binding(OUTLET_1, tlv(2, b"\x7f" * 200))),
    request(SET, binding(OUTLET_1, tlv(0x30, SWITCH_OFF))),
    SWITCH_OFF[:-1],
    SWITCH_OFF.replace(b"secret", b"secreT"),
    SWITCH_OFF + b"\0" * DATAGRAM,
]


@pytest.mark.parametrize("packet", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_packet_switches_nothing_and_the_agent_lives(
    wire: Wire, packet: bytes, caplog: pytest.LogCaptureFixture
):
    if packet:
        await wire.exchange(packet, 0.1)
    assert [asked for asked in wire.world.asked if not asked.endswith("power")] == []
    assert await wire.exchange(READ)


async def answered(wire: Wire) -> bool:
    """Whether one of several readings is answered: the agent may have a heap of packets before it, and what
    does not fit into its socket is lost."""
    for _ in range(20):
        if await wire.exchange(READ):
            return True
    return False


async def test_bytes_of_chance_switch_nothing_and_the_agent_lives(wire: Wire):
    """Whole packets of chance, and right ones with some bytes changed, none of which may be an order by the
    right community."""
    loop = asyncio.get_running_loop()
    chance = Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect(("127.0.0.1", wire.port))
        for round_ in range(3000):
            packet = bytearray(request(GET, binding(OUTLET_1), number=round_))
            if round_ % 3 == 0:
                packet = bytearray(chance.randbytes(chance.randrange(200)))
            for _ in range(chance.randrange(4)):
                if packet:
                    packet[chance.randrange(len(packet))] = chance.randrange(256)
            await loop.sock_sendall(client, bytes(packet))
            if round_ % 20 == 0:
                await asyncio.sleep(0.005)
    assert await answered(wire)
    assert [asked for asked in wire.world.asked if not asked.endswith("power")] == []


async def test_version_3_without_authentication_is_not_answered_with_values(wire: Wire):
    if shutil.which("snmpget") is None:
        pytest.skip("needs snmpget: apt-get install snmp")
    private = ["-l", "authPriv", "-a", "SHA", "-A", "password1234", "-x", "AES", "-X", "password1234"]
    wrong = [word.replace("password1234", "password1235") for word in private]
    assert "INTEGER: 1" in await snmpget(wire, *private)
    for flags in (wrong, ["-l", "noAuthNoPriv"], ["-l", "authNoPriv", "-a", "SHA", "-A", "password1235"]):
        wire.world.asked.clear()
        assert "INTEGER" not in await snmpget(wire, *flags)
        assert wire.world.asked == []


async def snmpget(wire: Wire, *flags: str) -> str:
    target = [f"127.0.0.1:{wire.port}", ".".join(map(str, OUTLET_1))]
    process = await asyncio.create_subprocess_exec(
        *["snmpget", "-m", "", "-r", "0", "-v", "3", "-u", "mooring", *flags, *target],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return (await process.communicate())[0].decode()
