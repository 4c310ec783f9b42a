"""The controller's metrics for Prometheus: its requests to EC2, and detaches that take long. Upstream's names
and labels (its metrics documentation, v1.64).

Guarantees: a metric never fails and never waits. Labels are bounded: EC2's actions and error codes; volumes
and nodes only while a detach of theirs takes long. Times are the event loop's, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from mooring.ebs.controller_service.detaches import PendingDetaches
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.paced import THROTTLED
from mooring.ebs.errors import EbsError, Ec2Error

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Seconds."""
EXPECTED = frozenset({"DryRunOperation"})
"""Error codes that are the expected answer."""


class RequestMetrics:
    """Durations of all requests to EC2, and counts of those that EC2 throttled and of those that failed
    otherwise. A throttled request does not count as an error."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "aws_ebs_csi_api_request"
        self._seconds = Histogram(
            f"{name}_duration_seconds",
            "Seconds that requests to EC2 took.",
            ["request"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._errors = Counter(
            f"{name}_errors_total",
            "Requests that EC2 refused, or did not answer.",
            ["request", "error"],
            registry=registry,
        )
        self._throttles = Counter(
            f"{name}_throttles_total", "Requests that EC2 throttled.", ["request"], registry=registry
        )

    def ended(self, action: str, seconds: float) -> None:
        """Counts the end of a request, successful or not."""
        self._seconds.labels(action).observe(seconds)

    def failed(self, action: str, error: EbsError) -> None:
        """Counts a failure by EC2's code, or by the error's class if it has none ("Ec2Unreachable")."""
        code = error.code if isinstance(error, Ec2Error) else type(error).__name__
        if code in THROTTLED:
            self._throttles.labels(action).inc()
        elif code not in EXPECTED:
            self._errors.labels(action, code).inc()


@cache
def request_metrics(registry: CollectorRegistry) -> RequestMetrics:
    """The metrics of this registry; one per registry."""
    return RequestMetrics(registry)


class MeteredApi(Ec2Api):
    """Counts each request to `api`. It belongs below the layers that repeat or delay requests."""

    def __init__(self, api: Ec2Api, metrics: RequestMetrics) -> None:
        self._api = api
        self._metrics = metrics

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        time = asyncio.get_running_loop().time
        began = time()
        try:
            return await self._api.call(action, request)
        except EbsError as error:
            self._metrics.failed(action, error)
            raise
        finally:
            self._metrics.ended(action, time() - began)


class SlowDetaches(Collector):
    """`aws_ebs_csi_ec2_detach_pending_seconds_total`, computed when it is read: the age of each detach that
    takes longer than `detaches.SLOW_S`. There are no series for others. To be read in the event loop."""

    def __init__(self, detaches: PendingDetaches) -> None:
        self._detaches = detaches

    def describe(self) -> Iterator[CounterMetricFamily]:
        """The metric's name, by which the registry refuses a second one."""
        yield CounterMetricFamily(
            "aws_ebs_csi_ec2_detach_pending_seconds",
            "Seconds for which a detach that takes long has been under way.",
            labels=["volume_id", "instance_id", "attachment_state"],
        )

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The detaches that take long now."""
        [family] = self.describe()
        for (volume, node), (state, seconds) in self._detaches.slow().items():
            family.add_metric([volume, node, state], seconds)
        yield family
