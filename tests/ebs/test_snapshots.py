"""Snapshots, against a cloud."""

from __future__ import annotations

import asyncio

import pytest
from cloud_api import DyingApi, create, delete, world
from csi_answers import code_of
from msgspec.structs import replace

from mooring.csi.client import Client
from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi


async def take(client: Client, name: str, volume: str, **more) -> csi.Snapshot:
    request = csi.CreateSnapshotRequest(name=name, source_volume_id=volume, **more)
    return (await client.controller.create_snapshot(request, timeout_s=999)).snapshot


async def drop(client: Client, snapshot: str) -> None:
    await client.controller.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot), timeout_s=999)


async def shown(client: Client, **wanted) -> list[str]:
    reply = await client.controller.list_snapshots(csi.ListSnapshotsRequest(**wanted), timeout_s=999)
    return [entry.snapshot.snapshot_id for entry in reply.entries]


def test_a_snapshot_is_taken_becomes_ready_and_is_the_same_for_its_name(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(extra_tags={"team": "a"})
            volume = (await create(client)).volume_id
            taken = await take(client, "s", volume, parameters={"tagSpecification_1": "b=c"})
            assert (taken.source_volume_id, taken.size_bytes, taken.ready_to_use) == (volume, 10 * GIB, False)
            assert taken.creation_time.seconds > 0
            await asyncio.sleep(60)
            again = await take(client, "s", volume, parameters={"tagSpecification_1": "b=c"})
            assert (again.snapshot_id, again.ready_to_use) == (taken.snapshot_id, True)
            real = w.cloud.region.store.snapshots.records[taken.snapshot_id]
            assert (real.tags["team"], real.tags["b"]) == ("a", "c")

    run(story())


def test_the_name_on_another_volume_is_refused(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volumes = [(await create(client, name)).volume_id for name in ("pvc-1", "pvc-2")]
            await take(client, "s", volumes[0])
            assert await code_of(take(client, "s", volumes[1])) is Code.ALREADY_EXISTS

    run(story())


def test_a_snapshot_that_went_wrong_is_not_the_one_of_its_name(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            taken = await take(client, "s", volume)
            store = w.cloud.region.store
            store.put(replace(store.snapshots.records[taken.snapshot_id], state="error", due=0.0))
            await asyncio.sleep(60)
            with pytest.raises(CsiError, match=f"snapshot {taken.snapshot_id} .*went wrong") as refused:
                await take(client, "s", volume)
            assert refused.value.code is Code.INTERNAL

    run(story())


@pytest.mark.parametrize("lag", [0.0, 4.0])
@pytest.mark.parametrize("after", [False, True])
def test_a_snapshot_that_dies_anywhere_is_one_when_it_is_repeated(run, lag, after) -> None:
    async def story(number: int) -> bool:
        async with world(snapshots_lag_s=lag) as w:
            volume = (await create(w.client())).volume_id
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(api, lambda: take(w.client(api), "s", volume))
            taken = await take(w.client(), "s", volume)
            assert list(w.cloud.region.store.snapshots.records) == [taken.snapshot_id]
            return died

    assert not all(run(story(number)) for number in range(1, 8))


def test_a_deleted_snapshot_is_gone_and_its_name_free_though_descriptions_lag(run) -> None:
    async def story() -> None:
        async with world(snapshots_lag_s=4) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            first = (await take(client, "s", volume)).snapshot_id
            await asyncio.sleep(60)
            await drop(client, first)
            await drop(client, first)
            assert await shown(client) == await shown(client, snapshot_id=first) == []
            second = (await take(client, "s", volume)).snapshot_id
            assert second != first
            assert list(w.cloud.region.store.snapshots.records) == [second]

    run(story())


@pytest.mark.parametrize("snapshot", ["reallyfakesnapshotid", "snap-0123456789abcdef0"])
def test_a_snapshot_that_is_not_there_is_deleted_not_listed_and_not_found(run, snapshot) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            await drop(client, snapshot)
            assert await shown(client, snapshot_id=snapshot) == []
            request = csi.GetSnapshotRequest(snapshot_id=snapshot)
            assert await code_of(client.controller.get_snapshot(request, timeout_s=9)) is Code.NOT_FOUND

    run(story())


@pytest.mark.parametrize("volume", ["none", "vol-0123456789abcdef0"])
def test_a_volume_that_is_not_there_has_no_snapshots(run, volume) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            assert await code_of(take(client, "s", volume)) is Code.NOT_FOUND
            assert await shown(client, source_volume_id=volume) == []

    run(story())


def test_ec2s_limits_exhaust_it(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await take(client, "s1", volume)
            assert await code_of(take(client, "s2", volume)) is Code.RESOURCE_EXHAUSTED
            await asyncio.sleep(15)
            await take(client, "s2", volume)

    run(story())


def test_our_snapshots_are_listed_page_by_page_and_nobody_elses(run) -> None:
    async def story() -> None:
        async with world(public_snapshots=30, snapshot_interval_s=0) as w:
            client = w.client()
            volumes = [(await create(client, name)).volume_id for name in ("pvc-1", "pvc-2")]
            taken = [(await take(client, f"s{n}", volumes[n % 2])).snapshot_id for n in range(5)]
            await w.api.call("CreateSnapshot", {"VolumeId": volumes[0]})
            assert sorted(await shown(client)) == sorted(taken)
            assert sorted(await shown(client, source_volume_id=volumes[1])) == sorted(taken[1::2])
            assert await shown(client, snapshot_id=taken[3]) == [taken[3]]
            pages, token = [], ""
            while not pages or token:
                request = csi.ListSnapshotsRequest(max_entries=2, starting_token=token)
                reply = await client.controller.list_snapshots(request, timeout_s=9)
                pages.append([entry.snapshot.snapshot_id for entry in reply.entries])
                token = reply.next_token
            assert [len(page) for page in pages] == [2, 2, 1]
            assert sorted(id for page in pages for id in page) == sorted(taken)
            assert await code_of(shown(client, starting_token="none")) is Code.ABORTED

    run(story())


def test_a_snapshot_outlives_its_volume(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume = (await create(client)).volume_id
            taken = await take(client, "s", volume)
            await asyncio.sleep(60)
            await delete(client, volume)
            request = csi.GetSnapshotRequest(snapshot_id=taken.snapshot_id)
            found = (await client.controller.get_snapshot(request, timeout_s=9)).snapshot
            assert (found.source_volume_id, found.ready_to_use) == (volume, True)

    run(story())
