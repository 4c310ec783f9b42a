"""The controller dies before or after any of its calls, and another one goes on: from EC2's state alone."""

from __future__ import annotations

import asyncio

import pytest
from cloud_api import CloudInProcess, DyingApi, client_of, create, delete, publish, unpublish, world
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

LAGS = [0.0, 4.0]
MOST_CALLS = 12


def lagging(seconds: float) -> dict[str, float]:
    return {"volumes_lag_s": seconds, "instances_lag_s": seconds}


def no_device_is_given_twice(w: CloudInProcess) -> None:
    places = [(node, device) for volume in w.volumes() for node, device, _ in w.attached(volume)]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("zone_of_the_retry", ["us-east-1a", "us-east-1b"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("first_life_s", [0.0, 30.0])
def test_a_create_that_dies_anywhere_leads_to_one_volume(
    run, lag, zone_of_the_retry, after, first_life_s
) -> None:
    async def story(number: int) -> bool:
        async with world(seed=number, **lagging(lag)) as w:
            api = DyingApi(w.api, number, after)
            controller = w.controller(api)
            await asyncio.sleep(first_life_s)
            died = await w.until_dead(api, lambda: create(client_of(controller), "pvc-1", 10, "us-east-1a"))
            client = w.client()
            try:
                volume = await create(client, "pvc-1", 10, zone_of_the_retry)
            except CsiError as error:
                assert error.code is Code.ALREADY_EXISTS  # in the first zone, where it is no longer wanted
                assert zone_of_the_retry != "us-east-1a"
                assert len(w.named("pvc-1")) == 1
            else:
                assert w.named("pvc-1") == [volume.volume_id]
                assert (await create(client, "pvc-1", 10, zone_of_the_retry)).volume_id == volume.volume_id
            return died

    assert run(story(1))
    assert not all(run(story(number)) for number in range(2, MOST_CALLS))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("after", [False, True])
def test_a_create_from_a_snapshot_or_a_volume_that_dies_leads_to_one_volume(run, lag, after) -> None:
    async def story(number: int) -> bool:
        async with world(seed=number, **lagging(lag)) as w:
            client = w.client()
            source = csi.VolumeContentSource()
            source.volume.volume_id = (await create(client, "source")).volume_id
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(
                api, lambda: create(w.client(api), "copy", 20, volume_content_source=source)
            )
            made = await create(w.client(), "copy", 20, volume_content_source=source)
            assert w.named("copy") == [made.volume_id]
            assert (made.capacity_bytes, made.content_source) == (20 * GIB, source)
            return died

    assert not all(run(story(number)) for number in range(1, MOST_CALLS))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("after", [False, True])
def test_a_delete_that_dies_anywhere_leaves_nothing_when_it_is_repeated(run, lag, after) -> None:
    async def story(number: int) -> bool:
        async with world(seed=number, **lagging(lag)) as w:
            volume = (await create(w.client())).volume_id
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(api, lambda: delete(w.client(api), volume))
            client = w.client()
            await delete(client, volume)
            assert w.volumes() == {}
            again = await create(client)
            assert w.named("pvc-1") == [again.volume_id]
            return died

    assert run(story(1))
    assert not run(story(3))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["publish", "unpublish", "publish elsewhere"])
def test_a_publish_that_dies_anywhere_can_be_repeated_or_undone(run, lag, after, then) -> None:
    async def story(number: int) -> bool:
        async with world(seed=number, **lagging(lag)) as w:
            first, other = [(await create(w.client(), name)).volume_id for name in ("pvc-1", "pvc-2")]
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(api, lambda: publish(w.client(api), first, w.nodes[0]))
            client = w.client()
            repeat = publish if then == "publish" else unpublish
            await asyncio.gather(repeat(client, first, w.nodes[0]), publish(client, other, w.nodes[0]))
            if then == "publish elsewhere":
                device = await publish(client, first, w.nodes[1])
                assert w.attached(first) == [(w.nodes[1], device, "attached")]
            else:
                states = [state for _, _, state in w.attached(first)]
                assert states == (["attached"] if then == "publish" else [])
            no_device_is_given_twice(w)
            return died

    assert run(story(1))
    assert not all(run(story(number)) for number in range(2, MOST_CALLS))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["publish", "unpublish"])
def test_an_unpublish_that_dies_anywhere_can_be_repeated_or_undone(run, lag, after, then) -> None:
    async def story(number: int) -> bool:
        async with world(seed=number, **lagging(lag)) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await publish(client, volume, w.nodes[0])
            await asyncio.sleep(10)
            api = DyingApi(w.api, number, after)
            died = await w.until_dead(api, lambda: unpublish(w.client(api), volume, w.nodes[0]))
            await (publish if then == "publish" else unpublish)(w.client(), volume, w.nodes[0])
            states = [state for _, _, state in w.attached(volume)]
            assert states == (["attached"] if then == "publish" else [])
            return died

    assert run(story(1))
    assert not all(run(story(number)) for number in range(2, MOST_CALLS))


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 9.0)), min_size=2, max_size=6),
    st.sampled_from(LAGS),
    st.integers(0, 3),
)
@example([(False, 0.05), (True, 0.0), (False, 0.0)], 0.0, 0)  # the last comes while the first still ends
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_publish_and_unpublish_cancel_each_other_at_any_moment_and_the_last_one_counts(
    run, wishes, lag, seed
) -> None:
    async def story() -> None:
        async with world(seed=seed, **lagging(lag)) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            await asyncio.sleep(10)
            calls = []
            for wanted, pause_s in wishes:
                call = (
                    publish(client, volume, w.nodes[0]) if wanted else unpublish(client, volume, w.nodes[0])
                )
                calls.append(asyncio.ensure_future(call))
                await asyncio.sleep(pause_s)
            *earlier, last = await asyncio.gather(*calls, return_exceptions=True)
            assert all(
                isinstance(one, CsiError) and one.code is Code.ABORTED
                for one in earlier
                if isinstance(one, Exception)
            )
            if isinstance(last, CsiError):  # the same wish was still at work; the opposite one gives way
                assert last.code is Code.ABORTED
                assert [wanted for wanted, _ in wishes[-2:]] in ([True, True], [False, False])
                last = await (publish if wishes[-1][0] else unpublish)(client, volume, w.nodes[0])
            expected = [(w.nodes[0], last, "attached")] if wishes[-1][0] else []
            assert w.attached(volume) == expected

    run(story())


