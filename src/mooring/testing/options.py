"""What a cluster for tests is asked for. Knows nothing of how it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """What a cluster is made of.

    `csi`: a CSI driver's name → where it listens, `unix:///tmp/mine-{node}.sock` with the node's name in the
    place of `{node}`; a driver may be started later, and come and go. `controllers`: the names that `mooring
    controller` takes; None: all. `flags`: more of `mooring up`, for a cluster of real nodes.
    """

    nodes: int = 2
    csi: Mapping[str, str] = field(default_factory=dict[str, str])
    node_monitor_grace_period: float = 8.0
    """Seconds until a node that is not heard is Unknown. Upstream's 40 are long for a test."""
    controllers: Sequence[str] | None = None
    flags: Sequence[str] = ()

    def address(self, driver: str, node: str) -> str:
        """Where the driver listens for that node. Raises KeyError."""
        return self.csi[driver].replace("{node}", node)
