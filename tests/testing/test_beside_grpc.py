"""An API server in the process of a CSI driver's tests, where gRPC is, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STORY = """
import asyncio, os, sys
import mooring.testing
import grpc.aio
from mooring.apiserver.transport.forked_requests import in_copy

async def story():
    server = grpc.aio.server()
    server.add_insecure_port("unix:" + sys.argv[1])
    await server.start()
    async with grpc.aio.insecure_channel("unix:" + sys.argv[1]) as channel:
        await channel.channel_ready()
        assert await in_copy(os.getpid) != os.getpid()
    await server.stop(0)

asyncio.run(story())
"""


def test_grpc_does_not_meddle_with_copies_of_the_process(tmp_path: Path) -> None:
    """It says so where it wants to start its threads again in a copy, and cannot just then."""
    done = subprocess.run(
        [sys.executable, "-c", STORY, str(tmp_path / "socket")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "fork" in done.stderr) == (0, False), done.stderr
