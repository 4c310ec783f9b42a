"""What the attacher counts, under the names that upstream's attach/detach controller and
kubelet have for it."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import Histogram

from mooring.kube.metrics import REGISTRY
from mooring.kube.storage_metrics import BUCKETS
from mooring.kube.times import parse_time

_TOTAL = Histogram(
    "volume_operation_total_seconds",
    "From when an attach or detach was wanted until it was done.",
    ["plugin_name", "operation_name"],
    buckets=BUCKETS,
    registry=REGISTRY,
)


def done(plugin: str, name: str, since: str | None, now: datetime) -> None:
    """Counts an attach or detach that has succeeded, with all its tries, from when it was wanted."""
    seconds = (now - parse_time(since)).total_seconds() if since else 0.0
    _TOTAL.labels(plugin, name).observe(max(seconds, 0.0))
