"""One process that is a cloud: its data directory, its records, its devices and its endpoint.

Before it answers the first request, it attaches again what was attached when its predecessor ended. At its
end it removes devices that are not in use and leaves the others, as an instance keeps its volumes during an
outage of EC2's API.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from mooring.cloud.cloud import Cloud
from mooring.cloud.data_directory import DataDirectory, Endpoint
from mooring.cloud.devices import LoopDevices
from mooring.cloud.endpoint.server import Server, serving
from mooring.cloud.errors import DataDirectoryError
from mooring.cloud.power import SocketPower
from mooring.cloud.records.journal import SqliteJournal
from mooring.cloud.settings import from_json
from mooring.mounts.blocking import blocking


@asynccontextmanager
async def running(
    directory: DataDirectory,
    port: int | None,
    default_port: int,
    real_devices: bool,
    rng: Random,
    settings: Mapping[str, Any],
    power: str | None = None,
) -> AsyncGenerator[Server]:
    """Runs the cloud while entered. Without `port` it listens where it did before, at first on
    `default_port`. `power` is the socket at which instances' machines are switched (`cloud.power`). Raises
    DataDirectoryError."""
    with directory.held():
        credentials = directory.credentials(rng)
        last = directory.endpoint()
        devices = LoopDevices(directory.root) if real_devices else None
        journal = SqliteJournal(directory.database)
        try:
            cloud = Cloud(
                settings=from_json(settings),
                clock=time.time,
                rng=rng,
                devices=devices,
                journal=journal,
                power=SocketPower(power) if power else None,
            )
            await cloud.restore()
            wanted = port if port is not None else last.port if last else default_port
            # A generator of its own, so that request ids and metadata tokens do not change the cloud's random
            # numbers.
            entered = serving(cloud, credentials, wanted, Random(rng.getrandbits(64)))
            async with _listening(entered, wanted) as server, _working(cloud):
                directory.write_endpoint(Endpoint(server.port, cloud.settings.region))
                yield server
        finally:
            journal.close()
            if devices is not None:
                await blocking(devices.release)


@asynccontextmanager
async def _listening(
    entered: contextlib.AbstractAsyncContextManager[Server], port: int
) -> AsyncGenerator[Server]:
    try:
        server = await entered.__aenter__()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise DataDirectoryError(
            f"port {port} is in use by another program: choose one with --port"
        ) from error
    try:
        yield server
    finally:
        await entered.__aexit__(None, None, None)


@asynccontextmanager
async def _working(cloud: Cloud) -> AsyncGenerator[None]:
    task = asyncio.create_task(cloud.run(), name="transitions")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
