"""The controller service: lists, capabilities, readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from cloud_api import capability, create, create_request, delete, publish, publish_request, unpublish, world

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.error_codes import CODES, answering, code_of
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer


def test_volumes_are_listed_page_by_page_with_their_nodes_and_nobody_elses(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = [(await create(client, f"pvc-{number}")).volume_id for number in range(5)]
            await w.api.call("CreateVolume", {"Size": 1, "AvailabilityZone": "us-east-1a"})
            await publish(client, made[0], w.nodes[1])
            found: dict[str, list[str]] = {}
            token, calls = "", w.api.count()["DescribeVolumes"]
            while token or not found:
                request = csi.ListVolumesRequest(max_entries=2, starting_token=token)
                reply = await client.controller.list_volumes(request, timeout_s=9)
                assert len(reply.entries) <= 2
                found |= {one.volume.volume_id: list(one.status.published_node_ids) for one in reply.entries}
                token = reply.next_token
            assert found == {id: [w.nodes[1]] if id == made[0] else [] for id in made}
            assert w.api.count()["DescribeVolumes"] == calls + 1

    run(story())


def test_a_list_without_a_token_is_of_now(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()

            async def shown() -> list[str]:
                reply = await client.controller.list_volumes(
                    csi.ListVolumesRequest(max_entries=9), timeout_s=9
                )
                return [one.volume.volume_id for one in reply.entries]

            first = (await create(client, "pvc-1")).volume_id
            assert await shown() == [first]
            second = (await create(client, "pvc-2")).volume_id
            assert await shown() == sorted([first, second])
            await delete(client, first)
            assert await shown() == [second]

    run(story())


def test_a_list_shows_what_this_driver_has_just_changed_though_descriptions_lag(run) -> None:
    """Found by the simulation (2000030 of the swarm, S13): who verifies what is attached took back that a
    volume is, which had been attached a second ago."""

    async def story(seed: int) -> None:
        async with world(seed=seed, volumes_lag_s=4.5, instances_lag_s=4.5) as w:
            client = w.client()

            async def shown() -> dict[str, list[str]]:
                reply = await client.controller.list_volumes(csi.ListVolumesRequest(), timeout_s=9)
                return {one.volume.volume_id: [*one.status.published_node_ids] for one in reply.entries}

            first, second = [(await create(client, name)).volume_id for name in ("pvc-1", "pvc-2")]
            assert await shown() == {first: [], second: []}
            for node in w.nodes:
                await publish(client, first, node)
                assert await shown() == {first: [node], second: []}
                await unpublish(client, first, node)
                assert await shown() == {first: [], second: []}
            await delete(client, second)
            assert await shown() == {first: []}

    for seed in range(10):
        run(story(seed))


def test_a_list_is_read_to_its_last_page_of_ec2s(run) -> None:
    async def story() -> None:
        async with world(throttling=False) as w:
            tags = [{"ResourceType": "volume", "Tags": [{"Key": "ebs.csi.aws.com/cluster", "Value": "true"}]}]
            request = {
                "Size": 1,
                "VolumeType": "gp3",
                "AvailabilityZone": "us-east-1a",
                "TagSpecifications": tags,
            }
            for _ in range(1100):
                await w.cloud.call("CreateVolume", request)
            reply = await w.client().controller.list_volumes(csi.ListVolumesRequest(), timeout_s=9)
            assert len(reply.entries) == 1100

    run(story())


def test_a_clusters_list_is_of_that_cluster(run) -> None:
    async def story() -> None:
        async with world() as w:
            one, other = w.client(k8s_tag_cluster_id="one"), w.client(k8s_tag_cluster_id="other")
            made = (await create(one, "pvc-1")).volume_id
            await create(other, "pvc-2")
            reply = await one.controller.list_volumes(csi.ListVolumesRequest(), timeout_s=9)
            assert [entry.volume.volume_id for entry in reply.entries] == [made]

    run(story())


@pytest.mark.parametrize(
    ("asked", "is_confirmed"),
    [
        (capability(), True),
        (capability(block=True, mode=AccessMode.MULTI_NODE_MULTI_WRITER), True),
        (capability(mode=AccessMode.MULTI_NODE_MULTI_WRITER), False),
        (capability(mode=AccessMode.MULTI_NODE_READER_ONLY), False),
    ],
)
def test_ways_of_use_are_confirmed_or_not(run, asked, is_confirmed) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            request = csi.ValidateVolumeCapabilitiesRequest(volume_id=volume, volume_capabilities=[asked])
            reply = await client.controller.validate_volume_capabilities(request, timeout_s=9)
            assert reply.HasField("confirmed") == is_confirmed
            assert bool(reply.message) != is_confirmed
            request.volume_id = "vol-0123456789abcdef0"
            with pytest.raises(CsiError) as caught:
                await client.controller.validate_volume_capabilities(request, timeout_s=9)
            assert caught.value.code is Code.NOT_FOUND

    run(story())


class Answering(Ec2Api):
    """Fails as told."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.calls: list[str] = []

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append(action)
        if self.error is None:
            return await asyncio.get_running_loop().create_future()
        raise self.error


