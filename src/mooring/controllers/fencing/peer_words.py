"""What peers state about lost nodes, read live from their Leases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mooring.controllers.fencing.polls import Polls
from mooring.controllers.fencing.silence import LEASES
from mooring.kube.client import Client
from mooring.kube.objects import Lease
from mooring.volumes.peers import STATEMENTS, statements_of


async def read_words(client: Client, polls: Polls, peers: Iterable[str]) -> None:
    """Takes in what stands on the Lease of each. What fails is raised: then it is not known what they say."""
    for peer in peers:
        lease = await client.find(Lease, peer, LEASES)
        text = lease.metadata.annotations.get(STATEMENTS, "") if lease is not None else ""
        polls.stated(peer, statements_of(text), asyncio.get_running_loop().time())
