"""What the node service says of its node, from metadata that is played; no device is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.driver import ebs_driver, make_node, metadata_of, region_of
from mooring.ebs.errors import MetadataError
from mooring.ebs.node_service.devices import DeviceFinder
from mooring.ebs.node_service.metadata import Instance, Metadata
from mooring.ebs.node_service.node import EbsNode
from mooring.ebs.options import Options


@dataclass
class PlayedInstance(Metadata):
    """An instance that says what it is told to, and what it was asked."""

    type: str = "m5.large"
    interfaces: int = 1
    volumes: tuple[str, ...] = ()
    failing: bool = False
    asked: list[str] = field(default_factory=list[str])

    async def instance(self) -> Instance:
        if self.failing:
            raise MetadataError("no answer; set the hop limit to 2")
        return Instance("i-0123", self.type, "us-east-1a", "us-east-1")

    async def network_interfaces(self) -> int:
        self.asked.append("interfaces")
        return self.interfaces

    async def boot_volumes(self) -> tuple[str, ...]:
        self.asked.append("volumes")
        return self.volumes


def client_of(metadata: Metadata, **more: Any) -> Client:
    node = EbsNode(cast(Any, None), DeviceFinder(), metadata, **more)
    return Client(LocalChannel(Dispatcher(ebs_driver("1", None, node), [])))


async def limit_of(metadata: Metadata, **more: Any) -> int:
    reply = await client_of(metadata, **more).node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=5)
    return reply.max_volumes_per_node


async def test_a_node_is_its_instance_in_its_zone():
    info = await client_of(PlayedInstance()).node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=5)
    assert info.node_id == "i-0123"
    assert dict(info.accessible_topology.segments) == {
        "topology.kubernetes.io/zone": "us-east-1a",
        "topology.ebs.csi.aws.com/zone": "us-east-1a",
        "kubernetes.io/os": "linux",
    }


async def test_network_interfaces_are_counted_each_time():
    played = PlayedInstance(interfaces=1)
    client = client_of(played)
    for interfaces, limit in ((1, 26), (3, 24), (2, 25)):
        played.interfaces = interfaces
        info = await client.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=5)
        assert info.max_volumes_per_node == limit


async def test_network_interfaces_are_not_asked_about_where_they_take_nothing():
    played = PlayedInstance(type="m7i.large", interfaces=9)
    assert await limit_of(played) == 31
    assert "interfaces" not in played.asked


async def test_volumes_of_the_start_are_counted_once_and_only_others():
    played = PlayedInstance(volumes=("sdb", "xvdaa", "/dev/xvdbc"))
    client = client_of(played)
    for _ in range(3):
        info = await client.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=5)
        assert info.max_volumes_per_node == 25
    assert played.asked.count("volumes") == 1


@pytest.mark.parametrize("reserved", [0, 5])
async def test_what_an_operator_reserves_is_not_counted(reserved: int):
    played = PlayedInstance(volumes=("sdb", "sdc"))
    assert await limit_of(played, reserved_volume_attachments=reserved) == 27 - reserved
    assert "volumes" not in played.asked


@pytest.mark.parametrize("limit", [0, 7])
async def test_a_limit_that_is_given_wins_and_nothing_is_counted(limit: int):
    played = PlayedInstance(interfaces=9)
    assert await limit_of(played, volume_attach_limit=limit) == limit
    assert played.asked == []


async def test_metadata_that_is_not_to_be_had_is_asked_for_again():
    with pytest.raises(CsiError, match="hop limit") as caught:
        await limit_of(PlayedInstance(failing=True))
    assert caught.value.code is Code.UNAVAILABLE


async def test_a_node_is_always_ready():
    reply = await client_of(PlayedInstance(failing=True)).identity.probe(csi.ProbeRequest(), timeout_s=5)
    assert reply.ready.value


async def test_a_node_says_that_there_is_a_controller_and_that_volumes_grow_while_in_use():
    reply = await client_of(PlayedInstance()).identity.get_plugin_capabilities(
        csi.GetPluginCapabilitiesRequest(), timeout_s=5
    )
    services = {each.service.type for each in reply.capabilities if each.HasField("service")}
    kinds = csi.PluginCapability.Service.Type
    assert services == {kinds.CONTROLLER_SERVICE, kinds.VOLUME_ACCESSIBILITY_CONSTRAINTS}
    growth = [each.volume_expansion.type for each in reply.capabilities if each.HasField("volume_expansion")]
    assert growth == [csi.PluginCapability.VolumeExpansion.Type.ONLINE]


async def test_options_say_what_the_node_service_is_to_do(tmp_path: Path):
    async def info(**given: Any) -> csi.NodeGetInfoResponse:
        node = make_node(
            Options(device_dir=tmp_path, **given), cast(Any, None), PlayedInstance(volumes=("sdb",))
        )
        return await node.node_get_info(csi.NodeGetInfoRequest())

    assert (await info()).max_volumes_per_node == 25
    assert (await info(volume_attach_limit=7)).max_volumes_per_node == 7
    assert (await info(reserved_volume_attachments=3)).max_volumes_per_node == 24


async def test_options_speak_for_the_instance():
    options = Options(instance_id="i-1", instance_type="m7i.large", zone="z", metadata_endpoint="")
    assert await limit_of(metadata_of(options)) == 31
    assert await region_of(Options(region="eu-north-1")) == "eu-north-1"
