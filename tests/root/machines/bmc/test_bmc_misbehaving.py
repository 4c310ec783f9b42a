"""Devices that misbehave on purpose, each by the protocol that it speaks: what the agent is told, and what is
true."""

from __future__ import annotations

import asyncio

import pytest
from tests.root.machines.bmc.conftest import Rack

from mooring.cluster.machines.bmc.door import ask
from mooring.cluster.machines.bmc.power_switch import Silence

pytestmark = pytest.mark.root

DEVICE_OF = {"fence_ipmilan": "bmc", "fence_redfish": "bmc", "fence_apc_snmp": "strip"}
POWER_AGENTS = tuple(DEVICE_OF)
HASTY = {
    "fence_ipmilan": ("--ipmitool-timeout=1", "--login-timeout=3", "--power-timeout=3"),
    "fence_redfish": ("--power-timeout=2",),
    "fence_apc_snmp": ("--power-timeout=2", "--shell-timeout=3", "--login-timeout=1"),
}
"""So that an agent gives up soon."""
OFF_IS_2 = 2


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_lying_device_says_off_and_the_machine_goes_on_writing(rack: Rack, agent: str):
    await rack.misbehave("lie")
    status, said = await rack.do(agent, "off")
    assert status == 0, said
    assert (await rack.do(agent, "status"))[0] == OFF_IS_2
    assert await rack.machines["node-1"].writes()
    assert await rack.truth() == "on"
    await rack.misbehave("none")
    assert (await rack.do(agent, "status"))[0] == 0


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_refusing_device_makes_the_agent_fail_and_does_nothing(rack: Rack, agent: str):
    await rack.misbehave("refuse")
    status, _ = await rack.do(agent, "off", *HASTY[agent])
    assert status not in (0, OFF_IS_2)
    assert await rack.machines["node-1"].writes()
    assert rack.machines["node-1"].boots == 1


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_device_of_the_wrong_machine_tells_and_does_what_is_that_ones(rack: Rack, agent: str):
    await rack.misbehave("wrong=node-2")
    status, said = await rack.do(agent, "off")
    assert status == 0, said
    assert (await rack.do(agent, "status"))[0] == OFF_IS_2
    assert not await rack.machines["node-2"].writes()
    assert await rack.machines["node-1"].writes()
    assert (await rack.truth("node-1"), await rack.truth("node-2")) == ("on", "off")


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_late_device_does_what_it_was_asked_after_the_agent_gave_up(rack: Rack, agent: str):
    command = rack.command(agent, "off")
    await rack.misbehave("late=2s")
    process = await asyncio.create_subprocess_exec(
        *[word for word in command if not word.startswith("REQUESTS_CA_BUNDLE")],
        env={"REQUESTS_CA_BUNDLE": str(rack.paths.certificate), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    # The state is asked first, 2 s; then the order is given.
    assert await rack.machines["node-1"].writes()
    for _ in range(1000):
        if rack.machines["node-1"].power == "off":
            break
        await asyncio.sleep(0.02)
    assert not await rack.machines["node-1"].writes()
    await process.wait()


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_silent_device_gives_no_answer_and_does_nothing(rack: Rack, agent: str):
    await rack.misbehave("silent")
    asked = asyncio.create_task(rack.do(agent, "off", *HASTY[agent]))
    await asyncio.sleep(5)  # a busy machine takes seconds to start the program
    assert await rack.machines["node-1"].writes()
    if agent == "fence_redfish":  # it has no time-out of its own: it waits for ever
        assert not asked.done()
        await rack.misbehave("none")
    status, _ = await asked
    assert status not in (0, OFF_IS_2)
    assert await rack.machines["node-1"].writes()


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_what_was_asked_of_a_silent_device_is_not_done_once_it_speaks_again(rack: Rack, agent: str):
    await rack.misbehave("silent")
    asked = asyncio.create_task(rack.do(agent, "off", *HASTY[agent]))
    await asyncio.sleep(2)
    await rack.misbehave("none")
    await asked
    state, _ = await rack.do(agent, "status")
    machine = rack.machines["node-1"]
    # An agent that was still trying may have got through; then it has switched it off, and says so.
    assert state == (0 if machine.power == "on" else OFF_IS_2)
    await machine.start()
    assert await machine.writes()
    assert (await rack.do(agent, "status"))[0] == 0


async def test_only_the_devices_that_are_named_misbehave(rack: Rack):
    await rack.misbehave("refuse", "bmc")
    assert (await rack.do("fence_ipmilan", "off", *HASTY["fence_ipmilan"]))[0] not in (0, OFF_IS_2)
    assert (await rack.do("fence_apc_snmp", "off"))[0] == 0
    assert not await rack.machines["node-1"].writes()


async def test_only_the_machine_that_is_named_has_devices_that_misbehave(rack: Rack):
    await rack.misbehave("silent")
    for agent in POWER_AGENTS:
        assert (await rack.do(agent, "status", machine="node-2"))[0] == 0


@pytest.mark.parametrize("how", ["lie", "refuse", "wrong=node-2", "silent"])
async def test_a_switch_misbehaves_too(rack: Rack, how: str):
    links, other = rack.machines["node-1"].links, rack.machines["node-2"].links
    await rack.misbehave(how, "switch")
    status, _ = await rack.do("fence_ifmib", "off", "--shell-timeout=2", "--login-timeout=1")
    assert links.cuts == []
    assert bool(other.cuts) == (how == "wrong=node-2")
    assert (status == 0) == (how in ("lie", "wrong=node-2"))


async def test_what_a_silent_bmc_was_asked_at_the_door_ends_without_an_answer(rack: Rack):
    await rack.misbehave("silent")
    asked = asyncio.create_task(ask(rack.paths.door, "bmc node-1 off"))
    await asyncio.sleep(0.1)
    assert not asked.done()
    await rack.misbehave("none")
    with pytest.raises(Silence):
        await asked
    assert await rack.truth() == "on"
