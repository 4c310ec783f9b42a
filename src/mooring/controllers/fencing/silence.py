"""For how long each node has been silent: by its Lease, timed by this process's own clock.

A node whose Ready is Unknown has missed its whole grace period. Nodes that were lost with it miss it a little
later; that they are silent, too, shows at once here, so that a storm is known before the first of them is
fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mooring.kube.informer import Informer
from mooring.kube.objects import Lease, Node

LEASES = "kube-node-lease"
DEFAULT_DURATION_S = 40.0
LATE_S = 1.0
"""So late may a renewal be known: 400 nodes make 40 a second, and waking for each costs most. A node counts
as silent for so much less than it is."""
SUSPECT = 0.5
"""Of a Lease's duration: a node that renews four times in it has missed one by then."""


class Observed(NamedTuple):
    """The last renewal of a node's Lease that this process has seen: its time as the node wrote it, which
    names it, and for how many seconds of this process's clock none was seen since."""

    renewed: str
    seconds: float


class Silence:
    """`returned` is called when a node is no suspect by its Lease any more. Its Node may have said so before,
    and then only this shows that a storm is over."""

    def __init__(self, leases: Informer[Lease], *, returned: Callable[[], None]) -> None:
        self._leases = leases
        self._returned = returned
        self._seen: dict[str, float] = {}
        leases.add_handler(self._renewed)

    def _renewed(self, old: Lease | None, new: Lease | None) -> None:
        lease = new or old
        if lease is None or lease.namespace != LEASES:
            return
        missed = self._missed(lease.name)
        if new is None:
            self._seen.pop(lease.name, None)
        elif old is None or old.spec.renew_time != new.spec.renew_time:
            self._seen[lease.name] = asyncio.get_running_loop().time()
        if missed and not self._missed(lease.name):
            self._returned()

    def of(self, node: str) -> float:
        """Seconds since its last renewal, or since this process began to look."""
        now = asyncio.get_running_loop().time()
        return now - self._seen.get(node, now)

    def observed(self, node: str) -> Observed:
        """`renewed` is "" if none was seen yet."""
        lease = self._leases.get(f"{LEASES}/{node}")
        renewed = lease.spec.renew_time if lease is not None else None
        return Observed(renewed or "", self.of(node))

    def suspects(self, nodes: Iterable[Node]) -> list[Node]:
        """Those that do not answer, or have missed a renewal."""
        return [each for each in nodes if each.ready == "Unknown" or self._missed(each.name)]

    def _missed(self, node: str) -> bool:
        lease = self._leases.get(f"{LEASES}/{node}")
        duration = (lease.spec.lease_duration_seconds if lease is not None else None) or DEFAULT_DURATION_S
        return self.of(node) > duration * SUSPECT
