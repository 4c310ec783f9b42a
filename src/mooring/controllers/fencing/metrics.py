"""What the fencing controller counts: orders and how they ended, how long a node was lost until it was shown
to be cut off, and how many fences there are in each phase. No names of nodes: those are in `mooring fence
list`."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import Counter, Gauge, Histogram

from mooring.kube.metrics import REGISTRY
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.times import parse_time

_BUCKETS = (0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800, 3600)
_ORDERS = Counter(
    "mooring_fencing_orders",
    "Orders to mechanisms, by how they ended.",
    ["mechanism", "outcome"],
    registry=REGISTRY,
)
_ORDER = Histogram(
    "mooring_fencing_order_seconds",
    "From an order to what its answer was worth.",
    ["mechanism"],
    buckets=_BUCKETS,
    registry=REGISTRY,
)
_SINCE_LOST = Histogram(
    "mooring_fencing_since_lost_seconds",
    "From when a node was found to be lost until it was fenced, and until what it had was released.",
    ["until"],
    buckets=_BUCKETS,
    registry=REGISTRY,
)
_FENCES = Gauge(
    "mooring_fencing_fences", "NodeFences that are not over, by phase.", ["phase"], registry=REGISTRY
)
_UNVERIFIED = Counter(
    "mooring_fencing_not_verified",
    "Looks at a fence in force that did not find it in force.",
    registry=REGISTRY,
)


def ordered(mechanism: str, outcome: str, seconds: float) -> None:
    """Counts one order by what it was worth."""
    _ORDERS.labels(mechanism, outcome).inc()
    _ORDER.labels(mechanism).observe(seconds)


def reached(fence: NodeFence, what: str, now: datetime) -> None:
    """Counts that a fence was shown (`fenced`), or its node's things released (`released`)."""
    since = fence.metadata.creation_timestamp
    if since:
        _SINCE_LOST.labels(what).observe(max((now - parse_time(since)).total_seconds(), 0.0))


def not_verified() -> None:
    _UNVERIFIED.inc()


def counted(fences: Iterable[NodeFence], phases: Iterable[str]) -> None:
    """Brings the number of fences in each of the phases up to date."""
    tally = Tally(each.status.phase for each in fences)
    for phase in phases:
        _FENCES.labels(phase).set(tally[phase])
