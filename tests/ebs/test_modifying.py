"""Growing and changing volumes, against a cloud."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from cloud_api import DyingApi, capability, create, world
from csi_answers import code_of

from mooring.csi.client import Client
from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service import modifying
from mooring.ebs.ec2.records import Volume


async def expand(
    client: Client, volume: str, gib: int, limit: int = 0, **more
) -> csi.ControllerExpandVolumeResponse:
    wanted = csi.CapacityRange(required_bytes=gib * GIB, limit_bytes=limit)
    request = csi.ControllerExpandVolumeRequest(volume_id=volume, capacity_range=wanted, **more)
    return await client.controller.controller_expand_volume(request, timeout_s=9999)


async def modify(client: Client, volume: str, **changes: str) -> None:
    request = csi.ControllerModifyVolumeRequest(volume_id=volume, mutable_parameters=changes)
    await client.controller.controller_modify_volume(request, timeout_s=9999)


def test_a_volume_grows(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            reply = await expand(client, volume, 20)
            assert (reply.capacity_bytes, reply.node_expansion_required) == (20 * GIB, True)
            assert w.volumes()[volume].size == 20
            block = await expand(client, volume, 20, volume_capability=capability(block=True))
            assert not block.node_expansion_required

    run(story())


def test_what_is_already_so_is_not_asked_for(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            assert (await expand(client, volume, 5)).capacity_bytes == 10 * GIB
            await modify(client, volume, type="gp3", iops="3000", throughput="125")
            await modify(client, volume)
            assert w.api.count()["ModifyVolume"] == 0

    run(story())


def test_changes_within_a_moment_are_one_modification(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await asyncio.gather(
                expand(client, volume, 20), expand(client, volume, 20), modify(client, volume, iops="4000"),
                modify(client, volume, throughput="200", tagSpecification_1="a=b"),
            )  # fmt: skip
            real = w.volumes()[volume]
            assert (real.size, real.iops, real.throughput, real.tags["a"]) == (20, 4000, 200, "b")
            assert w.api.count()["ModifyVolume"] == 1

    run(story())


@pytest.mark.parametrize(
    "change",
    [
        {"size": 20},
        {"type": "io2"},
        {"iops": 4000},
        {"iops_per_gb": 50},
        {"throughput": 200},
        {"tags": {"a": "b"}},
        {"deleted_tags": frozenset({"a"})},
    ],
)
def test_two_targets_in_one_have_what_either_has(change: dict[str, Any]) -> None:
    one, other = modifying.Target(**change), modifying.Target(tags={"c": "d"})
    both = modifying.Target(**{**change, "tags": {**change.get("tags", {}), "c": "d"}})
    assert one.merged(other) == other.merged(one) == both


def test_a_volume_of_a_type_that_is_not_known_has_no_largest_size() -> None:
    volume = Volume("vol-1", "in-use", 10, "gp9", "zone")
    wanted = csi.CapacityRange(required_bytes=100_000 * GIB)
    assert modifying.grown_size(volume, wanted) == 100_000


def test_changes_at_odds_within_a_moment_abort_the_later_one(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            first = asyncio.ensure_future(expand(client, volume, 20))
            await asyncio.sleep(0.3)
            assert await code_of(expand(client, volume, 30)) is Code.ABORTED
            assert (await first).capacity_bytes == 20 * GIB

    run(story())


def test_a_change_while_ec2_is_optimizing_is_refused_and_works_later(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await expand(client, volume, 20)
            assert await code_of(expand(client, volume, 30)) is Code.FAILED_PRECONDITION
            await asyncio.sleep(60)
            assert (await expand(client, volume, 30)).capacity_bytes == 30 * GIB

    run(story())


@pytest.mark.parametrize("lag", [0.0, 3.0])
@pytest.mark.parametrize("after", [False, True])
def test_an_expansion_that_dies_anywhere_is_one_modification_when_it_is_repeated(run, lag, after) -> None:
    async def story(number: int) -> bool:
        async with world(volumes_lag_s=lag, modifications_lag_s=lag) as w:
            volume = (await create(w.client())).volume_id
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(api, lambda: expand(w.client(api), volume, 20))
            assert (await expand(w.client(), volume, 20)).capacity_bytes == 20 * GIB
            assert w.volumes()[volume].size == 20
            return died

    assert not all(run(story(number)) for number in range(1, 40))


def test_an_expansion_outlives_its_caller(run) -> None:
    async def story() -> None:
        async with world(modifying_s=[60, 60]) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            wanted = csi.CapacityRange(required_bytes=20 * GIB)
            request = csi.ControllerExpandVolumeRequest(volume_id=volume, capacity_range=wanted)
            assert (
                await code_of(client.controller.controller_expand_volume(request, timeout_s=5))
                is Code.DEADLINE_EXCEEDED
            )
            assert (await expand(client, volume, 20)).capacity_bytes == 20 * GIB
            assert w.api.count()["ModifyVolume"] == 1

    run(story())


def test_iops_in_proportion_to_the_size_stay_so_when_it_grows(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            parameters = {"type": "io2", "iopsPerGB": "50", "allowAutoIOPSIncreaseOnModify": "true"}
            volume = (await create(client, parameters=parameters)).volume_id
            await expand(client, volume, 20)
            assert w.volumes()[volume].iops == 1000

    run(story())


def test_tags_are_written_and_deleted(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(extra_tags={"a": "1", "b": "2"})
            volume = (await create(client)).volume_id
            await modify(client, volume, tagSpecification_1="c=3", tagDeletion_1="a")
            tags = w.volumes()[volume].tags
            assert (tags.get("a"), tags["b"], tags["c"]) == (None, "2", "3")
            assert w.api.count()["ModifyVolume"] == 0

    run(story())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"iops": "1"}, Code.INVALID_ARGUMENT),
        ({"size": "1"}, Code.INVALID_ARGUMENT),
        ({"type": "gp9"}, Code.INVALID_ARGUMENT),
        ({"tagDeletion_1": "CSIVolumeName"}, Code.INVALID_ARGUMENT),
    ],
)
def test_a_change_that_cannot_be_is_refused(run, changes, code) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            assert await code_of(modify(client, volume, **changes)) is code

    run(story())


def test_sizes_that_cannot_be_are_out_of_range(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            assert await code_of(expand(client, volume, 100_000)) is Code.OUT_OF_RANGE
            assert await code_of(expand(client, volume, 2, limit=3 * GIB)) is Code.OUT_OF_RANGE

    run(story())


@pytest.mark.parametrize("volume", ["fake-vol-id", "vol-0123456789abcdef0"])
def test_a_volume_that_is_not_there_is_not_found(run, volume) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            assert await code_of(expand(client, volume, 2)) is Code.NOT_FOUND
            assert await code_of(modify(client, volume)) is Code.NOT_FOUND
            assert await code_of(modify(client, volume, iops="4000")) is Code.NOT_FOUND

    run(story())


def test_a_volume_that_is_not_there_is_told_before_other_requests_are_waited_for(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(modify_volume_request_handler_timeout=99_999)
            assert await code_of(expand(client, "vol-0123456789abcdef0", 2)) is Code.NOT_FOUND
            assert await code_of(modify(client, "vol-0123456789abcdef0", iops="4000")) is Code.NOT_FOUND

    run(story())


def test_a_volume_that_was_modified_too_often_exhausts_it(run) -> None:
    async def story() -> None:
        async with world(modifications_per_day=1) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await expand(client, volume, 20)
            await asyncio.sleep(60)
            assert await code_of(expand(client, volume, 30)) is Code.RESOURCE_EXHAUSTED

    run(story())


def test_a_volume_has_one_change_at_a_time_also_when_several_wait(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[str] = []
    at_once: list[int] = []

    async def apply(self, volume_id: str, target: modifying.Target) -> None:
        under_way.append(volume_id)
        at_once.append(len(under_way))
        await asyncio.sleep(10)
        under_way.remove(volume_id)

    monkeypatch.setattr(modifying.Modifier, "_apply", apply)

    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            waiting = []
            for type in ("gp2", "gp3", "io1", "io2"):
                waiting.append(asyncio.ensure_future(modify(client, volume, type=type)))
                await asyncio.sleep(5)
            await asyncio.wait(waiting)
            assert at_once == [1, 1, 1, 1]

    run(story())


@pytest.mark.parametrize(("modifying_s", "waits"), [([2, 2], 9999), ([60, 60], 5)])
def test_a_volume_is_changed_back_though_ec2_shows_it_as_it_was_before(run, modifying_s, waits) -> None:
    """Found by the simulation (54 of the swarm): a description was of before the last change, or that was
    still being made."""

    async def story() -> None:
        async with world(volumes_lag_s=3.0, modifying_s=modifying_s) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await asyncio.sleep(10)
            request = csi.ControllerModifyVolumeRequest(
                volume_id=volume, mutable_parameters={"throughput": "200"}
            )
            with suppress(CsiError):
                await client.controller.controller_modify_volume(request, timeout_s=waits)
            anew = w.client()  # the driver was started anew meanwhile
            assert await code_of(modify(anew, volume, throughput="125")) is Code.FAILED_PRECONDITION
            await asyncio.sleep(60)
            await modify(anew, volume, throughput="125")
            assert w.volumes()[volume].throughput == 125

    run(story())
