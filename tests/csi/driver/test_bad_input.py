"""Whatever comes over the wire: the base answers with the right code, and a driver sees only what is
allowed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from csi_messages import messages
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.rules import LONGER_STRINGS, REQUIRED, STRING_BYTES
from mooring.csi.driver.services import (
    ControllerCapability,
    ControllerService,
    Driver,
    NodeCapability,
    NodeService,
)
from mooring.csi.errors import Code, CsiError
from mooring.csi.rpc import Controller, Node, Rpc, Service
from mooring.csi.secrets import stripped

ALLOWED = Path("/nowhere/kubelet")
PATHS = (f"{ALLOWED}/pods/p/mount", f"{ALLOWED}/../../etc", "ext4", "v1")


def service(base: type[Any], rpcs: type[Service], seen: list[Message]) -> Any:
    """A service with every method, which writes down what reaches it."""

    def method(rpc: Rpc[Any, Any]) -> Any:
        async def answer(self: object, request: Message) -> Message:
            seen.append(request)
            return rpc.reply()

        return answer

    own = {
        rpc.attribute: method(rpc) for rpc in rpcs.methods() if not rpc.attribute.endswith("get_capabilities")
    }
    capabilities = ControllerCapability.values() if base is ControllerService else NodeCapability.values()
    return type("Everything", (base,), {**own, "capabilities": capabilities})()


def requests() -> st.SearchStrategy[tuple[Rpc[Any, Any], Message]]:
    rpcs = [*Controller.methods(), *Node.methods()]
    return st.sampled_from(rpcs).flatmap(lambda rpc: st.tuples(st.just(rpc), messages(rpc.request, *PATHS)))


def strings(message: Message) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for field, value in message.ListFields():
        if isinstance(value, str):
            found.append((field.name, value))
        elif isinstance(value, Message):
            found += strings(value)
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests())
def test_what_reaches_a_driver_is_what_the_specification_allows(asked: tuple[Rpc[Any, Any], Message]) -> None:
    rpc, request = asked
    seen: list[Message] = []
    driver = Driver(
        name="everything.example.com",
        version="1",
        controller=service(ControllerService, Controller, seen),
        node=service(NodeService, Node, seen),
    )
    answer = Dispatcher(driver, [ALLOWED]).call(rpc, rpc.request.FromString(request.SerializeToString()))
    code = _code(answer)
    assert code in (Code.OK, Code.INVALID_ARGUMENT, Code.NOT_FOUND)
    for one in seen:
        assert all(getattr(one, name) for name in REQUIRED.get(one.DESCRIPTOR.name, ()))
        for name, value in strings(one):
            assert len(value.encode()) <= LONGER_STRINGS.get(name, STRING_BYTES)
            assert "\0" not in value
            if name.endswith("_path"):
                assert value.startswith(f"{ALLOWED}/")
                assert ".." not in value.split("/")


def _code(answer: Any) -> Code:
    try:
        asyncio.run(answer)
    except CsiError as error:
        return error.code
    return Code.OK


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests())
def test_anything_can_be_shown(asked: tuple[Rpc[Any, Any], Message]) -> None:
    assert "hunter2" not in repr(stripped(_with_secret(asked[1])))


def _with_secret(message: Message) -> Message:
    if "secrets" in message.DESCRIPTOR.fields_by_name:
        message.secrets["password"] = "hunter2"  # type: ignore[attr-defined]
    return message
