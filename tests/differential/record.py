"""Records the real server's answers to the script: `python -m tests.differential.record`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import aiohttp
from tests.differential import answers
from tests.differential.player import Obj, play
from tests.differential.script import SCRIPT
from tests.differential.servers import to_real
from tests.real.server import RealServer, assets, real_server


async def play_to_real(server: RealServer) -> dict[str, Obj]:
    """The script's answers from a real server that has seen nothing of it."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session:
        return await play(SCRIPT, to_real(server, session))


def main() -> None:
    programs = assets()
    if programs is None:
        sys.exit("record: needs etcd and kube-apiserver: run `make assets`, or set KUBEBUILDER_ASSETS")
    with tempfile.TemporaryDirectory() as folder, real_server(programs, Path(folder)) as server:
        found = asyncio.run(play_to_real(server))
    answers.write(found)
    print(f"record: {len(found)} answers in {answers.RECORDED.name}")


if __name__ == "__main__":
    main()
