"""Redfish clients that others wrote: sushy (OpenStack's) and DMTF's own, over TLS."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redfish
import sushy
from redfish.rest.v1 import InvalidCredentialsError
from tests.root.machines.bmc.conftest import Rack

pytestmark = pytest.mark.root


def password(rack: Rack) -> str:
    return rack.paths.password.read_text()


def connect(rack: Rack, auth: Any) -> Any:
    return sushy.Sushy(rack.reach()["redfish"]["url"], auth=auth, verify=str(rack.paths.certificate))


@pytest.mark.parametrize("kind", ["basic", "session"])
async def test_sushy_finds_the_machine_and_switches_it(rack: Rack, kind: str):
    kinds = {"basic": sushy.auth.BasicAuth, "session": sushy.auth.SessionAuth}

    def story() -> None:
        root = connect(rack, kinds[kind](username="mooring", password=password(rack)))
        (system,) = root.get_system_collection().get_members()
        assert system.uuid == rack.reach()["systemUUID"]
        assert system.power_state == sushy.PowerState.ON
        assert sushy.ResetType.FORCE_OFF in system.get_allowed_reset_system_values()
        system.reset_system(sushy.ResetType.FORCE_OFF)
        system.refresh()
        assert system.power_state == sushy.PowerState.OFF
        (manager,) = root.get_manager_collection().get_members()
        assert manager.manager_type == sushy.ManagerType.BMC

    await asyncio.to_thread(story)
    assert not await rack.machines["node-1"].writes()
    assert await rack.machines["node-2"].writes()


async def test_dmtfs_client_logs_in_switches_the_machine_and_logs_out(rack: Rack):
    reach = rack.reach()["redfish"]

    def story() -> list[int]:
        client = redfish.redfish_client(
            base_url=reach["url"],
            username="mooring",
            password=password(rack),
            cafile=str(rack.paths.certificate),
        )
        client.login(auth="session")
        target = f"{reach['system']}/Actions/ComputerSystem.Reset"
        found = [
            client.get(reach["system"]).status,
            client.post(target, body={"ResetType": "ForceOff"}).status,
            client.post(target, body={"ResetType": "Explode"}).status,
        ]
        client.logout()
        return found

    assert await asyncio.to_thread(story) == [200, 204, 400]
    assert not await rack.machines["node-1"].writes()


async def test_a_wrong_password_logs_nobody_in(rack: Rack):
    def story() -> None:
        with pytest.raises(sushy.exceptions.AccessError):
            connect(rack, sushy.auth.BasicAuth(username="mooring", password="no")).get_system_collection()
        client = redfish.redfish_client(
            base_url=rack.reach()["redfish"]["url"],
            username="mooring",
            password="no",
            cafile=str(rack.paths.certificate),
        )
        with pytest.raises(InvalidCredentialsError):
            client.login(auth="session")

    await asyncio.to_thread(story)
    assert rack.machines["node-1"].boots == 1


async def test_a_client_that_does_not_know_the_certificate_is_not_fooled(rack: Rack):
    def story() -> None:
        with pytest.raises(sushy.exceptions.ConnectionError):
            sushy.Sushy(rack.reach()["redfish"]["url"], username="mooring", password=password(rack))

    await asyncio.to_thread(story)
