"""The machines behind the cloud's instances: what `mooring cloud --power` orders, done by the power switch.

One line is an order, `on i-...` or `off i-...`; one line is the answer, `done`, or what went wrong. `off` is
answered `done` when nothing of the machine runs any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import structlog

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc.power_switch import DeviceError, PowerSwitch
from mooring.mounts.machine_ports import short_path

LONGEST = 200
"""Bytes of an order."""
log = structlog.get_logger(component="cluster")


async def obey(line: bytes, nodes: Mapping[str, str], switch: PowerSwitch) -> str:
    """The answer to an order. `nodes`: by instance."""
    words = line.decode(errors="replace").split()
    if len(words) != 2 or words[0] not in ("on", "off"):
        return "an order is `on` or `off`, and an instance"
    node = nodes.get(words[1])
    if node is None:
        return f"there is no instance {words[1][:LONGEST]} here"
    try:
        await (switch.turn_on(node) if words[0] == "on" else switch.turn_off(node))
    except (ClusterError, DeviceError, TimeoutError) as error:
        return f"{node}: {error}".replace("\n", " ")
    return "done"


@contextlib.asynccontextmanager
async def serving(path: Path, nodes: Mapping[str, str], switch: PowerSwitch) -> AsyncGenerator[None]:
    """Obeys while the context is open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            said = await obey(await reader.readline(), nodes, switch)
        except ValueError:
            said = f"an order has at most {LONGEST} bytes"
        except Exception as error:
            log.exception("an order of the cloud failed")
            said = f"{type(error).__name__}: {error}".replace("\n", " ")
        writer.write(f"{said}\n".encode())
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    path.unlink(missing_ok=True)
    with short_path(path) as address:
        server = await asyncio.start_unix_server(answer, address, limit=LONGEST)
    path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)
