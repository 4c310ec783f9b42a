"""Where the disk array plugs disks into a machine with a kernel of its own (the other end is
`mooring.mounts.machine_ports`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import structlog

from mooring.cluster.machines.interface import DiskInUse, Machine
from mooring.mounts.machine_ports import LONGEST, SOCKET, short_path

log = structlog.get_logger(component="cluster")


@contextlib.asynccontextmanager
async def serving(directory: Path, machine: Machine) -> AsyncGenerator[None]:
    """Plugs in and out for the storage that keeps this directory for the machine, while the context is
    open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await _obey(machine, await reader.readline())
        except DiskInUse as error:
            reply = {"busy": str(error)}
        except Exception as error:
            log.exception("a disk was not plugged", node=machine.name)
            reply = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        writer.close()

    directory.mkdir(parents=True, exist_ok=True)
    (directory / SOCKET).unlink(missing_ok=True)
    with short_path(directory / SOCKET) as address:
        server = await asyncio.start_unix_server(answer, address, limit=LONGEST)
    (directory / SOCKET).chmod(0o600)
    try:
        yield
    finally:
        server.close()
        (directory / SOCKET).unlink(missing_ok=True)


async def _obey(machine: Machine, line: bytes) -> dict[str, str]:
    request: Any = json.loads(line)
    words = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
    if "plug" in words:
        await machine.add_disk(str(words["plug"]), str(words["device"]), str(words["link"]))
    elif "unplug" in words:
        await machine.remove_disk(str(words["unplug"]))
    else:
        raise ValueError("a request is {'plug': DISK, 'device': PATH, 'link': PATH} or {'unplug': DISK}")
    return {}
