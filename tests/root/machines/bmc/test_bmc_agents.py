"""Fence agents that others wrote, against every device: what they switch off stops writing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.root.machines.bmc.conftest import Rack, need

from mooring.cluster.machines.interface import Cut

pytestmark = pytest.mark.root

POWER_AGENTS = ("fence_ipmilan", "fence_redfish", "fence_apc_snmp")
ON, OFF_IS_2 = 0, 2
"""FenceAgentAPI: `status` exits with 0 for on and 2 for off."""


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_what_an_agent_switches_off_writes_nothing_any_more(rack: Rack, agent: str):
    machine, other = rack.machines["node-1"], rack.machines["node-2"]
    assert (await rack.do(agent, "status"))[0] == ON
    assert await machine.writes()
    status, said = await rack.do(agent, "off")
    assert status == 0, said
    assert not await machine.writes()
    assert await other.writes()
    assert (await rack.do(agent, "status"))[0] == OFF_IS_2


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_what_an_agent_switches_on_writes_again(rack: Rack, agent: str):
    await rack.machines["node-1"].lose_power()
    status, said = await rack.do(agent, "on")
    assert status == 0, said
    assert await rack.machines["node-1"].writes()
    assert (await rack.do(agent, "status"))[0] == ON


@pytest.mark.parametrize("agent", POWER_AGENTS)
async def test_a_reboot_is_one_boot_of_that_machine(rack: Rack, agent: str):
    status, said = await rack.do(agent, "reboot")
    assert status == 0, said
    assert (rack.machines["node-1"].boots, rack.machines["node-2"].boots) == (2, 1)
    assert await rack.machines["node-1"].writes()


async def test_a_machine_that_died_by_itself_is_off_for_every_device(rack: Rack):
    await rack.machines["node-1"].lose_power()
    for agent in POWER_AGENTS:
        assert (await rack.do(agent, "status"))[0] == OFF_IS_2


async def test_a_port_that_the_agent_takes_down_is_a_cut_of_all_traffic(rack: Rack):
    links = rack.machines["node-1"].links
    status, said = await rack.do("fence_ifmib", "off")
    assert status == 0, said
    assert links.cuts == [Cut()]
    assert (await rack.do("fence_ifmib", "status"))[0] == OFF_IS_2
    assert (await rack.do("fence_ifmib", "status", machine="node-2"))[0] == ON
    assert await rack.machines["node-1"].writes()  # it is cut off, not switched off
    assert (await rack.do("fence_ifmib", "on"))[0] == 0
    assert links.cuts == []


async def test_a_port_whose_link_was_healed_by_other_means_is_not_told_to_be_down(rack: Rack):
    await rack.do("fence_ifmib", "off")
    await rack.machines["node-1"].links.heal()
    assert (await rack.do("fence_ifmib", "status"))[0] == ON


async def test_agents_of_snmp_find_machines_by_name_and_by_the_default_versions(rack: Rack):
    need("fence_apc_snmp")
    community = rack.paths.community.read_text()
    v1 = ("--snmp-version", "1", "--community", community, "--plug", "node-2")
    status, said = await rack.do("fence_apc_snmp", "off", *v1)
    assert status == 0, said
    assert not await rack.machines["node-2"].writes()
    assert await rack.machines["node-1"].writes()
    v2 = ("--snmp-version", "2c", "--community", community, "--plug", "node-2")
    assert (await rack.do("fence_ifmib", "status", *v2))[0] == ON
    _, listed = await rack.do("fence_apc_snmp", "list", *v1)
    assert listed.split() == ["1,node-1", "2,node-2"]


@pytest.mark.parametrize("agent", [*POWER_AGENTS, "fence_ifmib"])
async def test_a_wrong_password_does_nothing(rack: Rack, agent: str):
    wrong = ("--password-script", "echo not-the-password")
    status, _ = await rack.do(agent, "off", *wrong)
    assert status not in (0, OFF_IS_2)
    assert await rack.machines["node-1"].writes()
    assert rack.machines["node-1"].links.cuts == []


async def test_all_devices_listen_on_the_address_that_is_given_and_only_there(tmp_path: Path):
    need("ipmi_sim")
    rack = Rack(tmp_path / "data", "127.0.0.3")
    try:
        await rack.start()
        for agent in (*POWER_AGENTS, "fence_ifmib"):
            command = rack.command(agent, "status")
            assert "127.0.0.3" in command
            assert (await rack.do(agent, "status"))[0] == ON
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(rack.reach()["redfish"]["url"].rsplit(":", 1)[1]))
    finally:
        await rack.stop()


# --- ipmitool


async def test_ipmitool_tells_the_machines_uuid_as_guid(rack: Rack):
    for name in rack.machines:
        command = rack.command("ipmitool", "status", name)
        _, said = await rack.do("ipmitool", "status", machine=name)
        assert "Chassis Power is on" in said
        said = await _ipmitool(rack, command, "mc", "guid")
        assert rack.reach(name)["systemUUID"] in said
    assert rack.reach("node-1")["systemUUID"] != rack.reach("node-2")["systemUUID"]


async def test_ipmitool_presses_the_button_resets_and_cycles(rack: Rack):
    machine = rack.machines["node-1"]
    await rack.do("ipmitool", "soft")
    while machine.power == "on":
        await _pause()
    assert machine.pressed == 1
    await rack.do("ipmitool", "on")
    assert machine.boots == 2
    await rack.do("ipmitool", "reset")
    assert machine.boots == 3
    await rack.do("ipmitool", "cycle")
    while machine.boots < 4:
        await _pause()
    assert await machine.writes()


async def test_ipmitool_reads_the_chassis_status_and_lights_no_lamp(rack: Rack):
    command = rack.command("ipmitool", "status")
    assert "System Power         : on" in await _ipmitool(rack, command, "chassis", "status")
    assert "identify" in await _ipmitool(rack, command, "chassis", "identify", "5")
    assert "Set Boot Device to pxe" in await _ipmitool(rack, command, "chassis", "bootdev", "pxe")


async def _ipmitool(rack: Rack, command: list[str], *words: str) -> str:
    place = command.index("chassis")
    process = await asyncio.create_subprocess_exec(
        *command[:place], *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await process.communicate())[0].decode()


async def _pause() -> None:
    await asyncio.sleep(0.02)
