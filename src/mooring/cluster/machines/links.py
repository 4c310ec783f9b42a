"""A machine's links: which traffic is dropped on them, and how they are made bad.

What is wrong with a link is in the kernel alone: nftables' tables, one set for each machine, named after
cluster and machine.
"""

from __future__ import annotations

from mooring.cluster.machines.interface import Cut, NotPossible, Quality


class NoLinks:
    """The links of a machine where none can be cut; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def cut(self, cut: Cut) -> None:
        raise NotPossible(self._reason)

    async def heal(self) -> None:
        """Nothing was cut."""

    async def worsen(self, quality: Quality) -> None:
        raise NotPossible(self._reason)

    async def state(self) -> list[str]:
        return []
