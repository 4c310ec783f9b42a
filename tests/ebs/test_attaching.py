"""Attaching and detaching, against a cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from cloud_api import LateApi, capability, create, create_request, publish, unpublish, world

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.attaching import Step, next_step
from mooring.ebs.controller_service.device_names import NAMES
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.records import Attachment, Volume
from mooring.ebs.errors import Ec2Error


async def refusal(call) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


def volume(*attachments: Attachment, state: str = "in-use", **more) -> Volume:
    return Volume("vol-1", state, 10, "gp3", "us-east-1a", attachments=attachments, **more)


def at(node: str, state: str, device: str = "/dev/xvdaa") -> Attachment:
    return Attachment(node, device, state, datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("shown", "mine", "proven", "attaching_s", "step"),
    [
        (volume(state="available"), "", False, 0, Step.ATTACH),
        (volume(state="creating"), "", True, 0, Step.WAIT),
        (volume(state="available"), "/dev/xvdaa", False, 0, Step.WAIT),
        (volume(state="available"), "/dev/xvdaa", True, 0, Step.ATTACH),
        (volume(at("i-1", "attached")), "", False, 0, Step.WAIT),
        (volume(at("i-1", "attached")), "", True, 0, Step.DONE),
        (volume(at("i-1", "attached")), "/dev/sdaa", False, 0, Step.DONE),
        (volume(at("i-1", "attached")), "/dev/xvdab", False, 0, Step.WAIT),
        (volume(at("i-1", "attaching")), "", True, 89, Step.WAIT),
        (volume(at("i-1", "attaching")), "", True, 91, Step.GIVE_UP),
        (volume(at("i-1", "detaching")), "", True, 0, Step.WAIT),
        (volume(at("i-1", "busy")), "", True, 0, Step.WAIT),
        (volume(at("i-1", "a state of the future")), "", True, 0, Step.WAIT),
        (volume(at("i-2", "attached")), "", False, 0, Step.WAIT),
        (volume(at("i-2", "attached"), multi_attach=True), "", True, 0, Step.ATTACH),
    ],
)
def test_the_next_step_follows_from_what_ec2_shows(shown, mine, proven, attaching_s, step) -> None:
    assert next_step(shown, "i-1", mine, proven, attaching_s, True) is step


def test_what_a_detach_without_an_answer_may_still_end_is_not_attached_yet() -> None:
    shown = volume(at("i-1", "attached"))
    assert next_step(shown, "i-1", "/dev/xvdaa", False, 0, False) is Step.WAIT
    assert next_step(shown, "i-1", "/dev/xvdaa", True, 0, False) is Step.DONE


def test_a_volume_is_attached_and_detached(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            device = await publish(client, made, w.nodes[0])
            assert w.attached(made) == [(w.nodes[0], device, "attached")]
            assert await publish(client, made, w.nodes[0]) == device
            await unpublish(client, made, w.nodes[0])
            assert w.attached(made) == []
            await unpublish(client, made, w.nodes[0])
            assert w.api.count()["AttachVolume"] == 1

    run(story())


def test_a_volume_that_is_attached_elsewhere_is_refused_and_the_place_is_named(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            await publish(client, made, w.nodes[0])
            error = await refusal(publish(client, made, w.nodes[1]))
            assert error.code is Code.FAILED_PRECONDITION
            assert w.nodes[0] in error.message
            assert [node for node, _, _ in w.attached(made)] == [w.nodes[0]]

    run(story())


@pytest.mark.parametrize(
    ("volume_id", "node"),
    [
        ("fake-vol-id", None),
        ("vol-0123456789abcdef0", None),
        (None, "fake-node-id"),
        (None, "i-0123456789abcdef0"),
    ],
)
def test_what_is_not_there_is_not_found_to_attach_and_fine_to_detach(run, volume_id, node) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            volume, at = volume_id or (await create(client)).volume_id, node or w.nodes[0]
            assert (await refusal(publish(client, volume, at))).code is Code.NOT_FOUND
            await unpublish(client, volume, at)

    run(story())


def test_an_empty_node_detaches_from_all_nodes(run) -> None:
    async def story() -> None:
        async with world(instance_type="m5.large") as w:
            client = w.client()
            block = capability(block=True, mode=AccessMode.MULTI_NODE_MULTI_WRITER)
            request = create_request(volume_capabilities=[block], parameters={"type": "io2", "iops": "100"})
            made = (await client.controller.create_volume(request, timeout_s=99)).volume.volume_id
            for node in w.nodes:
                await publish(client, made, node, volume_capability=block)
            assert len(w.attached(made)) == 2
            await unpublish(client, made, "")
            assert w.attached(made) == []

    run(story())


def test_a_publish_waits_for_a_detach_that_is_under_way_and_attaches_then(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            await publish(client, made, w.nodes[0])
            await w.api.call("DetachVolume", {"VolumeId": made})
            device = await publish(client, made, w.nodes[0])
            assert w.attached(made) == [(w.nodes[0], device, "attached")]

    run(story())


def test_a_busy_detach_is_waited_for_without_force_beyond_the_callers_deadline(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            await publish(client, made, w.nodes[0])
            w.cloud.configure({"stuck_detach": [made], "stuck_s": 300})
            assert (
                await refusal(unpublish(client, made, w.nodes[0], timeout_s=60))
            ).code is Code.DEADLINE_EXCEEDED
            error = await refusal(unpublish(client, made, w.nodes[0], timeout_s=60))
            assert error.code is Code.ABORTED
            assert f"as busy on {w.nodes[0]} as /dev/xvd" in error.message
            await asyncio.sleep(400)
            assert w.attached(made) == []
            assert [request for _, action, request in w.api.calls if action == "DetachVolume"] == [
                {"VolumeId": made, "InstanceId": w.nodes[0]}
            ]

    run(story())


def test_an_unpublish_of_an_attaching_volume_detaches_at_once(run) -> None:
    async def story() -> None:
        async with world(attaching_s=[1000, 1000]) as w:
            client = w.client()
            made = (await create(client)).volume_id
            await refusal(publish(client, made, w.nodes[0], timeout_s=5))
            began = asyncio.get_running_loop().time()
            await unpublish(client, made, w.nodes[0])
            assert w.attached(made) == []
            assert asyncio.get_running_loop().time() - began < 15

    run(story())


def test_an_attachment_that_is_stuck_is_undone_and_the_next_try_has_another_name(run) -> None:
    async def story() -> None:
        async with world(burned_devices=list(NAMES)) as w:
            client = w.client()
            made = (await create(client)).volume_id
            error = await refusal(publish(client, made, w.nodes[0]))
            assert error.code is Code.INTERNAL
            burned = next(name for name in NAMES if f" {name} " in error.message)
            w.cloud.configure({"burned_devices": [burned]})
            device = await publish(client, made, w.nodes[0])
            assert w.attached(made) == [(w.nodes[0], device, "attached")]
            assert device != burned

    run(story())


TAKEN = [name for place, name in enumerate(NAMES) if place % 4]
"""So many that the driver, which begins at a place by chance, meets some of them."""


def test_a_name_that_the_image_has_taken_is_passed_over_in_the_same_call(run) -> None:
    async def story() -> None:
        async with world(hidden_devices=TAKEN) as w:
            client = w.client()
            made = (await create(client)).volume_id
            assert await publish(client, made, w.nodes[0]) not in TAKEN

    run(story())


class OtherWords(Ec2Api):
    """An EC2 that says in another way that a device name is taken: with a code of its own."""

    def __init__(self, api: Ec2Api) -> None:
        self._api = api

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._api.call(action, request)
        except Ec2Error as error:
            if "already in use" in error.message:
                raise Ec2Error("InvalidDevice.InUse", "the device is taken") from error
            raise


def test_a_name_that_is_taken_may_be_told_with_a_code_of_its_own(run) -> None:
    async def story() -> None:
        async with world(hidden_devices=TAKEN) as w:
            client = w.client(OtherWords(w.api))
            made = (await create(client)).volume_id
            assert await publish(client, made, w.nodes[0]) not in TAKEN

    run(story())


def test_more_volumes_than_an_instance_takes_exhaust_it(run) -> None:
    async def story() -> None:
        async with world(nodes=1, throttling=False) as w:
            client = w.client()
            made = await asyncio.gather(*(create(client, f"pvc-{number}") for number in range(30)))
            results = await asyncio.gather(
                *(publish(client, one.volume_id, w.nodes[0]) for one in made), return_exceptions=True
            )
            refused = [one for one in results if isinstance(one, CsiError)]
            assert {one.code for one in refused} == {Code.RESOURCE_EXHAUSTED}
            devices = [one for one in results if isinstance(one, str)]
            assert len(devices) == len(set(devices)) == 30 - len(refused) > 20

    run(story())


def test_a_volume_of_another_zone_is_a_failed_precondition(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client, "pvc-1", 10, "us-east-1b")).volume_id
            assert (await refusal(publish(client, made, w.nodes[0]))).code is Code.FAILED_PRECONDITION

    run(story())


def test_an_attach_to_a_terminated_instance_is_not_found_and_its_volume_can_be_detached(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made, other = [(await create(client, name)).volume_id for name in ("pvc-1", "pvc-2")]
            await publish(client, made, w.nodes[0])
            await w.api.call("TerminateInstances", {"InstanceIds": [w.nodes[0]]})
            await asyncio.sleep(60)
            assert (await refusal(publish(client, other, w.nodes[0]))).code is Code.NOT_FOUND
            await unpublish(client, made, w.nodes[0])
            device = await publish(client, made, w.nodes[1])
            assert w.attached(made) == [(w.nodes[1], device, "attached")]

    run(story())


def test_volumes_are_spread_over_an_instances_cards(run) -> None:
    async def story() -> None:
        two_cards = "r8gb.48xlarge"
        async with world(nodes=1, instance_type=two_cards) as w:
            client = w.client()
            made = await asyncio.gather(*(create(client, f"pvc-{number}") for number in range(4)))
            await asyncio.gather(*(publish(client, one.volume_id, w.nodes[0]) for one in made))
            cards = [one.attachments[0].card for one in w.volumes().values()]
            assert sorted(cards) in ([0, 0, 1, 1], [0, 1, 1, 1])  # the root device may count, too

    run(story())


def test_a_volume_whose_class_asks_for_it_is_attached_only_when_all_data_is_there(run) -> None:
    async def story() -> None:
        async with world(initializing_s=[300, 300]) as w:
            client = w.client()
            source = (await create(client)).volume_id
            request = create_request("copy", 10, parameters={"blockAttachUntilInitialized": "true"})
            request.volume_content_source.volume.volume_id = source
            made = (await client.controller.create_volume(request, timeout_s=99)).volume
            began = asyncio.get_running_loop().time()
            await publish(client, made.volume_id, w.nodes[0], volume_context=made.volume_context)
            assert asyncio.get_running_loop().time() - began > 290

    run(story())


def test_readonly_and_file_systems_of_several_writers_are_refused(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client()
            made = (await create(client)).volume_id
            shared = capability(mode=AccessMode.MULTI_NODE_MULTI_WRITER)
            for wrong in ({"readonly": True}, {"volume_capability": shared}):
                assert (
                    await refusal(publish(client, made, w.nodes[0], **wrong))
                ).code is Code.INVALID_ARGUMENT

    run(story())


def test_a_volume_that_has_just_been_detached_can_be_attached_elsewhere_though_descriptions_lag(run) -> None:
    async def story(seed: int) -> None:
        async with world(seed=seed, volumes_lag_s=4.5, instances_lag_s=4.5, detaching_s=[4, 4]) as w:
            client = w.client()
            made = (await create(client)).volume_id
            for node in (*w.nodes, *w.nodes):
                device = await publish(client, made, node)
                assert w.attached(made) == [(node, device, "attached")]
                await unpublish(client, made, node)
                assert w.attached(made) == []

    for seed in range(30):
        run(story(seed))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_detach_that_was_not_answered_may_still_end_what_is_attached_since(run, restarted: bool) -> None:
    """EC2 shows that the volume is detached, which is answered; what is attached to the same node since is
    there to stay only when EC2 cannot carry out the lost request any more. Found by the simulation."""

    async def story() -> None:
        async with world(attaching_s=[0.3, 0.3]) as w:
            late = LateApi(w.api, "DetachVolume", 4.5)
            client, node = w.client(late), w.nodes[0]
            made = (await create(client)).volume_id
            await publish(client, made, node)
            await w.api.call("DetachVolume", {"VolumeId": made})
            await asyncio.sleep(20)
            await unpublish(client, made, node)
            assert late.late is not None and not late.late.done()
            device = await publish(w.client() if restarted else client, made, node)
            await asyncio.sleep(20)
            assert w.attached(made) == [(node, device, "attached")]

    run(story())


def test_a_detach_that_was_not_answered_keeps_no_other_node_waiting(run) -> None:
    async def story() -> None:
        async with world(attaching_s=[0.3, 0.3]) as w:
            client = w.client(LateApi(w.api, "DetachVolume", 4.5))
            made = (await create(client)).volume_id
            await publish(client, made, w.nodes[0])
            await asyncio.sleep(20)
            await unpublish(client, made, w.nodes[0])
            began = asyncio.get_running_loop().time()
            await publish(client, made, w.nodes[1])
            assert asyncio.get_running_loop().time() - began < 3

    run(story())
