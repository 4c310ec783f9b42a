"""The devices of a cluster in one process of their own: the machines' Redfish services, the power strip, the
switch.

What comes from outside is parsed here and not in `mooring up`, which they ask at the door. A process of
`mooring up`: `mooring machine serve-devices`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import structlog
from aiohttp import web

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc import door, mib
from mooring.cluster.machines.bmc.inventory import USER, Inventory, Managed, Paths, load
from mooring.cluster.machines.bmc.power_switch import Device, Verb
from mooring.cluster.machines.bmc.redfish import Service
from mooring.cluster.machines.bmc.snmp import Agent

log = structlog.get_logger(component="bmc")


async def serve(root: Path) -> None:
    """Serves what the inventory in `root` says, until it is cancelled. Raises ClusterError, OSError."""
    paths = Paths(root)
    inventory = load(paths)
    if inventory is None:
        raise ClusterError(f"there is no {paths.inventory}")
    async with contextlib.AsyncExitStack() as stack:
        for machine in inventory.machines:
            await stack.enter_async_context(_redfish(paths, inventory, machine))
        names = [machine.name for machine in inventory.machines]
        for tree, port in (
            (mib.strip(names), inventory.strip_port),
            (mib.switch(names), inventory.switch_port),
        ):
            stack.enter_context(_agent(paths, tree, inventory.address, port))
        log.info("devices are served", machines=len(names), address=inventory.address)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _redfish(paths: Paths, inventory: Inventory, machine: Managed) -> AsyncGenerator[None]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(paths.certificate, paths.key)
    service = Service(machine.name, machine.uuid, paths.password.read_text().strip(), _asker(paths))
    runner = web.AppRunner(service.application(), access_log=None)
    await runner.setup()
    await web.TCPSite(
        runner, inventory.address, machine.redfish_port, ssl_context=context, shutdown_timeout=1
    ).start()
    try:
        yield
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def _agent(paths: Paths, tree: mib.Tree, address: str, port: int):
    community, password = paths.community.read_text().strip(), paths.password.read_text().strip()
    agent = Agent(tree, _asker(paths), community, USER, password)
    agent.open(address, port)
    try:
        yield
    finally:
        agent.close()


def _asker(paths: Paths):
    async def ask(device: Device, machine: str, verb: Verb) -> str:
        return await door.ask(paths.door, f"{device} {machine} {verb}")

    return ask