def test_a_good_answer_to_probe_is_asked_for_rarely(run) -> None:
    async def story() -> None:
        async with world() as w:
            controller = w.controller()
            for _ in range(100):
                await controller.check()
                await asyncio.sleep(10)
            assert w.api.count() == {"DescribeAvailabilityZones": 4}

    run(story())


@pytest.mark.parametrize(
    "error",
    [
        Ec2Error("AuthFailure", "not able to validate"),
        Ec2Error("UnauthorizedOperation", "no"),
        Ec2Unreachable("down"),
        None,
    ],
)
def test_probe_is_true_about_ec2_and_asks_again_after_a_failure(run, error) -> None:
    async def story() -> None:
        async with world() as w:
            api = Answering(error)
            controller = w.controller(api)
            for _ in range(2):
                with pytest.raises(CsiError) as caught:
                    await controller.check()
                assert caught.value.code is Code.FAILED_PRECONDITION
            assert len(api.calls) == 2
            api.error = Ec2Error("DryRunOperation", "would have succeeded")
            await controller.check()

    run(story())


def test_a_throttled_probe_says_that_the_credentials_are_good(run) -> None:
    async def story() -> None:
        async with world() as w:
            api = Answering(Ec2Error("RequestLimitExceeded", ""))
            await w.controller(api).check()
            assert api.calls, "it has asked"

    run(story())


VOLUME, NODE, SNAPSHOT = "vol-0123456789abcdef0", "i-0123456789abcdef0", "snap-0123456789abcdef0"


