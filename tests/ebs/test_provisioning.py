"""Making and deleting volumes, against a cloud."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from cloud_api import FrozenApi, capability, create, create_request, delete, publish, world

from mooring.csi.driver.capacity import GIB
from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.provisioning import client_token


async def refusal(call) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


def source_of(volume: str = "", snapshot: str = "") -> csi.VolumeContentSource:
    source = csi.VolumeContentSource()
    if volume:
        source.volume.volume_id = volume
    if snapshot:
        source.snapshot.snapshot_id = snapshot
    return source


async def ask(client, request: csi.CreateVolumeRequest) -> csi.Volume:
    return (await client.controller.create_volume(request, timeout_s=999)).volume


def test_a_volume_is_what_was_asked_for(run) -> None:
    async def story() -> None:
        async with world() as w:
            parameters = {
                "type": "io2",
                "iopsPerGB": "50",
                "encrypted": "true",
                "csi.storage.k8s.io/fstype": "xfs",
            }
            request = create_request("pvc-1", 20, "us-east-1c", parameters=parameters)
            made = await ask(w.client(extra_tags={"team": "a"}), request)
            real = w.volumes()[made.volume_id]
            assert (real.size, real.type, real.iops, real.encrypted, real.zone) == (
                20,
                "io2",
                1000,
                True,
                "us-east-1c",
            )
            assert (real.state, real.tags["team"]) == ("available", "a")
            assert made.capacity_bytes == 20 * GIB
            assert [dict(one.segments) for one in made.accessible_topology] == [
                {"topology.kubernetes.io/zone": "us-east-1c"}
            ]

    run(story())


def test_the_same_request_again_is_the_same_volume_at_once(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            first = await create(client, "n" * 128)
            calls = w.api.count()["CreateVolume"]
            for _ in range(9):
                assert await create(client, "n" * 128) == first
            assert w.api.count()["CreateVolume"] == calls == 1

    run(story())


@pytest.mark.parametrize(
    "other",
    [
        create_request("pvc-1", 11),
        create_request("pvc-1", 10, "us-east-1b"),
        create_request("pvc-1", 10, parameters={"type": "gp2"}),
        create_request("pvc-1", 10, parameters={"encrypted": "true"}),
        create_request("pvc-1", 10, parameters={"iops": "4000"}),
        create_request("pvc-1", 10, mutable_parameters={"throughput": "200"}),
    ],
)
def test_another_volume_of_the_same_name_is_refused_and_burns_no_token(run, other) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            first = await create(client, "pvc-1", 10, "us-east-1a")
            assert (await refusal(ask(client, other))).code is Code.ALREADY_EXISTS
            assert w.named("pvc-1") == [first.volume_id]
            assert await create(client, "pvc-1", 10, "us-east-1a") == first

    run(story())


def test_a_smaller_request_that_the_volume_satisfies_is_answered_with_it(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            assert await create(client, "pvc-1", 10) == await create(client, "pvc-1", 5)

    run(story())


def test_a_name_can_be_had_again_after_its_volume_is_deleted_however_often(run) -> None:
    async def story() -> None:
        async with world() as w:
            seen = set()
            for _ in range(4):
                client = w.client()
                volume = (await create(client)).volume_id
                assert w.named("pvc-1") == [volume]
                seen.add(volume)
                await delete(client, volume)
            assert len(seen) == 4

    run(story())


def test_a_name_can_be_had_again_in_another_size(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            await delete(client, (await create(client, "pvc-1", 10)).volume_id)
            again = await create(client, "pvc-1", 20)
            assert w.named("pvc-1") == [again.volume_id]

    run(story())


def test_tokens_are_of_the_name_and_fit() -> None:
    tokens = [client_token(name, number) for name in ("a", "b") for number in (1, 2, 3)]
    assert len(set(tokens)) == 6
    assert {len(token) for token in tokens} == {64}


def test_the_first_token_of_a_name_is_its_hash_alone_so_that_later_versions_repeat_the_request() -> None:
    assert client_token("a") == client_token("a", 1) == hashlib.sha256(b"a").hexdigest()


def test_a_volume_with_a_bad_key_is_an_error_that_names_the_key_and_the_next_try_works(run) -> None:
    async def story() -> None:
        async with world(bad_kms_keys=["bad-key"]) as w:
            client = w.client()
            request = create_request(parameters={"kmsKeyId": "bad-key"})
            for _ in range(2):
                error = await refusal(ask(client, request))
                assert error.code is Code.FAILED_PRECONDITION
                assert "bad-key" in error.message
            assert w.volumes() == {}
            w.cloud.configure({"bad_kms_keys": []})
            made = await ask(client, request)
            assert w.named("pvc-1") == [made.volume_id]

    run(story())


def test_a_name_whose_volumes_vanish_again_and_again_does_not_try_all_its_tokens_each_time(run) -> None:
    async def story() -> None:
        async with world(bad_kms_keys=["bad-key"]) as w:
            client = w.client()
            request = create_request(parameters={"kmsKeyId": "bad-key"})
            for _ in range(8):
                await refusal(ask(client, request))
            assert w.cloud.counters()["CreateVolume"]["calls"] == 1 + 2 * 7

    run(story())


def test_a_volume_whose_caller_has_gone_is_not_made_once_more(run) -> None:
    """Another process has made it, and deleted it. Found by the simulation."""

    async def story() -> None:
        async with world() as w:
            late, other = w.client(FrozenApi(w.api, "CreateVolume", 20)), w.client()
            call = late.controller.create_volume(create_request("pvc-1"), timeout_s=10)
            waiting = asyncio.ensure_future(refusal(call))
            await delete(other, (await create(other, "pvc-1")).volume_id)
            assert (await waiting).code is Code.DEADLINE_EXCEEDED
            await asyncio.sleep(600)
            assert w.volumes() == {}
            assert (await create(late, "pvc-1")).volume_id in w.volumes()

    run(story())


def test_a_full_account_still_answers_for_volumes_that_are_there(run) -> None:
    async def story() -> None:
        async with world(volumes_lag_s=4) as w:
            made = (await create(w.client())).volume_id
            w.cloud.configure({"volume_limit": 1})
            client = w.client()
            assert (await create(client)).volume_id == made
            assert (await refusal(create(client, "pvc-2"))).code is Code.RESOURCE_EXHAUSTED

    run(story())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (create_request(parameters={"typ": "gp3"}), Code.INVALID_ARGUMENT),
        (create_request(parameters={"type": "gp9"}), Code.INVALID_ARGUMENT),
        (create_request(parameters={"type": "gp2", "throughput": "200"}), Code.INVALID_ARGUMENT),
        (create_request(parameters={"iops": "1", "iopsPerGB": "1"}), Code.INVALID_ARGUMENT),
        (create_request(mutable_parameters={"Iops": "4000"}), Code.INVALID_ARGUMENT),
        (create_request(parameters={"tagSpecification_1": "a={{ .PVCName }}"}), Code.INVALID_ARGUMENT),
        (create_request(gib=100_000), Code.OUT_OF_RANGE),
        (
            create_request(
                gib=0, capacity_range=csi.CapacityRange(required_bytes=GIB + 1, limit_bytes=2 * GIB - 1)
            ),
            Code.OUT_OF_RANGE,
        ),
        (create_request("pvc-1", 10, "us-east-9z"), Code.INVALID_ARGUMENT),
        (
            create_request(volume_capabilities=[capability(mode=AccessMode.MULTI_NODE_MULTI_WRITER)]),
            Code.INVALID_ARGUMENT,
        ),
        (
            create_request(volume_capabilities=[capability(True, AccessMode.MULTI_NODE_MULTI_WRITER)]),
            Code.INVALID_ARGUMENT,
        ),
        (
            create_request(volume_capabilities=[capability(mode=AccessMode.MULTI_NODE_READER_ONLY)]),
            Code.INVALID_ARGUMENT,
        ),
        (create_request(volume_content_source=source_of(volume="vol-0123456789abcdef0")), Code.NOT_FOUND),
        (create_request(volume_content_source=source_of(volume="none")), Code.NOT_FOUND),
        (create_request(volume_content_source=source_of(snapshot="none-exist-id")), Code.NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused_with_the_right_code(run, request_, code) -> None:
    async def story() -> None:
        async with world() as w:
            assert (await refusal(ask(w.client(), request_))).code is code
            assert w.volumes() == {}

    run(story())


def test_a_type_that_a_zone_lacks_exhausts_it(run) -> None:
    async def story() -> None:
        async with world(unavailable_types=["us-east-1b:io2"]) as w:
            request = create_request("pvc-1", 10, "us-east-1b", parameters={"type": "io2", "iops": "100"})
            assert (await refusal(ask(w.client(), request))).code is Code.RESOURCE_EXHAUSTED

    run(story())


def test_without_a_zone_the_first_is_taken_and_without_a_size_the_default(run) -> None:
    async def story() -> None:
        async with world() as w:
            made = await create(w.client(), "pvc-1", 0)
            real = w.volumes()[made.volume_id]
            assert (real.zone, real.size, real.type) == ("us-east-1a", 100, "gp3")

    run(story())


def test_the_preferred_zone_is_taken_by_its_name_or_its_id(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            request = create_request("pvc-1", 1)
            request.accessibility_requirements.requisite.add().segments["topology.k8s.aws/zone-id"] = (
                "use1-az2"
            )
            made = await ask(client, request)
            assert w.volumes()[made.volume_id].zone == "us-east-1b"
            assert made.accessible_topology[0].segments["topology.kubernetes.io/zone"] == "us-east-1b"
            assert await ask(client, request) == made
            other = await create(client, "pvc-2", 1, "us-east-1c", "us-east-1a")
            assert w.volumes()[other.volume_id].zone == "us-east-1c"

    run(story())


def test_a_copy_is_made_where_its_source_is_or_not_at_all(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            source = (await create(client, "source", 10, "us-east-1b")).volume_id
            content = {"volume_content_source": source_of(volume=source)}
            made = await create(client, "copy", 12, **content)
            assert (w.volumes()[made.volume_id].zone, made.capacity_bytes) == ("us-east-1b", 12 * GIB)
            assert await create(client, "copy", 12, **content) == made
            elsewhere = await refusal(create(client, "copy-2", 12, "us-east-1a", **content))
            assert elsewhere.code is Code.RESOURCE_EXHAUSTED
            assert (await refusal(create(client, "copy-2", 9, **content))).code is Code.OUT_OF_RANGE

    run(story())


def test_a_volume_from_a_snapshot_has_at_least_its_size(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            source = (await create(client, "source", 10)).volume_id
            taken = csi.CreateSnapshotRequest(name="snap", source_volume_id=source)
            snapshot = (await client.controller.create_snapshot(taken, timeout_s=99)).snapshot.snapshot_id
            await asyncio.sleep(60)
            content = {"volume_content_source": source_of(snapshot=snapshot)}
            made = await create(client, "restored", 0, **content)
            assert (made.capacity_bytes, made.content_source.snapshot.snapshot_id) == (10 * GIB, snapshot)
            assert w.volumes()[made.volume_id].snapshot == snapshot
            assert (await refusal(create(client, "restored", 0))).code is Code.ALREADY_EXISTS

    run(story())


def test_formatting_parameters_go_into_the_volumes_context(run) -> None:
    async def story() -> None:
        async with world() as w:
            made = await ask(w.client(), create_request(parameters={"blockSize": "4096", "inodeSize": "512"}))
            assert dict(made.volume_context) == {"blocksize": "4096", "inodesize": "512"}

    run(story())


def test_a_volume_in_use_is_not_deleted(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            await publish(client, made, w.nodes[0])
            assert (await refusal(delete(client, made))).code is Code.FAILED_PRECONDITION
            assert w.named("pvc-1") == [made]

    run(story())


@pytest.mark.parametrize("volume", ["fake-vol-id", "vol-0123456789abcdef0", "vol-1", "; reboot"])
def test_a_volume_that_is_not_there_is_deleted(run, volume) -> None:
    async def story() -> None:
        async with world() as w:
            await delete(w.client(), volume)
            assert w.volumes() == {}

    run(story())


def test_several_volumes_of_one_name_are_never_joined_by_another_and_the_oldest_is_taken(run) -> None:
    async def story() -> None:
        async with world() as w:
            tags = [{"ResourceType": "volume", "Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}]}]
            request = {"Size": 10, "VolumeType": "gp3", "TagSpecifications": tags}
            made = []
            for zone in ("us-east-1b", "us-east-1a"):
                made.append(
                    (await w.api.call("CreateVolume", {**request, "AvailabilityZone": zone}))["VolumeId"]
                )
                await asyncio.sleep(10)
            assert [(await create(w.client())).volume_id for _ in range(2)] == [made[0], made[0]]
            assert len(w.named("pvc-1")) == 2

    run(story())


def test_names_with_wildcards_are_only_themselves(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            names = ["pvc-1", "pvc-?", "*", "pvc\\*"]
            made = [(await create(client, name)).volume_id for name in names]
            assert len(set(made)) == 4
            assert [(await create(client, name)).volume_id for name in names] == made

    run(story())
