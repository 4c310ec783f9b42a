"""OpenIPMI's ipmi_sim as the BMC of a machine: its configuration, and its process.

Every chassis command of a client makes ipmi_sim run `chassis_control`, which asks the door; so the power that
it tells is looked up at that moment. ipmi_sim answers nothing else meanwhile: its clients send again, and
what they sent again is done again. It must not write what it is given to a world-readable place: its
directory is 0700.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from uuid import UUID

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc import chassis_control
from mooring.cluster.machines.bmc.inventory import USER, Managed, Paths
from mooring.cluster.processes import Part

PROGRAM = "ipmi_sim"
CIPHER_SUITE = 3
"""RAKP-HMAC-SHA1, AES-CBC-128: the strongest that ipmi_sim has. It does not tell clients which it has: one
that is not told waits for that in vain."""
SLAVE_ADDRESS = "0x20"
SESSIONS = 10


def lan_conf(address: str, port: int, password: str, guid: str) -> str:
    """Its LAN configuration; ipmi_lan(5)."""
    lines = [
        'name "bmc"',
        f"set_working_mc {SLAVE_ADDRESS}",
        "startlan 1",
        f"addr {address} {port}",
        "priv_limit admin",
        *(f"allowed_auths_{level} md5" for level in ("callback", "user", "operator", "admin")),
        f"guid {guid}",
        "endlan",
        'chassis_control "./chassis"',
        f'user 2 true "{USER}" "{password}" admin {SESSIONS} md5',
    ]
    return "\n".join(lines) + "\n"


def emu_cmd(guid: str) -> str:
    """The commands that make its management controller; ipmi_sim_cmd(5). The identity is that of the
    simulator's own examples."""
    a = SLAVE_ADDRESS
    lines = [
        f"mc_setbmc {a}",
        f"mc_add {a} 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02",
        f"mc_set_guid {a} {guid}",
        f"sel_enable {a} 1000 0x0a",
        f"mc_enable {a}",
    ]
    return "\n".join(lines) + "\n"


def guid_of(uuid: UUID) -> str:
    """A UUID as IPMI sends it: least significant byte first (IPMI 2.0, 20.8)."""
    return uuid.bytes[::-1].hex()


def chassis_script(machine: str) -> str:
    """What ipmi_sim runs in its directory: its own lines are too short for our paths."""
    words = [sys.executable, "-I", "-S", str(Path(chassis_control.__file__)), "../bmc.sock", machine]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def prepare(paths: Paths, address: str, machine: Managed) -> None:
    """Writes its configuration. What it kept of other times is removed: it would go before. Blocks."""
    from mooring.apiserver.data_directory import write_private

    directory, guid = paths.machine(machine.name), guid_of(machine.uuid)
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "state").mkdir(parents=True)
    directory.chmod(0o700)
    password = paths.password.read_text().strip()
    write_private(directory / "lan.conf", lan_conf(address, machine.ipmi_port, password, guid))
    write_private(directory / "emu.cmd", emu_cmd(guid))
    write_private(directory / "chassis", chassis_script(machine.name))
    (directory / "chassis").chmod(0o700)


def part(paths: Paths, machine: Managed, run: Path, logs: Path) -> Part:
    """Its process."""
    command = ["env", "-C", str(paths.machine(machine.name)), PROGRAM]
    flags = ["-c", "lan.conf", "-f", "emu.cmd", "-s", "state", "-n"]
    return Part(f"bmc-{machine.name}", [*command, *flags], run=run, logs=logs)


def check() -> None:
    """Raises ClusterError, which names the package, if ipmi_sim is missing."""
    if shutil.which(PROGRAM, path=os.environ.get("PATH")) is None:
        raise ClusterError("BMCs need ipmi_sim: apt-get install openipmi")
