"""QEMU's machine protocol: whatever comes; a monitor that answers, refuses, tells, ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.qemu import qmp
from mooring.cluster.machines.qemu.qmp import Answer, Event, Monitor, NoAnswer, Refused, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["id", "event", "data", "error", "return"]), inner)
    ),
)


def test_the_greeting_is_no_message() -> None:
    assert parse(b'{"QMP": {"version": {}, "capabilities": ["oob"]}}') is None


def test_an_answer_has_its_number_and_its_value() -> None:
    assert parse(b'{"return": {"a": 1}, "id": 7}') == Answer(7, {"a": 1}, "")


def test_a_refusal_has_qemus_words() -> None:
    said = b'{"error": {"class": "GenericError", "desc": "Duplicate node name"}, "id": 7}'
    assert parse(said) == Answer(7, None, "Duplicate node name")


@pytest.mark.parametrize("error", ["{}", "null", '""', "[]", '{"desc": ""}'])
def test_a_refusal_without_words_is_a_refusal(error: str) -> None:
    found = parse(f'{{"error": {error}, "id": 1}}'.encode())
    assert isinstance(found, Answer)
    assert found.error


def test_an_event_has_its_data() -> None:
    assert parse(b'{"event": "SHUTDOWN", "data": {"reason": "guest-reset"}}') == Event(
        "SHUTDOWN", {"reason": "guest-reset"}
    )
    assert parse(b'{"event": "STOP"}') == Event("STOP", {})


@given(st.binary())
def test_bytes_that_are_no_message_are_none_or_read(line: bytes) -> None:
    parse(line)


@given(JSON)
def test_no_json_is_misread(value: Any) -> None:
    found = parse(json.dumps(value).encode())
    assert found is None or isinstance(value, dict)
    if isinstance(found, Answer):
        assert isinstance(found.number, int)
        assert bool(found.error) == ("error" in value)
    if isinstance(found, Event):
        assert isinstance(found.data, dict)


def test_json_without_end_of_depth_is_none() -> None:
    assert parse(b"[" * 100_000) is None


class Qemu:
    """Answers as it is told to; `ends` when it closes the connection."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, dict[str, Any]]] = []
        self.refuses: set[str] = set()
        self.silent: set[str] = set()
        self.before: list[bytes] = []
        self.ends_at = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"QMP": {}}\r\n')
        while line := await reader.readline():
            order = json.loads(line)
            name = order["execute"]
            self.orders.append((name, order["arguments"]))
            for each in self.before:
                writer.write(each)
            if name == self.ends_at:
                break
            if name in self.refuses:
                writer.write(json.dumps({"id": order["id"], "error": {"desc": "no"}}).encode() + b"\r\n")
            elif name not in self.silent:
                writer.write(json.dumps({"id": order["id"], "return": {"did": name}}).encode() + b"\r\n")
        writer.close()


@pytest.fixture
async def qemu(tmp_path: Path) -> AsyncIterator[Qemu]:
    qemu = Qemu()
    server = await asyncio.start_unix_server(qemu.serve, str(tmp_path / "qmp"))
    yield qemu
    server.close()


@pytest.fixture
async def heard() -> list[Event]:
    return []


@pytest.fixture
async def monitor(qemu: Qemu, heard: list[Event], tmp_path: Path) -> AsyncIterator[Monitor]:
    monitor = Monitor(heard.append)
    await monitor.connect(tmp_path / "qmp")
    yield monitor
    await monitor.close()


async def test_an_order_is_answered_with_what_qemu_returns(qemu: Qemu, monitor: Monitor) -> None:
    assert await monitor.order("device_del", {"id": "x"}) == {"did": "device_del"}
    assert qemu.orders == [("qmp_capabilities", {}), ("device_del", {"id": "x"})]


async def test_a_refused_order_says_why(qemu: Qemu, monitor: Monitor) -> None:
    qemu.refuses = {"device_add"}
    with pytest.raises(Refused, match="device_add: no"):
        await monitor.order("device_add")


async def test_what_is_told_between_order_and_answer_is_heard(
    qemu: Qemu, monitor: Monitor, heard: list[Event]
) -> None:
    qemu.before = [b'{"event": "RESUME"}\n', b"rubbish\n", b'{"id": 99, "return": {}}\n', b'{"id": true}\n']
    assert await monitor.order("cont") == {"did": "cont"}
    assert heard == [Event("RESUME", {})]


async def test_what_is_told_before_the_end_is_heard(qemu: Qemu, monitor: Monitor, heard: list[Event]) -> None:
    qemu.before = [b'{"event": "SHUTDOWN", "data": {"reason": "guest-shutdown"}}\n']
    qemu.ends_at = "quit"
    with pytest.raises(NoAnswer):
        await monitor.order("quit")
    await monitor.until_closed()
    assert heard[-1].data == {"reason": "guest-shutdown"}


async def test_an_order_to_a_qemu_that_stands_still_ends(
    qemu: Qemu, monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qmp, "ANSWER_S", 0.05)
    qemu.silent = {"cont"}
    with pytest.raises(NoAnswer, match="does not answer"):
        await monitor.order("cont")
    assert await monitor.order("stop") == {"did": "stop"}


async def test_an_order_after_the_end_is_not_waited_for(qemu: Qemu, monitor: Monitor) -> None:
    qemu.ends_at = "quit"
    with pytest.raises(NoAnswer):
        await monitor.order("quit")
    await monitor.until_closed()
    with pytest.raises(NoAnswer):
        await monitor.order("cont")
    await monitor.close()
    with pytest.raises(NoAnswer):
        await monitor.order("cont")


async def test_a_line_over_the_limit_ends_the_connection(qemu: Qemu, monitor: Monitor) -> None:
    qemu.before = [b"x" * (2 * qmp.LIMIT) + b"\n"]
    with pytest.raises(NoAnswer):
        await monitor.order("cont")
