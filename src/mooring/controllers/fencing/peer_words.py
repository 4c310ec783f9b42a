"""What peers state about lost nodes, by their Leases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mooring.controllers.fencing.polls import Polls
from mooring.controllers.fencing.silence import LEASES
from mooring.kube.client import Client
from mooring.kube.objects import Lease
from mooring.volumes.peers import STATEMENTS, Statement, statements_of


def words_on(lease: Lease | None) -> tuple[Statement, ...]:
    """What stands on it; nothing where there is none."""
    text = lease.metadata.annotations.get(STATEMENTS, "") if lease is not None else ""
    return statements_of(text) if text else ()


async def read_words(client: Client, polls: Polls, peers: Iterable[str]) -> None:
    """Takes in what stands on the Lease of each now. What fails is raised: then it is not known what they
    say."""
    for peer in peers:
        lease = await client.find(Lease, peer, LEASES)
        polls.stated(peer, words_on(lease), asyncio.get_running_loop().time())
