"""A cloud with its HTTP endpoint, in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import boto3

from mooring.cloud.cloud import Cloud
from mooring.cloud.data_directory import Credentials
from mooring.cloud.endpoint.server import Server, serving
from mooring.cloud.interface import Power
from mooring.cloud.settings import from_json

SESSION = boto3.Session()  # it reads the description of EC2 once for all clients
CREDENTIALS = Credentials("AKIATEST", "secret")
_TIMES = ("creating", "deleting", "attaching", "detaching", "snapshot", "modifying", "optimizing", "starting")
AT_ONCE = {f"{name}_s": [0.0, 0.0] for name in _TIMES}
"""Nothing takes any time."""


@dataclass
class ServedCloud:
    """What a test needs of it."""

    server: Server
    loop: asyncio.AbstractEventLoop

    def client(self, **changes: Any) -> Any:
        """boto3's client of EC2."""
        given = {
            "endpoint_url": self.server.endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": CREDENTIALS.access_key,
            "aws_secret_access_key": CREDENTIALS.secret_key,
        }
        return SESSION.client("ec2", **{**given, **changes})

    def metadata(self, number: int = 0) -> str:
        """Where an instance's metadata service is."""
        return self.server.shown()["instances"][number]["metadata_endpoint"]


@contextmanager
def served(instances: int = 2, power: Power | None = None, **settings: Any) -> Generator[ServedCloud]:
    """A cloud without devices and without a journal, while entered."""
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    made: list[Server] = []

    async def story() -> None:
        cloud = Cloud(
            settings=from_json({**AT_ONCE, **settings}), clock=time.time, rng=Random(1), power=power
        )
        cloud.launch(instances)
        working = asyncio.create_task(cloud.run())
        async with serving(cloud, CREDENTIALS, 0, Random(2)) as server:
            made.append(server)
            ready.set()
            await ended.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(story(),), daemon=True)
    thread.start()
    assert ready.wait(20), "the cloud does not come up"
    try:
        yield ServedCloud(made[0], loop)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        loop.close()
