"""When a pod counts as available."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from mooring.kube.objects import Pod
from mooring.kube.readiness import available_at
from mooring.kube.times import format_time

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def ready(since: datetime) -> Pod:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(since)}
    return msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [condition]}}, Pod)


def test_a_pod_whose_nodes_clock_is_ahead_is_available_at_once_where_it_need_not_be_ready_for_a_time():
    moment = available_at(ready(NOW + timedelta(hours=1)), 0)
    assert moment is not None and moment <= NOW


def test_a_pod_is_available_when_it_has_been_ready_for_as_long_as_it_must():
    assert available_at(ready(NOW), 30) == NOW + timedelta(seconds=30)


def test_a_pod_that_is_not_ready_is_not_available():
    assert available_at(msgspec.convert({"metadata": {"name": "p"}}, Pod), 0) is None
