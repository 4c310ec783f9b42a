"""What the attacher counts, under the names that upstream's attach/detach controller and
kubelet have for it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import Histogram

from mooring.kube.metrics import REGISTRY
from mooring.kube.times import parse_time

_OPERATION = Histogram(
    "storage_operation_duration_seconds",
    "How long an operation of the storage took.",
    ["volume_plugin", "operation_name", "status", "migrated"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    registry=REGISTRY,
)
_TOTAL = Histogram(
    "volume_operation_total_seconds",
    "From when an attach or detach was wanted until it was done.",
    ["plugin_name", "operation_name"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    registry=REGISTRY,
)


@contextmanager
def operation(plugin: str, name: str) -> Generator[None]:
    """Counts one operation of the storage, `volume_attach` or `volume_detach`, by how it ends."""
    loop = asyncio.get_running_loop()
    began, status = loop.time(), "fail-unknown"
    try:
        yield
        status = "success"
    finally:
        _OPERATION.labels(plugin, name, status, "false").observe(loop.time() - began)


def done(plugin: str, name: str, since: str | None, now: datetime) -> None:
    """Counts an attach or detach that has succeeded, with all its tries, from when it was wanted."""
    seconds = (now - parse_time(since)).total_seconds() if since else 0.0
    _TOTAL.labels(plugin, name).observe(max(seconds, 0.0))
