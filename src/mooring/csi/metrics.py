"""Metrics of calls for Prometheus, with upstream's names and labels. The number of label values is
bounded."""

from __future__ import annotations

from functools import cache

from prometheus_client import CollectorRegistry, Histogram

from mooring.csi.client import Exchange, Observer

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
"""Seconds."""

_LABELS = ("driver_name", "method_name", "grpc_status_code")


class CallMetrics:
    """The durations of drivers' calls by method and status code: one histogram for a registry, one observer
    for each driver."""

    def __init__(self, registry: CollectorRegistry, name: str, **constant: str) -> None:
        """`constant`: labels that have the same value in every sample."""
        labels = [*_LABELS, *constant]
        self._constant = tuple(constant.values())
        self._seconds = Histogram(
            name, "Seconds that calls of CSI drivers took.", labels, buckets=BUCKETS, registry=registry
        )

    def observer(self, driver_name: str) -> Observer:
        """The observer for clients of this driver."""

        def observe(exchange: Exchange) -> None:
            values = (driver_name, exchange.path, str(exchange.code), *self._constant)
            self._seconds.labels(*values).observe(exchange.duration_s)

        return observe


@cache
def sidecar_metrics(registry: CollectorRegistry) -> CallMetrics:
    """`csi_sidecar_operations_seconds`, as upstream's sidecars have it (csi-lib-utils); one per registry."""
    return CallMetrics(registry, "csi_sidecar_operations_seconds")


@cache
def plugin_metrics(registry: CollectorRegistry) -> CallMetrics:
    """`csi_plugin_operations_seconds`: upstream's name for a driver's own metric; one per registry."""
    return CallMetrics(registry, "csi_plugin_operations_seconds")


@cache
def node_metrics(registry: CollectorRegistry) -> CallMetrics:
    """`csi_operations_seconds`, as the kubelet has it; one per registry."""
    return CallMetrics(registry, "csi_operations_seconds", migrated="false")
