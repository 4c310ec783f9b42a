"""From a request to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest
from csi_answers import code_of
from structlog.testing import capture_logs

from mooring.csi.client import Client, Exchange
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.progress import due_in, is_overdue, waits_for, while_it_waits
from mooring.csi.driver.rules import IN_FLIGHT
from mooring.csi.driver.services import ControllerCapability, ControllerService, Driver
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

from ..conftest import NotThere, PlayController, PlayNode


@pytest.fixture
def seen() -> list[Exchange]:
    return []


@pytest.fixture
def dispatcher(driver: Driver, seen: list[Exchange]) -> Dispatcher:
    return Dispatcher(driver, [Path("/pods")], [seen.append])


@pytest.fixture
def client(dispatcher: Dispatcher) -> Client:
    return Client(LocalChannel(dispatcher))


async def test_a_request_reaches_the_driver_and_its_answer_comes_back(
    client: Client, create: csi.CreateVolumeRequest
) -> None:
    reply = await client.controller.create_volume(create, timeout_s=5)
    assert reply.volume.volume_id == "v1"


async def test_the_base_answers_for_name_and_capabilities(client: Client) -> None:
    info = await client.identity.get_plugin_info(csi.GetPluginInfoRequest(), timeout_s=5)
    found = await client.controller.controller_get_capabilities(
        csi.ControllerGetCapabilitiesRequest(), timeout_s=5
    )
    probe = await client.identity.probe(csi.ProbeRequest(), timeout_s=5)
    assert (info.name, info.vendor_version, probe.ready.value) == ("play.example.com", "1.2.3", True)
    assert [capability.rpc.type for capability in found.capabilities] == list(PlayController.capabilities)


async def test_what_no_capability_promises_is_not_implemented(client: Client) -> None:
    request = csi.ListVolumesRequest()
    assert await code_of(client.controller.list_volumes(request, timeout_s=5)) is Code.UNIMPLEMENTED


def test_a_promise_without_its_methods_is_refused_at_the_start() -> None:
    class Boaster(ControllerService):
        capabilities = (ControllerCapability.LIST_VOLUMES,)

    with pytest.raises(TypeError, match="ListVolumes"):
        Driver(name="boaster.example.com", version="1", controller=Boaster())


async def test_an_invalid_request_does_not_reach_the_driver(
    client: Client, controller: PlayController
) -> None:
    call = client.controller.create_volume(csi.CreateVolumeRequest(), timeout_s=5)
    assert await code_of(call) is Code.INVALID_ARGUMENT
    assert controller.asked == []


async def test_a_path_elsewhere_does_not_reach_the_driver(client: Client, node: PlayNode) -> None:
    request = csi.NodeUnpublishVolumeRequest(volume_id="v1", target_path="/etc")
    assert await code_of(client.node.node_unpublish_volume(request, timeout_s=5)) is Code.INVALID_ARGUMENT


async def test_the_drivers_own_exceptions_have_codes_and_others_are_internal(
    client: Client, controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    codes: list[Code] = []
    for controller.failure in (NotThere("no"), CsiError(Code.OUT_OF_RANGE, "too large"), ValueError("bug")):
        codes.append(await code_of(client.controller.create_volume(create, timeout_s=5)))
    assert codes == [Code.NOT_FOUND, Code.OUT_OF_RANGE, Code.INTERNAL]


async def test_a_second_operation_on_the_same_object_is_aborted_and_one_on_another_goes_on(
    client: Client, controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    controller.gate.clear()
    first = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=5))
    await asyncio.sleep(0)
    assert await code_of(client.controller.create_volume(create, timeout_s=5)) is Code.ABORTED
    other = csi.CreateVolumeRequest()
    other.CopyFrom(create)
    other.name = "v2"
    second = asyncio.ensure_future(client.controller.create_volume(other, timeout_s=5))
    controller.gate.set()
    await asyncio.gather(first, second)
    assert controller.done == ["v1", "v2"]


async def test_a_volume_is_published_at_two_paths_at_once_but_not_while_it_is_staged(
    client: Client, node: PlayNode, capability: csi.VolumeCapability
) -> None:
    def publish(path: str) -> asyncio.Future[object]:
        request = csi.NodePublishVolumeRequest(volume_id="v1", target_path=path, volume_capability=capability)
        return asyncio.ensure_future(client.node.node_publish_volume(request, timeout_s=5))

    node.gate.clear()
    stage = csi.NodeStageVolumeRequest(
        volume_id="v1", staging_target_path="/pods/s", volume_capability=capability
    )
    staging = asyncio.ensure_future(client.node.node_stage_volume(stage, timeout_s=5))
    await asyncio.sleep(0)
    assert await code_of(publish("/pods/a")) is Code.ABORTED
    node.gate.set()
    await staging
    node.gate.clear()
    both = [publish("/pods/a"), publish("/pods/b")]
    await asyncio.sleep(0)
    assert await code_of(publish("/pods/a")) is Code.ABORTED
    assert await code_of(client.node.node_stage_volume(stage, timeout_s=5)) is Code.ABORTED
    node.gate.set()
    await asyncio.gather(*both)
    assert node.published == ["/pods/a", "/pods/b"]


async def test_who_asks_again_is_told_what_the_operation_waits_for(
    driver: Driver, capability: csi.VolumeCapability
) -> None:
    gate = asyncio.Event()

    class Waiting(PlayController):
        async def controller_publish_volume(
            self, request: csi.ControllerPublishVolumeRequest
        ) -> csi.ControllerPublishVolumeResponse:
            waits_for("the robot looks for the tape")
            await gate.wait()
            return csi.ControllerPublishVolumeResponse()

    client = Client(LocalChannel(Dispatcher(replace(driver, controller=Waiting()), [])))
    request = csi.ControllerPublishVolumeRequest(volume_id="v1", node_id="n1", volume_capability=capability)
    publishing = asyncio.ensure_future(client.controller.controller_publish_volume(request, timeout_s=5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(CsiError, match=r"for v1 \(the robot looks for the tape\): try again"):
        await client.controller.controller_publish_volume(request, timeout_s=5)
    gate.set()
    await publishing
    waits_for("nobody")


async def test_an_operation_knows_when_its_caller_does_not_wait_any_longer(
    driver: Driver, create: csi.CreateVolumeRequest
) -> None:
    gate, overdue = asyncio.Event(), list[bool]()

    class Slow(PlayController):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            overdue.append(is_overdue())
            await gate.wait()
            overdue.append(is_overdue())
            return csi.CreateVolumeResponse()

    dispatcher = Dispatcher(replace(driver, controller=Slow()), [])
    client = Client(LocalChannel(dispatcher))
    assert await code_of(client.controller.create_volume(create, timeout_s=0.01)) is Code.DEADLINE_EXCEEDED
    gate.set()
    await dispatcher.finish()
    assert overdue == [False, True]
    assert not is_overdue()


async def test_what_is_done_while_the_caller_waits_ends_when_it_does_not() -> None:
    began: list[float] = []

    async def queued(seconds: float) -> None:
        async with while_it_waits():
            began.append(seconds)
            await asyncio.sleep(seconds)

    await queued(0.01)
    with due_in(0.02):
        await queued(0.0)
        for seconds in (60.0, 0.0):
            with pytest.raises(TimeoutError):
                await queued(seconds)
    assert began == [0.01, 0.0, 60.0]


async def test_what_became_of_an_operation_whose_caller_went_away_is_in_the_log(
    client: Client, dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    controller.gate.clear()
    controller.failure = NotThere("the disk is gone")
    with capture_logs() as lines:
        creating = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=30))
        await controller.begun.wait()
        creating.cancel()
        await asyncio.wait({creating})
        controller.gate.set()
        await dispatcher.finish()
        await asyncio.sleep(0)
    assert [(line["method"], line["of"], "the disk is gone" in line["error"]) for line in lines] == [
        ("CreateVolume", "v1", True)
    ]


async def test_an_operation_gives_way_to_another_method_where_the_driver_says_so(
    driver: Driver, controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    yielding = replace(
        driver,
        in_flight={**IN_FLIGHT, "DeleteVolume": ("volume_id",)},
        gives_way={"CreateVolume": ["DeleteVolume"]},
    )
    client = Client(LocalChannel(Dispatcher(yielding, [Path("/pods")])))
    controller.gate.clear()
    creating = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=5))
    await controller.begun.wait()
    await client.controller.delete_volume(csi.DeleteVolumeRequest(volume_id="v1"), timeout_s=5)
    assert await code_of(creating) is Code.ABORTED
    assert (controller.asked, controller.done) == (["v1", "v1"], [])
    controller.gate.set()
    await client.controller.create_volume(create, timeout_s=5)


async def test_of_operations_that_give_way_to_each_other_the_last_one_counts_also_while_one_winds_up(
    driver: Driver, capability: csi.VolumeCapability
) -> None:
    began: list[str] = []
    done: list[str] = []
    working, ended = asyncio.Event(), asyncio.Event()

    class Thorough(PlayController):
        async def controller_publish_volume(
            self, request: csi.ControllerPublishVolumeRequest
        ) -> csi.ControllerPublishVolumeResponse:
            began.append("publish")
            done.append("publish")
            return csi.ControllerPublishVolumeResponse()

        async def controller_unpublish_volume(
            self, request: csi.ControllerUnpublishVolumeRequest
        ) -> csi.ControllerUnpublishVolumeResponse:
            began.append("unpublish")
            if len(began) == 1:
                try:
                    working.set()
                    await asyncio.Event().wait()
                finally:
                    await ended.wait()
            done.append("unpublish")
            return csi.ControllerUnpublishVolumeResponse()

    gives_way = {
        "ControllerPublishVolume": ["ControllerUnpublishVolume"],
        "ControllerUnpublishVolume": ["ControllerPublishVolume"],
    }
    client = Client(LocalChannel(Dispatcher(replace(driver, controller=Thorough(), gives_way=gives_way), [])))
    there = csi.ControllerPublishVolumeRequest(volume_id="v1", node_id="n1", volume_capability=capability)
    gone = csi.ControllerUnpublishVolumeRequest(volume_id="v1", node_id="n1")
    first = asyncio.ensure_future(client.controller.controller_unpublish_volume(gone, timeout_s=5))
    await working.wait()
    second = asyncio.ensure_future(client.controller.controller_publish_volume(there, timeout_s=5))
    await asyncio.sleep(0.01)
    third = asyncio.ensure_future(client.controller.controller_unpublish_volume(gone, timeout_s=5))
    await asyncio.sleep(0.01)
    again = client.controller.controller_unpublish_volume(gone, timeout_s=5)
    assert await code_of(again) is Code.ABORTED
    ended.set()
    assert [await code_of(call) for call in (first, second)] == [Code.ABORTED, Code.ABORTED]
    await third
    assert (began, done) == (["unpublish", "unpublish"], ["unpublish"])


async def test_a_node_of_its_own_is_an_object_of_its_own_if_the_driver_says_so(
    driver: Driver, capability: csi.VolumeCapability
) -> None:
    gate, held = asyncio.Event(), asyncio.Event()

    class Slow(PlayController):
        async def controller_publish_volume(
            self, request: csi.ControllerPublishVolumeRequest
        ) -> csi.ControllerPublishVolumeResponse:
            held.set()
            await gate.wait()
            return csi.ControllerPublishVolumeResponse()

    fields = ("volume_id", "node_id")
    keys = {**IN_FLIGHT, "ControllerPublishVolume": fields, "ControllerUnpublishVolume": fields}
    client = Client(LocalChannel(Dispatcher(replace(driver, controller=Slow(), in_flight=keys), [])))
    request = csi.ControllerPublishVolumeRequest(volume_id="v1", node_id="n1", volume_capability=capability)
    publishing = asyncio.ensure_future(client.controller.controller_publish_volume(request, timeout_s=5))
    await held.wait()

    def unpublish(node: str) -> Awaitable[object]:
        there = csi.ControllerUnpublishVolumeRequest(volume_id="v1", node_id=node)
        return client.controller.controller_unpublish_volume(there, timeout_s=5)

    await unpublish("n2")
    for everywhere in ("n1", ""):
        assert await code_of(unpublish(everywhere)) is Code.ABORTED
    gate.set()
    await publishing


async def test_a_deadline_ends_the_call_and_not_the_operation(
    client: Client, dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    controller.gate.clear()
    assert await code_of(client.controller.create_volume(create, timeout_s=0.5)) is Code.DEADLINE_EXCEEDED
    assert await code_of(client.controller.create_volume(create, timeout_s=5)) is Code.ABORTED
    controller.gate.set()
    await dispatcher.finish()
    assert controller.done == ["v1"]
    await client.controller.create_volume(create, timeout_s=5)
    assert controller.asked == ["v1", "v1"]


@pytest.mark.parametrize("failure", [None, ValueError("bug")])
async def test_a_caller_may_go_away_at_every_step_and_the_object_is_free_again(
    client: Client,
    dispatcher: Dispatcher,
    controller: PlayController,
    create: csi.CreateVolumeRequest,
    failure: Exception | None,
) -> None:
    controller.failure = failure
    for steps in range(8):
        call = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=5))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        await dispatcher.finish()
    controller.failure = None
    assert (await client.controller.create_volume(create, timeout_s=5)).volume.volume_id


async def test_observers_see_every_call_without_secrets(
    client: Client, seen: list[Exchange], controller: PlayController, create: csi.CreateVolumeRequest
) -> None:
    await client.controller.create_volume(create, timeout_s=5)
    controller.failure = NotThere("gone")
    await code_of(client.controller.create_volume(create, timeout_s=5))
    assert [(exchange.method, exchange.code) for exchange in seen] == [
        ("CreateVolume", Code.OK),
        ("CreateVolume", Code.NOT_FOUND),
    ]
    assert "hunter2" not in repr([exchange.request() for exchange in seen])
    assert "hunter2" not in repr(seen)
    assert seen[1].message == "gone"
    assert seen[0].reply() == {"volume": {"volume_id": "v1"}}