@pytest.mark.parametrize(
    ("method", "request_", "tried"),
    [
        ("create_volume", create_request("pvc-1"), "create volume pvc-1"),
        ("delete_volume", csi.DeleteVolumeRequest(volume_id=VOLUME), f"delete volume {VOLUME}"),
        (
            "validate_volume_capabilities",
            csi.ValidateVolumeCapabilitiesRequest(volume_id=VOLUME, volume_capabilities=[capability()]),
            f"look up volume {VOLUME}",
        ),
        ("list_volumes", csi.ListVolumesRequest(), "list volumes"),
        (
            "controller_publish_volume",
            publish_request(VOLUME, NODE),
            f"attach volume {VOLUME} to {NODE}",
        ),
        (
            "controller_unpublish_volume",
            csi.ControllerUnpublishVolumeRequest(volume_id=VOLUME, node_id=NODE),
            f"detach volume {VOLUME} from {NODE}",
        ),
        (
            "controller_unpublish_volume",
            csi.ControllerUnpublishVolumeRequest(volume_id=VOLUME),
            f"detach volume {VOLUME} from all nodes",
        ),
        (
            "controller_expand_volume",
            csi.ControllerExpandVolumeRequest(
                volume_id=VOLUME, capacity_range=csi.CapacityRange(required_bytes=1)
            ),
            f"expand volume {VOLUME}",
        ),
        (
            "controller_modify_volume",
            csi.ControllerModifyVolumeRequest(volume_id=VOLUME, mutable_parameters={"iops": "4000"}),
            f"modify volume {VOLUME}",
        ),
        (
            "create_snapshot",
            csi.CreateSnapshotRequest(name="s", source_volume_id=VOLUME),
            f"create snapshot s of volume {VOLUME}",
        ),
        ("delete_snapshot", csi.DeleteSnapshotRequest(snapshot_id=SNAPSHOT), f"delete snapshot {SNAPSHOT}"),
        ("get_snapshot", csi.GetSnapshotRequest(snapshot_id=SNAPSHOT), f"look up snapshot {SNAPSHOT}"),
        ("list_snapshots", csi.ListSnapshotsRequest(), "list snapshots"),
    ],
)
def test_what_ec2_refuses_is_told_with_what_was_tried(run, method: str, request_, tried: str) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(Answering(Ec2Error("UnauthorizedOperation", "no")))
            with pytest.raises(CsiError) as caught:
                await getattr(client.controller, method)(request_, timeout_s=99)
            assert caught.value.code is Code.PERMISSION_DENIED
            assert f"could not {tried}: " in caught.value.message
            assert "UnauthorizedOperation" in caught.value.message

    run(story())


NAMED_IN_THE_DOCUMENTS = (
    "InvalidVolume.NotFound",
    "InvalidVolumeID.Malformed",
    "InvalidVolume.ZoneMismatch",
    "InvalidVolumeID.ZoneMismatch",
    "VolumeInUse",
    "IncorrectState",
    "IncorrectInstanceState",
    "InvalidAttachment.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidInstanceID.Malformed",
    "AttachmentLimitExceeded",
    "VolumeLimitExceeded",
    "MaxIOPSLimitExceeded",
    "VolumeTypeNotAvailableInZone",
    "InsufficientVolumeCapacity",
    "UnknownVolumeType",
    "InvalidSnapshot.NotFound",
    "InvalidSnapshot.InUse",
    "InvalidSnapshotID.Malformed",
    "SnapshotLimitExceeded",
    "TagLimitExceeded",
    "IncorrectModificationState",
    "VolumeModificationSizeLimitExceeded",
    "FilterLimitExceeded",
    "EncryptedVolumesNotSupported",
    "CustomerKeyHasBeenRevoked",
    "RequestLimitExceeded",
    "Unavailable",
    "InternalError",
    "DryRunOperation",
    "UnauthorizedOperation",
)


@pytest.mark.parametrize("code", NAMED_IN_THE_DOCUMENTS)
def test_every_known_code_of_ec2s_has_an_answer(code) -> None:
    assert code in CODES


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MalformedAnswer("no volumes"), "no volumes; is this really EC2's endpoint?"),
        (Ec2Unreachable("no route"), "no route; EC2 may have done it all the same; the next try will see"),
        (Ec2Error("AuthFailure", "no"), "AuthFailure: no; give the controller credentials that EC2 takes"),
        (Ec2Error("New", "no"), "New: no"),
    ],
)
def test_an_error_of_ec2s_is_told_with_advice_where_there_is_any(error: EbsError, told: str) -> None:
    with pytest.raises(CsiError) as caught, answering("attach vol-1"):
        raise error
    assert caught.value.message == f"could not attach vol-1: {told}"


def test_what_is_not_known_leaves_the_outcome_open() -> None:
    answers = [code_of(error) for error in (Ec2Error("New", ""), Ec2Unreachable(""), MalformedAnswer(""))]
    assert answers == [Code.INTERNAL, Code.UNAVAILABLE, Code.INTERNAL]
    assert not any(CsiError(code, "").outcome.value == "final" for code in answers)
