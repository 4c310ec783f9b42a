"""How long operations of a storage take, under the name that upstream's controllers and kubelet share."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from prometheus_client import Histogram

from mooring.kube.metrics import REGISTRY

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)

_OPERATION = Histogram(
    "storage_operation_duration_seconds",
    "How long an operation of the storage took.",
    ["volume_plugin", "operation_name", "status", "migrated"],
    buckets=BUCKETS,
    registry=REGISTRY,
)


@contextmanager
def operation(plugin: str, name: str) -> Generator[None]:
    """Counts one operation of the storage (`volume_attach`, `volume_mount`) by how it ends."""
    loop = asyncio.get_running_loop()
    began, status = loop.time(), "fail-unknown"
    try:
        yield
        status = "success"
    finally:
        _OPERATION.labels(plugin, name, status, "false").observe(loop.time() - began)
