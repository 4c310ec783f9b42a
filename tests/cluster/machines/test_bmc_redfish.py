"""A machine's Redfish service: documents, resets, sessions, and requests that are none."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import ClientError, ClientSession
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence, Verb
from mooring.cluster.machines.bmc.redfish import BODY, PENDING, SESSIONS, Service

UUID_1 = UUID("39a61785-2fe6-4abe-9ddf-0f067bf9669d")
SYSTEM = "/redfish/v1/Systems/node-1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
LOGINS = "/redfish/v1/SessionService/Sessions"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


AUTH = basic("mooring", "secret")


class World:
    """A service, and a client that knows the password."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.power = "on"
        self.failure: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        service = Service("node-1", UUID_1, "secret", self._ask)
        self.server = TestServer(service.application())

    async def _ask(self, device: Device, machine: str, verb: Verb) -> str:
        self.asked.append(f"{device} {machine} {verb}")
        await self.hold.wait()
        if self.failure is not None:
            raise self.failure
        return self.power if verb is Verb.POWER else "done"

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        return await self.request("GET", path, **options)

    async def reset(self, body: Any) -> tuple[int, Any]:
        return await self.request("POST", RESET, json=body)

    async def request(
        self, method: str, path: str, *, auth: str | None = AUTH, **options: Any
    ) -> tuple[int, Any]:
        headers = {**({"Authorization": auth} if auth else {}), **options.pop("headers", {})}
        url = self.server.make_url(path)
        async with (
            ClientSession() as client,
            client.request(method, url, headers=headers, **options) as reply,
        ):
            text = await reply.text()
            return reply.status, json.loads(text) if text else None

    @property
    def orders(self) -> list[str]:
        return [asked for asked in self.asked if not asked.endswith("power")]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.server:
        yield world


async def test_a_client_finds_the_system_from_the_root(world: World):
    for root in ("/redfish/v1", "/redfish/v1/"):
        _, document = await world.get(root, auth=None)
        _, systems = await world.get(document["Systems"]["@odata.id"])
        (member,) = systems["Members"]
        assert member["@odata.id"] == SYSTEM
    _, system = await world.get(SYSTEM)
    assert (system["UUID"], system["PowerState"], system["Id"]) == (str(UUID_1), "On", "node-1")


@pytest.mark.parametrize(
    "path", ["Managers/BMC", "Chassis/node-1", "SessionService", "Systems", "Managers", "Chassis"]
)
async def test_every_document_that_is_linked_is_there_and_says_where_it_is(world: World, path: str):
    status, document = await world.get(f"/redfish/v1/{path}")
    assert status == 200
    assert document["@odata.id"] == f"/redfish/v1/{path}"
    for link in linked(document):
        assert (await world.get(link))[0] == 200, link


def linked(document: Any) -> list[str]:
    if isinstance(document, dict):
        here = [document["@odata.id"]] if "@odata.id" in document else []
        return here + [link for value in document.values() for link in linked(value)]
    return [link for each in document for link in linked(each)] if isinstance(document, list) else []


async def test_the_power_state_is_looked_up_each_time(world: World):
    world.power = "off"
    assert (await world.get(SYSTEM))[1]["PowerState"] == "Off"
    assert (await world.get("/redfish/v1/Chassis/node-1"))[1]["PowerState"] == "Off"
    world.power = "on"
    assert (await world.get(SYSTEM))[1]["PowerState"] == "On"


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("On", "on"),
        ("ForceOn", "on"),
        ("ForceOff", "off"),
        ("GracefulShutdown", "button"),
        ("ForceRestart", "reset"),
        ("PowerCycle", "reset"),
        ("PushPowerButton", "button"),
    ],
)
async def test_a_reset_is_an_order_to_the_machine(world: World, kind: str, order: str):
    assert (
        kind
        in (await world.get(SYSTEM))[1]["Actions"]["#ComputerSystem.Reset"][
            "ResetType@Redfish.AllowableValues"
        ]
    )
    assert await world.reset({"ResetType": kind}) == (204, None)
    assert world.orders == [f"bmc node-1 {order}"]


async def test_the_button_switches_on_what_is_off(world: World):
    world.power = "off"
    await world.reset({"ResetType": "PushPowerButton"})
    assert world.orders == ["bmc node-1 on"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"ForceOff",
        b'"ForceOff"',
        b'{"ResetType": null}',
        b'{"ResetType": 1}',
        b'{"ResetType": ["ForceOff"]}',
        b'{"ResetType": "forceoff"}',
        b'{"ResetType": "Nmi"}',
        b'{"ResetType": "ForceOff"',
        b'{"resettype": "ForceOff"}',
        b"[" * 8000,
        b'{"ResetType": "\xff"}',
        b'{"ResetType": "' + b"x" * 8000 + b'"}',
    ],
)
async def test_a_wrong_body_is_refused_in_redfishs_words_and_does_nothing(world: World, body: bytes):
    status, answer = await world.request("POST", RESET, data=body)
    assert status == 400
    assert len(answer["error"]["@Message.ExtendedInfo"][0]["Message"]) < 500
    assert world.orders == []


