"""Metrics under upstream's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from mooring.csi.client import Exchange
from mooring.csi.errors import Code
from mooring.csi.metrics import node_metrics, plugin_metrics, sidecar_metrics
from mooring.csi.proto import csi_pb2 as csi


def exchange(code: Code) -> Exchange:
    request = csi.ControllerPublishVolumeRequest(secrets={"password": "hunter2"})
    return Exchange(
        "ControllerPublishVolume",
        "/csi.v1.Controller/ControllerPublishVolume",
        0,
        0.2,
        code,
        "",
        request,
        None,
    )


def test_calls_of_a_sidecar() -> None:
    registry = CollectorRegistry()
    metrics = sidecar_metrics(registry)
    for driver in ("a.example.com", "b.example.com"):
        metrics.observer(driver)(exchange(Code.DEADLINE_EXCEEDED))
    text = generate_latest(registry).decode()
    labels = 'driver_name="a.example.com",grpc_status_code="DeadlineExceeded",'
    labels += 'method_name="/csi.v1.Controller/ControllerPublishVolume"'
    assert f"csi_sidecar_operations_seconds_count{{{labels}}} 1.0" in text
    assert 'driver_name="b.example.com"' in text
    assert "hunter2" not in text


def test_calls_that_a_driver_counts_itself() -> None:
    registry = CollectorRegistry()
    plugin_metrics(registry).observer("a.example.com")(exchange(Code.OK))
    assert "csi_plugin_operations_seconds_count" in generate_latest(registry).decode()


def test_calls_of_a_node_say_that_nothing_was_migrated() -> None:
    registry = CollectorRegistry()
    node_metrics(registry).observer("a.example.com")(exchange(Code.OK))
    text = generate_latest(registry).decode()
    assert 'grpc_status_code="OK"' in text
    assert 'migrated="false"' in text
