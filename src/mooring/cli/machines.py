"""`mooring machine …`: the machines of a cluster from outside: BMCs, power strip, switch."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.groups import Group
from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import fail, log_lines, print_table
from mooring.kube.printable import printable

if TYPE_CHECKING:
    from mooring.cluster.machines.bmc.inventory import Inventory, Managed, Paths

OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
ANSWER_S = 3.0
"""A device that says nothing for so long is shown as silent, in seconds."""
HEADER = ("NAME", "POWER", "BMC SAYS", "PORT", "IPMI", "REDFISH", "SOCKET", "MISBEHAVES")


@click.group(cls=Group)
def machine() -> None:
    """The machines from outside: how to reach their BMCs, what is true of their power."""


@machine.command("list")
@DATA_DIR
@OUTPUT
def list_machines(data_dir: str | None, output: str) -> None:
    """Shows each machine: its power as it is, and as its BMC says."""
    paths, inventory = _found(data_dir)
    shown = asyncio.run(_all_states(paths, inventory))
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
        return
    print_table([HEADER, *(_row(each) for each in shown)])


@machine.command()
@click.argument("name")
@click.option(
    "--misbehave",
    metavar="HOW",
    help="From now on, until `none` or the end of `mooring up`: late=5s, silent, refuse, lie, wrong=OTHER.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=click.Choice(["bmc", "strip", "switch"]),
    help="Which of the machine's devices misbehaves; several. Default: all.",
)
@click.option("--show-password", is_flag=True, help="Print the secrets themselves, not only their files.")
@DATA_DIR
@OUTPUT
def bmc(
    name: str,
    misbehave: str | None,
    devices: tuple[str, ...],
    show_password: bool,
    data_dir: str | None,
    output: str,
) -> None:
    """How to reach a machine's BMC, its socket on the power strip, its port on the switch; and whether they
    misbehave."""
    paths, inventory = _found(data_dir)
    managed = _machine(inventory, name)
    if misbehave is not None:
        if not misbehave.split():
            raise click.UsageError("--misbehave: late=5s, silent, refuse, lie, wrong=OTHER, none")
        set_to = asyncio.run(_ask(paths, " ".join(["set", name, "".join(misbehave.split()), *devices])))
        click.echo(f"{name}: {', '.join(devices) or 'all devices'}: {set_to}")
        return
    if devices:
        raise click.UsageError("--device is about --misbehave")
    from mooring.cluster.machines.bmc.reach import reach

    found = reach(paths, inventory, managed)
    if show_password:
        found["password"] = paths.password.read_text().strip()
        found["community"] = paths.community.read_text().strip()
    click.echo(json.dumps(found, indent=2) if output == "json" else _in_words(found))


@machine.command("serve-devices", hidden=True)
@click.argument("root", type=click.Path(path_type=Path))
def serve_devices(root: Path) -> None:
    """Serves Redfish and SNMP: a part of `mooring up`."""
    from mooring.cli.parts import run_until_signalled
    from mooring.cluster.machines.bmc.devices import serve

    log_lines("info")
    run_until_signalled(serve(root))


def _found(data_dir: str | None) -> tuple[Paths, Inventory]:
    from mooring.cluster.layout import open_layout
    from mooring.cluster.machines.bmc.bmcs import directory
    from mooring.cluster.machines.bmc.inventory import Paths, load

    layout = open_layout(data_dir)
    paths = Paths(directory(layout))
    inventory = load(paths)
    if inventory is None or not asyncio.run(_served(paths)):
        fail(f"no BMCs run for the machines in {layout.root}: start the cluster with `mooring up --bmc`")
    return paths, inventory


async def _served(paths: Paths) -> bool:
    from mooring.cluster.machines.bmc.door import NotServed, ask
    from mooring.cluster.machines.bmc.power_switch import DeviceError, Silence

    try:
        await ask(paths.door, "hello", ANSWER_S)
    except NotServed:
        return False
    except (DeviceError, Silence):
        pass  # it knows no such word
    return True


def _machine(inventory: Inventory, name: str) -> Managed:
    by_name = {each.name: each for each in inventory.machines}
    if name not in by_name:
        fail(f"no machine {printable(name)!r}: there are {', '.join(by_name)}")
    return by_name[name]


async def _ask(paths: Paths, line: str) -> str:
    from mooring.cluster.machines.bmc.door import ask
    from mooring.cluster.machines.bmc.power_switch import DeviceError, Silence

    try:
        return await ask(paths.door, line, 30)
    except DeviceError as error:
        fail(str(error))
    except Silence:
        fail("the `mooring up` that runs does not answer")


async def _all_states(paths: Paths, inventory: Inventory) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_state(paths, each) for each in inventory.machines)))


async def _state(paths: Paths, managed: Managed) -> dict[str, Any]:
    name = managed.name
    truth, says, port, rules = await asyncio.gather(
        _word(paths, f"truth {name} power"),
        _word(paths, f"bmc {name} power"),
        _word(paths, f"truth {name} port"),
        _word(paths, f"rules {name}"),
    )
    return {
        "machine": name,
        "power": truth,
        "bmcSays": says,
        "port": port,
        "ipmiPort": managed.ipmi_port,
        "redfishPort": managed.redfish_port,
        "socket": managed.socket,
        "misbehaves": rules.split(),
    }


async def _word(paths: Paths, line: str) -> str:
    from mooring.cluster.machines.bmc.door import ask
    from mooring.cluster.machines.bmc.power_switch import DeviceError, Silence

    try:
        return await ask(paths.door, line, ANSWER_S)
    except DeviceError as error:
        return f"error: {error}"
    except Silence:
        return "no answer"


def _row(shown: dict[str, Any]) -> list[str]:
    columns = ("machine", "power", "bmcSays", "port", "ipmiPort", "redfishPort", "socket")
    return [*(str(shown[column]) for column in columns), " ".join(shown["misbehaves"]) or "-"]


def _in_words(found: dict[str, Any]) -> str:
    ipmi, redfish, address = found["ipmi"], found["redfish"], found["address"]
    lines = [
        f"{found['machine']}, {found['systemUUID']}",
        f"IPMI:        {address} port {ipmi['port']}/udp, lanplus, cipher suite {ipmi['cipherSuite']}",
        f"Redfish:     {redfish['url']}{redfish['system']}, certificate {redfish['certificateFile']}",
        f"Power strip: {address} port {found['powerStrip']['port']}/udp, socket {found['powerStrip']['socket']}",
        f"Switch:      {address} port {found['switch']['port']}/udp, interface {found['switch']['interface']}",
        f"User:        {found['user']}, password in {found['passwordFile']}",
        f"SNMP v1, v2c: community in {found['communityFile']}",
    ]
    if "password" in found:
        lines += [f"Password:    {found['password']}", f"Community:   {found['community']}"]
    return "\n".join([*lines, "", *found["commands"].values()])


COMMANDS = (machine,)