@given(st.lists(st.floats(0.0, 3.0), min_size=8, max_size=8), st.sampled_from(LAGS), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_controllers_at_once_never_give_one_name_twice(run, pauses, lag, batching) -> None:
    async def story() -> None:
        async with world(**lagging(lag)) as w:
            volumes = [(await create(w.client(), f"pvc-{number}")).volume_id for number in range(8)]
            await asyncio.sleep(10)
            clients = [w.client(batching=batching), w.client(batching=batching)]

            async def later(number: int) -> str:
                await asyncio.sleep(pauses[number])
                return await publish(clients[number % 2], volumes[number], w.nodes[0])

            devices = await asyncio.gather(*(later(number) for number in range(8)))
            assert [w.attached(volume) for volume in volumes] == [
                [(w.nodes[0], device, "attached")] for device in devices
            ]
            no_device_is_given_twice(w)

    run(story())


@given(st.floats(0.0, 6.0), st.sampled_from(LAGS), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_controllers_at_once_make_one_volume_for_one_name(run, pause_s, lag, with_zone) -> None:
    async def story() -> None:
        async with world(**lagging(lag)) as w:
            clients = [w.client(), w.client()]
            zones = ["us-east-1b"] if with_zone else []
            first = asyncio.ensure_future(create(clients[0], "pvc-1", 10, *zones))
            await asyncio.sleep(pause_s)
            second = await create(clients[1], "pvc-1", 10, *zones)
            assert w.named("pvc-1") == [(await first).volume_id] == [second.volume_id]

    run(story())


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("action", ["CreateVolume", "DeleteVolume", "AttachVolume", "DetachVolume"])
@pytest.mark.parametrize("after", [False, True])
def test_calls_whose_outcome_is_not_known_are_looked_into(run, lag, action, after) -> None:
    async def story() -> None:
        fault = {"action": action, "code": "InternalError", "after": after, "times": 2}
        async with world(**lagging(lag), faults=[fault]) as w:
            client = w.client()
            volume = (await create(client)).volume_id
            device = await publish(client, volume, w.nodes[0])
            assert w.attached(volume) == [(w.nodes[0], device, "attached")]
            await unpublish(client, volume, w.nodes[0])
            assert w.attached(volume) == []
            for _ in range(3):
                try:
                    await delete(client, volume)
                except CsiError as error:
                    assert error.code is Code.UNAVAILABLE
            assert w.volumes() == {}

    run(story())


STEP = st.tuples(
    st.sampled_from(["create", "publish", "unpublish", "delete", "restart", "wait"]),
    st.integers(0, 2),
    st.integers(0, 1),
    st.floats(0.0, 6.0),
)


@given(st.lists(STEP, max_size=14), st.sampled_from(LAGS), st.booleans())
@example(  # the detach has ended when it is still shown
    steps=[*(("create", 0, 0, pause_s) for pause_s in (3.0, 4.0, 5.0, 1.0, 0.73)), ("publish", 0, 1, 2.0)],
    lag=4.0,
    batching=False,
)
@example(  # the volume that the process before has deleted is still shown
    steps=[*(("create", 0, 0, pause_s) for pause_s in (2.0, 3.0, 3.0, 3.0)), ("delete", 0, 0, 1.0)],
    lag=4.0,
    batching=True,
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_story_with_restarts_what_is_wanted_last_comes_true(run, steps, lag, batching) -> None:
    async def settled(client, name: str, node: str) -> None:
        """As an orchestrator does it: create, detach from everywhere else, attach."""
        volume = (await create(client, name)).volume_id
        await unpublish(client, volume, "")
        await publish(client, volume, node)

    async def story() -> None:
        async with world(**lagging(lag)) as w:
            api = DyingApi(w.api, 10**9, False)
            client, tasks, ids = w.client(api, batching=batching), [], {}

            async def act(client, kind: str, name: str, node: str) -> None:
                if kind == "create":
                    ids[name] = (await create(client, name)).volume_id
                elif name in ids and kind == "publish":
                    await publish(client, ids[name], node)
                elif name in ids and kind == "unpublish":
                    await unpublish(client, ids[name], node)
                elif name in ids and kind == "delete":
                    await delete(client, ids[name])

            for kind, number, node, pause_s in steps:
                if kind == "restart":
                    api.kill()
                    api = DyingApi(w.api, 10**9, False)
                    client = w.client(api, batching=batching)
                elif kind != "wait":
                    tasks.append(asyncio.ensure_future(act(client, kind, f"pvc-{number}", w.nodes[node])))
                await asyncio.sleep(pause_s)
            api.kill()
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            last = w.client(batching=batching)
            await asyncio.gather(
                *(settled(last, f"pvc-{number}", w.nodes[number % 2]) for number in range(3))
            )
            for number in range(3):
                (volume,) = w.named(f"pvc-{number}")
                ((node, _, state),) = w.attached(volume)
                assert (node, state) == (w.nodes[number % 2], "attached")
            no_device_is_given_twice(w)

    run(story())
