"""Packets that no client sends, and clients that do not agree, against the real devices."""

from __future__ import annotations

import asyncio
import socket
from random import Random

import pytest
from tests.root.machines.bmc.conftest import Rack

pytestmark = pytest.mark.root

RMCP_PING = bytes.fromhex("0600ff06000011be80000000")
OPEN_SESSION = bytes.fromhex(
    "0600ff07061000000000000000002000" + "00" * 4 + "a4a3a2a0" + "0000000801000000" * 3
)


async def flood(port: int, rounds: int = 2000) -> None:
    """Sends bytes of chance, and packets that begin as IPMI's do."""
    loop, chance = asyncio.get_running_loop(), Random(11)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        for number in range(rounds):
            packet = bytearray(
                (RMCP_PING, OPEN_SESSION, chance.randbytes(chance.randrange(1, 300)))[number % 3]
            )
            for _ in range(chance.randrange(4)):
                packet[chance.randrange(len(packet))] = chance.randrange(256)
            await loop.sock_sendto(client, bytes(packet), ("127.0.0.1", port))
            if number % 20 == 0:
                await asyncio.sleep(0.005)


async def test_bytes_of_chance_switch_nothing_off_and_every_device_answers_after_them(rack: Rack):
    found = rack.reach()
    for port in (found["ipmi"]["port"], found["powerStrip"]["port"], found["switch"]["port"]):
        await flood(port)
    assert await rack.machines["node-1"].writes()
    assert rack.machines["node-1"].boots == 1
    for program in ("fence_ipmilan", "fence_redfish", "fence_apc_snmp", "fence_ifmib"):
        for _ in range(50):
            status, said = await rack.do(program, "status")
            if status == 0:
                break
            await asyncio.sleep(0.1)
        assert status == 0, said


async def test_agents_at_all_devices_at_once_leave_a_machine_in_the_state_of_the_last_that_succeeded(
    rack: Rack,
):
    orders = [("fence_ipmilan", "off"), ("fence_redfish", "off"), ("fence_apc_snmp", "off")] * 2
    done = await asyncio.gather(*(rack.do(program, order) for program, order in orders))
    assert [status for status, _ in done] == [0] * len(orders)
    assert not await rack.machines["node-1"].writes()
    orders = [("fence_ipmilan", "on"), ("fence_redfish", "on"), ("fence_apc_snmp", "on")] * 2
    done = await asyncio.gather(*(rack.do(program, order) for program, order in orders))
    assert [status for status, _ in done] == [0] * len(orders)
    assert rack.machines["node-1"].boots == 2
    assert await rack.machines["node-1"].writes()


async def test_a_reboot_at_one_device_and_an_off_at_another_never_end_with_an_off_that_is_on(rack: Rack):
    rebooting = asyncio.create_task(rack.do("ipmitool", "reset"))
    status, said = await rack.do("fence_apc_snmp", "off")
    await rebooting
    assert status == 0, said
    assert not await rack.machines["node-1"].writes()
    assert (await rack.do("fence_redfish", "status"))[0] == 2
