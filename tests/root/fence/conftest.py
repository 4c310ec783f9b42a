"""Orders for the devices of a rack."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fence.contract import Case
from tests.root.machines.bmc.conftest import Rack, need

from mooring.fence.agents import kinds
from mooring.fence.interface import Mechanism, Order, Target

POWER = ("ipmi", "redfish", "power-strip")
ALL = (*POWER, "switch-port")
soak = [
    pytest.mark.soak,
    pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="a long round: `make soak` plays it"),
]


def soaked(test: Any) -> Any:
    """A test that is played in the long round alone."""
    for mark in soak:
        test = mark(test)
    return test


QUICK_ONES = ("redfish", "switch-port")


def mostly_soak(*of: str) -> list[object]:
    """Kinds as a test's parameters; without MOORING_SOAK the quick ones alone."""
    return [each if each in QUICK_ONES else pytest.param(each, marks=soak) for each in of]


SEVEN = {"power_timeout": "7", "login_timeout": "5", "shell_timeout": "5"}


@pytest.fixture
async def rack(tmp_path: Path) -> AsyncIterator[Rack]:
    need("ipmi_sim")
    need("fence_ipmilan")
    rack = Rack(tmp_path / "data")
    try:
        await rack.start()
        yield rack
    finally:
        await rack.stop()


def mechanism(kind: str) -> Mechanism:
    made: dict[str, Mechanism] = {
        each.kind: each
        for each in (kinds.ipmi(), kinds.redfish(), kinds.power_strip(), kinds.switch_port(), kinds.agent())
    }
    return made[kind]


def order(rack: Rack, kind: str, machine: str = "node-1", **changes: Any) -> Order:
    """What a person would write for that machine."""
    told = rack.reach(machine)
    password = rack.paths.password.read_text().strip()
    secrets = {"password": password}
    snmp = {
        "snmp_version": "3",
        "snmp_sec_level": "authPriv",
        "snmp_auth_prot": "SHA",
        "snmp_priv_prot": "AES",
    }
    match kind:
        case "ipmi":
            own = {"ipport": str(told["ipmi"]["port"]), "cipher": str(told["ipmi"]["cipherSuite"])}
        case "redfish":
            own = {
                "ipport": told["redfish"]["url"].rsplit(":", 1)[1],
                "ca_certificate": Path(told["redfish"]["certificateFile"]).read_text(),
            }
        case "power-strip":
            own = {
                "ipport": str(told["powerStrip"]["port"]),
                "plug": str(told["powerStrip"]["socket"]),
                **snmp,
            }
        case _:
            own = {"ipport": str(told["switch"]["port"]), "plug": str(told["switch"]["interface"]), **snmp}
    if "snmp_version" in own:
        secrets["snmp_priv_passwd"] = password
    target = Target(machine, "uid", "boot", system_uuid=told["systemUUID"])
    given = {"ip": told["address"], "username": told["user"], **own, **SEVEN}
    return Order(
        **{
            "target": target,
            "token": "t-1",
            "parameters": given,
            "secrets": secrets,
            "deadline": 60,
            **changes,
        }
    )


def case(rack: Rack, kind: str) -> Case:
    async def works() -> bool:
        machine = rack.machines["node-1"]
        return not machine.links.cuts if kind == "switch-port" else await machine.writes()

    given = order(rack, kind)
    return Case(
        mechanism(kind), given, works, rack.machines["node-2"].writes, sorted(set(given.secrets.values()))
    )
