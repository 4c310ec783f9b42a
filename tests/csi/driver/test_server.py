"""A driver over gRPC, and a client of it."""

from __future__ import annotations

import asyncio
import socket as sockets
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from mooring.csi.client import Client, Exchange
from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.server import serving
from mooring.csi.driver.services import Driver
from mooring.csi.errors import Code, CsiError, EndpointError, NotConnected
from mooring.csi.proto import csi_pb2 as csi

from ..conftest import NotThere, PlayController


@pytest.fixture
def dispatcher(driver: Driver) -> Dispatcher:
    return Dispatcher(driver, [Path("/pods")])


async def name_at(address: str) -> str:
    async with Client(address) as client:
        return (await client.identity.get_plugin_info(csi.GetPluginInfoRequest(), timeout_s=10)).name


async def test_over_a_unix_socket_and_tcp_at_once(dispatcher: Dispatcher, socket: Path) -> None:
    async with serving(dispatcher, [f"unix://{socket}", "tcp://127.0.0.1:0"]) as addresses:
        assert [await name_at(address) for address in addresses] == ["play.example.com"] * 2
        assert socket.stat().st_mode & 0o777 == 0o600
    assert not socket.exists()


async def test_the_group_may_be_let_in(dispatcher: Dispatcher, socket: Path) -> None:
    async with serving(dispatcher, [f"unix://{socket}"], mode=0o660):
        assert socket.stat().st_mode & 0o777 == 0o660


async def test_a_stale_socket_is_replaced(dispatcher: Dispatcher, socket: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as left_over:
        left_over.bind(str(socket))
    async with serving(dispatcher, [f"unix://{socket}"]) as addresses:
        assert await name_at(addresses[0]) == "play.example.com"


async def test_a_live_socket_is_not(dispatcher: Dispatcher, driver: Driver, socket: Path) -> None:
    async with serving(dispatcher, [f"unix://{socket}"]) as addresses:
        with pytest.raises(EndpointError, match="another driver listens"):
            async with serving(Dispatcher(driver, []), addresses):
                pass
        assert await name_at(addresses[0]) == "play.example.com"


async def test_a_file_in_the_sockets_place_is_left_alone(dispatcher: Dispatcher, socket: Path) -> None:
    socket.write_text("precious")
    with pytest.raises(EndpointError, match="not a socket"):
        async with serving(dispatcher, [f"unix://{socket}"]):
            pass
    assert socket.read_text() == "precious"


async def test_a_port_that_is_taken_is_named(dispatcher: Dispatcher, driver: Driver) -> None:
    async with serving(dispatcher, ["tcp://127.0.0.1:0"]) as addresses:
        with pytest.raises(EndpointError, match="cannot be listened on"):
            async with serving(Dispatcher(driver, []), addresses):
                pass


async def test_an_error_keeps_its_code_and_words(
    dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest, socket: Path
) -> None:
    controller.failure = NotThere("kein Volumen «v1»")
    seen: list[Exchange] = []
    async with (
        serving(dispatcher, [f"unix://{socket}"]) as addresses,
        Client(addresses[0], [seen.append]) as client,
    ):
        with pytest.raises(CsiError) as caught:
            await client.controller.create_volume(create, timeout_s=10)
    assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, "kein Volumen «v1»")
    assert caught.value.method == "CreateVolume"
    assert [(exchange.path, str(exchange.code)) for exchange in seen] == [
        ("/csi.v1.Controller/CreateVolume", "NotFound")
    ]


async def test_a_client_finds_a_driver_that_comes_later_and_again(
    dispatcher: Dispatcher, socket: Path
) -> None:
    request = csi.GetPluginInfoRequest()
    async with Client(f"unix://{socket}") as client:

        async def until_it_answers() -> None:
            while True:
                try:
                    await client.identity.get_plugin_info(request, timeout_s=10)
                    return
                except NotConnected:
                    await asyncio.sleep(0.02)
                except CsiError as error:  # its connection to the driver before broke under the call
                    assert error.code is Code.UNAVAILABLE

        with pytest.raises(NotConnected, match="no driver answers at unix://"):
            await client.identity.get_plugin_info(request, timeout_s=10)
        for _ in range(2):
            async with serving(dispatcher, [f"unix://{socket}"], grace_s=0):
                await until_it_answers()


