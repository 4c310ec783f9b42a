"""Second opinions about the driver of EBS volumes, while it works on a cloud of ours."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from cloud_api import CloudInProcess, create, delete, publish, unpublish, world
from opinions import objections

from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.simulation.checks.second_opinions import ebs

CLOUDS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "that lags": {"volumes_lag_s": 4.0, "instances_lag_s": 4.0},
    "with small quotas": {"bucket_scale": 0.04},
    "where attaching gets stuck": {"attaching_s": (100.0, 100.0)},
    "with instances of several cards": {"instance_type": "p6-b200.48xlarge"},
}
CLASSES: list[dict[str, str]] = [
    {},
    {"Type": "gp3", "throughput": "250", "tagSpecification_1": "team=storage"},
    {"type": "io1", "iopsPerGB": "40", "encrypted": "true"},
    {"type": "io2", "iops": "300", "csi.storage.k8s.io/pvc/name": "data"},
]


async def life(w: CloudInProcess, number: int, client: Any) -> None:
    """A volume is made, attached here, then there, and deleted; what fails is tried once more."""
    parameters = CLASSES[number % len(CLASSES)]
    volume = (await create(client, f"pvc-{number}", 10, parameters=parameters)).volume_id
    for node in w.nodes:
        for _ in range(2):
            with suppress(CsiError):
                await publish(client, volume, node)
                break
        await unpublish(client, volume, node)
    await client.controller.list_volumes(csi.ListVolumesRequest(max_entries=3), timeout_s=60.0)
    await delete(client, volume)


@pytest.mark.parametrize("settings", CLOUDS.values(), ids=CLOUDS.keys())
def test_what_the_driver_does_is_not_objected_to(run: Any, settings: dict[str, Any]) -> None:
    async def story() -> None:
        async with world(zone="us-east-1a", **settings) as w:
            client = w.client(
                k8s_tag_cluster_id="played",
                extra_tags={"cost": "12"},
                modify_volume_request_handler_timeout=2.0,
            )
            await asyncio.gather(*(life(w, number, client) for number in range(12)))

    with objections(ebs.QUESTIONS) as found:
        run(story())
    assert found == []