async def test_a_body_that_is_too_long_is_not_read(world: World):
    status, answer = await world.request(
        "POST", RESET, data=b'{"ResetType": "On", "x": "' + b"x" * BODY + b'"}'
    )
    assert (status, "error" in answer) == (413, True)
    assert world.orders == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.recursive(st.none() | st.text(), st.lists).map(lambda x: json.dumps(x).encode()),
    )
)
def test_any_body_is_answered_and_none_of_them_is_an_order(body: bytes):
    async def story() -> tuple[int, list[str]]:
        world = World()
        async with world.server:
            status, _ = await world.request("POST", RESET, data=body)
            return status, world.orders

    assert asyncio.run(story()) == (400, [])


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /redfish/v1 HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST " + RESET.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST " + RESET.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
        b"\0" * 5000,
    ],
    ids=range(7),
)
async def test_what_is_no_request_does_nothing_and_the_service_lives(world: World, request_: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    writer.write(request_)
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert world.orders == []
    assert (await world.get(SYSTEM))[0] == 200


# --- who may ask


@pytest.mark.parametrize(
    "auth",
    [
        None,
        basic("mooring", ""),
        basic("mooring", "secreT"),
        basic("root", "secret"),
        basic("mooring:secret", ""),
        basic("", ""),
        basic("möoring", "secrét"),
    ],
)
@pytest.mark.parametrize(
    "path", [SYSTEM, f"{SYSTEM}/", "/redfish/v1/Systems", LOGINS, "/nothing", "/redfish//v1"]
)
async def test_without_the_password_there_is_nothing_to_see(world: World, auth: str | None, path: str):
    status, answer = await world.get(path, auth=auth)
    assert status == 401
    assert "error" in answer
    assert (await world.request("POST", RESET, auth=auth, json={"ResetType": "ForceOff"}))[0] == 401
    assert world.asked == []


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !!!", "Basic /w==", "Bearer x", "basic bW9vcmluZw==", "x" * 4000]
)
async def test_a_damaged_authorization_is_none(world: World, header: str):
    status, _ = await world.get(SYSTEM, auth=None, headers={"Authorization": header})
    assert status == 401


async def test_a_session_is_as_good_as_the_password_until_it_ends(world: World):
    async with ClientSession() as client:
        url = world.server.make_url(LOGINS)
        async with client.post(url, json={"UserName": "mooring", "Password": "secret"}) as reply:
            assert reply.status == 201
            token, where = reply.headers["X-Auth-Token"], reply.headers["Location"]
    headers = {"X-Auth-Token": token}
    assert (await world.get(SYSTEM, auth=None, headers=headers))[0] == 200
    assert (await world.get(where, auth=None, headers=headers))[1]["UserName"] == "mooring"
    assert (await world.request("DELETE", where, auth=None, headers=headers))[0] == 204
    assert (await world.get(SYSTEM, auth=None, headers=headers))[0] == 401
    assert (await world.get(where))[0] == 404


@pytest.mark.parametrize("token", ["", "x", "None", "é"])
async def test_a_token_of_no_session_opens_nothing(world: World, token: str):
    assert (await world.get(SYSTEM, auth=None, headers={"X-Auth-Token": token}))[0] == 401


async def test_a_wrong_password_opens_no_session(world: World):
    for body in ({"UserName": "mooring", "Password": "no"}, {"UserName": "root", "Password": "secret"}):
        assert (await world.request("POST", LOGINS, auth=None, json=body))[0] == 401
    for body in ({}, {"UserName": 1, "Password": "secret"}, []):
        assert (await world.request("POST", LOGINS, auth=None, json=body))[0] == 400
    assert (await world.get(LOGINS))[1]["Members"] == []


async def test_there_are_no_more_sessions_than_so_many(world: World):
    for _ in range(SESSIONS + 5):
        await world.request("POST", LOGINS, auth=None, json={"UserName": "mooring", "Password": "secret"})
    assert (await world.get(LOGINS))[1]["Members@odata.count"] == SESSIONS


# --- devices that misbehave


async def test_a_refusing_device_is_an_error(world: World):
    world.failure = DeviceError("node-1: the device refuses off")
    status, answer = await world.reset({"ResetType": "ForceOff"})
    assert (status, answer["error"]["message"]) == (503, "node-1: the device refuses off")


async def test_a_silent_device_ends_the_connection_without_an_answer(world: World):
    world.failure = Silence()
    with pytest.raises(ClientError):
        await world.reset({"ResetType": "ForceOff"})


async def test_no_more_than_so_many_requests_wait(world: World):
    world.hold.clear()
    waiting = [asyncio.create_task(world.get(SYSTEM)) for _ in range(PENDING)]
    while len(world.asked) < PENDING:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    status, answer = await world.get(SYSTEM)
    assert status == 503
    assert "too many" in answer["error"]["message"]
    world.hold.set()
    assert {status for status, _ in await asyncio.gather(*waiting)} == {200}
