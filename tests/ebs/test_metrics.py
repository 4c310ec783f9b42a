"""What is counted, under the names by which upstream's dashboards ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any

import pytest
from cloud_api import client_of, create, publish, unpublish, world
from prometheus_client import CollectorRegistry, generate_latest

from mooring.cli import ebs_serving
from mooring.ebs.controller_service.controller import make_controller
from mooring.ebs.controller_service.detaches import PendingDetaches
from mooring.ebs.controller_service.metrics import MeteredApi, RequestMetrics, SlowDetaches, request_metrics
from mooring.ebs.ec2 import aws
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.errors import Ec2Error, Ec2Unreachable, MalformedAnswer
from mooring.ebs.options import Mode, Options
from mooring.kube import metrics

REQUEST = "aws_ebs_csi_api_request"
PENDING = "aws_ebs_csi_ec2_detach_pending_seconds_total"


class PresetEc2(Ec2Api):
    """Takes two seconds, and then answers as told, or with success."""

    def __init__(self, *outcomes: Exception) -> None:
        self.outcomes = list(outcomes)

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        await asyncio.sleep(2)
        if self.outcomes:
            raise self.outcomes.pop(0)
        return {"ok": True}

    def close(self) -> None:
        return


def metered(*outcomes: Exception) -> tuple[CollectorRegistry, MeteredApi]:
    registry = CollectorRegistry()
    return registry, MeteredApi(PresetEc2(*outcomes), RequestMetrics(registry))


def failures(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """By request and error, what is not 0; the error of a throttled request is empty."""
    wanted = (f"{REQUEST}_errors_total", f"{REQUEST}_throttles_total")
    return {
        (sample.labels["request"], sample.labels.get("error", "")): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name in wanted
    }


def test_each_request_is_timed(run) -> None:
    async def story() -> None:
        registry, api = metered()
        assert await api.call("AttachVolume", {}) == {"ok": True}
        labels = {"request": "AttachVolume"}
        assert registry.get_sample_value(f"{REQUEST}_duration_seconds_sum", labels) == 2
        assert registry.get_sample_value(f"{REQUEST}_duration_seconds_count", labels) == 1
        assert failures(registry) == {}

    run(story())


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Ec2Error("VolumeInUse", ""), "VolumeInUse"),
        (Ec2Unreachable("no answer"), "Ec2Unreachable"),
        (MalformedAnswer("half a page"), "MalformedAnswer"),
        (Ec2Error("RequestLimitExceeded", ""), ""),
    ],
)
def test_a_request_that_failed_is_counted_once_by_its_error_and_timed(
    run, error: Exception, name: str
) -> None:
    async def story() -> None:
        registry, api = metered(error)
        with pytest.raises(type(error)):
            await api.call("DetachVolume", {})
        assert failures(registry) == {("DetachVolume", name): 1}
        assert (
            registry.get_sample_value(f"{REQUEST}_duration_seconds_count", {"request": "DetachVolume"}) == 1
        )

    run(story())


def test_a_dry_run_that_says_yes_is_no_failure(run) -> None:
    async def story() -> None:
        registry, api = metered(Ec2Error("DryRunOperation", ""))
        with pytest.raises(Ec2Error):
            await api.call("DescribeAvailabilityZones", {"DryRun": True})
        assert failures(registry) == {}

    run(story())


def test_a_request_that_is_made_again_after_throttling_counts_each_time_and_without_its_waiting(run) -> None:
    async def story() -> None:
        registry, api = metered(Ec2Error("RequestLimitExceeded", ""))
        await PacedApi(api, random.Random(0).random).call("CreateVolume", {})
        assert failures(registry) == {("CreateVolume", ""): 1}
        labels = {"request": "CreateVolume"}
        assert registry.get_sample_value(f"{REQUEST}_duration_seconds_count", labels) == 2
        assert registry.get_sample_value(f"{REQUEST}_duration_seconds_sum", labels) == 4

    run(story())


def test_a_registry_has_them_once() -> None:
    registry = CollectorRegistry()
    assert request_metrics(registry) is request_metrics(registry)


def test_a_detach_is_shown_while_it_takes_longer_than_a_minute_and_no_longer(run) -> None:
    async def story() -> None:
        async with world(detaching_s=[200, 200]) as w:
            detaches, registry = PendingDetaches(), CollectorRegistry()
            registry.register(SlowDetaches(detaches))
            client = client_of(
                make_controller(Options(), w.api, random=random.Random(0).random, detaches=detaches)
            )
            volume, node = (await create(client)).volume_id, w.nodes[0]
            await publish(client, volume, node)
            working = asyncio.ensure_future(unpublish(client, volume, node))
            labels = {"volume_id": volume, "instance_id": node, "attachment_state": "detaching"}
            await asyncio.sleep(59)
            assert registry.get_sample_value(PENDING, labels) is None
            await asyncio.sleep(41)
            assert registry.get_sample_value(PENDING, labels) == pytest.approx(100)
            await working
            assert registry.get_sample_value(PENDING, labels) is None

    run(story())


async def test_the_command_counts_what_its_controller_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"request": "DescribeAvailabilityZones"}
    name = f"{REQUEST}_duration_seconds_count"
    before = metrics.REGISTRY.get_sample_value(name, labels) or 0
    refused = Ec2Error("DryRunOperation", "")

    class Refuses(PresetEc2):
        async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
            raise refused

    monkeypatch.setattr(aws, "aws_api", lambda *options: Refuses())
    for _ in range(2):  # what it registers goes with it
        async with contextlib.AsyncExitStack() as stack:
            controller = await ebs_serving.make_controller(Options(mode=Mode.CONTROLLER, region="r"), stack)
            assert f"# HELP {PENDING} " in generate_latest(metrics.REGISTRY).decode()
            await controller.check()
        assert PENDING not in generate_latest(metrics.REGISTRY).decode()
    assert metrics.REGISTRY.get_sample_value(name, labels) == before + 2
