"""What this process counts, for Prometheus: one registry, with upstream's names wherever upstream has one.

Guarantees: counting never fails and never waits; labels are few and bounded (no object names; but
see `serving`). Times are the
event loop's, in seconds. Several queues or informers of one name in a process add up.

Sources of the names: client-go (workqueue_*, rest_client_*, reflector_*, leader_election_*). Other packages
add their own metrics to `REGISTRY`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from ssl import SSLContext

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from mooring.kube.errors import ConfigError

prometheus_client.disable_created_metrics()  # upstream has no `_created` series

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)

_DEPTH = Gauge("workqueue_depth", "Keys that want work and are not worked on.", ["name"], registry=REGISTRY)
_ADDS = Counter("workqueue_adds_total", "Keys added.", ["name"], registry=REGISTRY)
_RETRIES = Counter(
    "workqueue_retries_total", "Keys added again after a failure.", ["name"], registry=REGISTRY
)
_WAITED = Histogram(
    "workqueue_queue_duration_seconds",
    "How long a key waited until it was taken.",
    ["name"],
    buckets=QUEUE_BUCKETS,
    registry=REGISTRY,
)
_WORKED = Histogram(
    "workqueue_work_duration_seconds",
    "How long a key was worked on.",
    ["name"],
    buckets=QUEUE_BUCKETS,
    registry=REGISTRY,
)
_REQUESTS = Counter(
    "rest_client_requests_total",
    "HTTP requests to API servers; code is <error> if there was no answer.",
    ["code", "method", "host"],
    registry=REGISTRY,
)
_REQUEST_DURATION = Histogram(
    "rest_client_request_duration_seconds",
    "Time until the answer to a request (of a watch: until it began).",
    ["verb", "host"],
    buckets=REQUEST_BUCKETS,
    registry=REGISTRY,
)
_LISTS = Counter("reflector_lists_total", "Lists that informers made.", ["name"], registry=REGISTRY)
_WATCHES = Counter("reflector_watches_total", "Watches that informers began.", ["name"], registry=REGISTRY)
_SHORT = Counter(
    "reflector_short_watches_total", "Watches that brought nothing.", ["name"], registry=REGISTRY
)
_VERSION = Gauge(
    "reflector_last_resource_version", "The last version that was seen.", ["name"], registry=REGISTRY
)
_LEADING = Gauge(
    "leader_election_master_status",
    "Whether this process holds the lease: 1 or 0.",
    ["name"],
    registry=REGISTRY,
)


class QueueMetrics:
    """The metrics of the work queue `name`."""

    def __init__(self, name: str) -> None:
        self.depth = _DEPTH.labels(name)
        self.adds = _ADDS.labels(name)
        self.retries = _RETRIES.labels(name)
        self.waited = _WAITED.labels(name)
        self.worked = _WORKED.labels(name)


class ReflectorMetrics:
    """The metrics of the informer of the kind whose plural is `name`."""

    def __init__(self, name: str) -> None:
        self.lists = _LISTS.labels(name)
        self.watches = _WATCHES.labels(name)
        self.short_watches = _SHORT.labels(name)
        self.version = _VERSION.labels(name)


@cache
def _requests(code: int | None, method: str, host: str) -> Counter:
    return _REQUESTS.labels("<error>" if code is None else str(code), method, host)


@cache
def _request_duration(method: str, host: str) -> Histogram:
    return _REQUEST_DURATION.labels(method, host)


def count_request(method: str, host: str, code: int | None, seconds: float) -> None:
    """Counts one request; `code` is None if it got no answer."""
    _requests(code, method, host).inc()
    _request_duration(method, host).observe(seconds)


def note_leading(name: str, leading: bool) -> None:
    """Notes whether this process holds the lease."""
    _LEADING.labels(name).set(leading)


@asynccontextmanager
async def serving(
    host: str, port: int, tls: SSLContext | None = None, also: Callable[[], Awaitable[bytes]] | None = None
) -> AsyncGenerator[int]:
    """Serves /metrics and /healthz while entered; gives the port, which may be asked for as 0. ConfigError if
    taken. `also` gives the text of metrics that are measured when they are asked for."""
    from aiohttp import web

    async def metrics(_: web.Request) -> web.Response:
        measured = await also() if also is not None else b""
        return web.Response(body=generate_latest(REGISTRY) + measured, headers={"Content-Type": CONTENT_TYPE})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as error:
            raise ConfigError(
                f"metrics cannot be served on {host}:{port}: {error.strerror or error}"
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