async def test_a_driver_that_is_too_busy_to_accept_is_waited_for_until_the_deadline(socket: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as busy:
        busy.bind(str(socket))
        busy.listen()
        async with Client(f"unix://{socket}") as client:
            with pytest.raises(NotConnected, match=r"not within 0\.3 s"):
                await client.identity.probe(csi.ProbeRequest(), timeout_s=0.3)


async def test_a_deadline_ends_the_call_and_the_stop_waits_for_the_operation(
    dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest, socket: Path
) -> None:
    controller.gate.clear()
    async with (
        serving(dispatcher, [f"unix://{socket}"], grace_s=0) as addresses,
        Client(addresses[0]) as client,
    ):
        with pytest.raises(CsiError) as caught:
            await client.controller.create_volume(create, timeout_s=0.2)
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert controller.done == []
        asyncio.get_running_loop().call_later(0.1, controller.gate.set)
    assert controller.done == ["v1"]


async def test_a_client_that_is_closed_ends_its_calls_and_not_their_callers(
    dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest, socket: Path
) -> None:
    controller.gate.clear()
    async with serving(dispatcher, [f"unix://{socket}"], grace_s=0) as addresses:
        client = Client(addresses[0])
        call = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=10))
        await controller.begun.wait()
        await client.close()
        with pytest.raises(CsiError) as caught:
            await call
        assert caught.value.code is Code.CANCELLED
        controller.gate.set()


async def test_a_caller_that_is_cancelled_is_cancelled(
    dispatcher: Dispatcher, controller: PlayController, create: csi.CreateVolumeRequest, socket: Path
) -> None:
    controller.gate.clear()
    async with (
        serving(dispatcher, [f"unix://{socket}"], grace_s=0) as addresses,
        Client(addresses[0]) as client,
    ):
        call = asyncio.ensure_future(client.controller.create_volume(create, timeout_s=10))
        await controller.begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        controller.gate.set()


@pytest.mark.parametrize("authority", ["/run/csi.sock", "run%2Fcsi.sock", "localhost"])
async def test_any_authority_that_clients_send_is_taken(
    dispatcher: Dispatcher, socket: Path, authority: str
) -> None:
    options = [("grpc.default_authority", authority)]
    async with (
        serving(dispatcher, [f"unix://{socket}"]),
        grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel,
    ):
        reply = await channel.unary_unary("/csi.v1.Identity/GetPluginInfo")(b"", timeout=10)
    assert csi.GetPluginInfoResponse.FromString(reply).name == "play.example.com"


async def test_bytes_that_are_no_message_and_methods_that_are_none(
    dispatcher: Dispatcher, socket: Path
) -> None:
    async with (
        serving(dispatcher, [f"unix://{socket}"]),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        codes: list[grpc.StatusCode] = []
        for path, body in (("/csi.v1.Identity/Probe", b"\xff\xff"), ("/csi.v1.Identity/Nothing", b"")):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(path)(body)
            codes.append(caught.value.code())
    assert codes == [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED]


async def test_a_request_of_more_than_4_MiB_is_refused(dispatcher: Dispatcher, socket: Path) -> None:
    async with serving(dispatcher, [f"unix://{socket}"]) as addresses, Client(addresses[0]) as client:
        with pytest.raises(CsiError) as caught:
            await client.controller.delete_volume(
                csi.DeleteVolumeRequest(volume_id="x" * 2**22), timeout_s=10
            )
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        await client.identity.probe(csi.ProbeRequest(), timeout_s=10)


async def test_health_and_reflection_are_served(dispatcher: Dispatcher, socket: Path) -> None:
    async with (
        serving(dispatcher, [f"unix://{socket}"]),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        health = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="csi.v1.Controller")
        )
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        question = reflection_pb2.ServerReflectionRequest(file_containing_symbol="csi.v1.Controller")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([question]))
        answers = [answer async for answer in call]
        assert answers[0].file_descriptor_response.file_descriptor_proto
