"""Records the real server's outcomes: `python -m tests.differential.mutations.record`.

Recorded are the hostile mutations and some hundred drawn ones, without messages: `real-1.36.json`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from tests.differential.mutations.draw import Mutation, draw
from tests.differential.mutations.hostile import hostile
from tests.differential.mutations.play import Outcome, play
from tests.differential.servers import to_real
from tests.real.server import RealServer, assets, real_server

RECORDED = Path(__file__).parent / "real-1.36.json"
_SEED, _DRAWN, _AT_ONCE = 20_261_123, 600, 16


def chosen() -> list[Mutation]:
    """The mutations that are recorded."""
    return [*hostile(), *draw(_SEED, _DRAWN)]


def recorded() -> list[tuple[str, Outcome]]:
    """What each mutation is and its outcome, in the order of `chosen`."""
    return [
        (mutation, Outcome(status, field)) for mutation, status, field in json.loads(RECORDED.read_text())
    ]


async def play_to_real(mutations: Sequence[Mutation], server: RealServer) -> list[Outcome]:
    """The real server's outcomes."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
        return await play(mutations, to_real(server, session), at_once=_AT_ONCE)


def main() -> None:
    programs = assets()
    if programs is None:
        sys.exit("record: needs etcd and kube-apiserver: run `make assets`, or set KUBEBUILDER_ASSETS")
    mutations = chosen()
    with tempfile.TemporaryDirectory() as folder, real_server(programs, Path(folder)) as server:
        outcomes = asyncio.run(play_to_real(mutations, server))
    lines = [
        json.dumps([str(mutation), each.status, each.field])
        for mutation, each in zip(mutations, outcomes, strict=True)
    ]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"record: {len(lines)} outcomes in {RECORDED.name}")


if __name__ == "__main__":
    main()
