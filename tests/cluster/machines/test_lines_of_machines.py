"""What a machine's kernel and its first process say is read, whatever it is."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.guest.wire import parse as parse_line
from mooring.cluster.machines.interface import Ending
from mooring.cluster.machines.uml import mconsole
from mooring.cluster.machines.uml.machine import ending
from mooring.cluster.machines.wire import LIMIT, Unanswered, Wire


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose sockets' paths fit into an address."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as directory:
        yield Path(directory)


# --- the kernel's console


@given(st.binary(max_size=5000))
def test_any_datagram_is_an_answer(datagram: bytes) -> None:
    failed, more, text = mconsole.parse(datagram)
    assert (type(failed), type(more)) == (bool, bool)
    assert len(text) <= 4096


class Kernel:
    """Answers at a console socket with the given datagrams."""

    def __init__(self, path: Path, *answers: bytes) -> None:
        self.asked: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._answers = answers
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        request, back = self._socket.recvfrom(4096)
        self.asked.append(request)
        with self._socket:
            for answer in self._answers:
                self._socket.sendto(answer, back)


def reply(text: str, *, failed: bool = False, more: bool = False) -> bytes:
    return mconsole.REPLY.pack(failed, more, len(text)) + text.encode()


def test_an_order_is_sent_as_the_kernel_reads_it_and_its_whole_answer_is_taken(short: Path) -> None:
    kernel = Kernel(short / "mconsole", reply("first ", more=True), reply("second"))
    assert mconsole.order(short / "mconsole", "config ubdb=/dev/loop1") == "first second"
    magic, version, length = mconsole.REQUEST.unpack(kernel.asked[0])[:3]
    assert (magic, version, length) == (0xCAFEBABE, 2, len("config ubdb=/dev/loop1"))
    assert [path.name for path in short.iterdir()] == ["mconsole"]


def test_a_refusal_has_the_kernel_s_words(short: Path) -> None:
    Kernel(short / "mconsole", reply("Device is currently open", failed=True))
    with pytest.raises(mconsole.Refused, match="Device is currently open"):
        mconsole.order(short / "mconsole", "remove ubdb")


def test_a_kernel_that_is_gone_does_not_answer(short: Path) -> None:
    with pytest.raises(mconsole.NoAnswer):
        mconsole.order(short / "mconsole", "stop")


def test_an_order_that_is_too_long_is_not_sent(short: Path) -> None:
    with pytest.raises(ValueError, match="511 bytes"):
        mconsole.order(short / "mconsole", "x" * 512)


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("sysrq: Resetting\nFailed to exec kernel: No such file or directory", Ending.RESET),
        ("softdog: Initiating system reboot", Ending.RESET),
        ("reboot: Restarting system", Ending.RESET),
        ("reboot: System halted", Ending.SHUT_DOWN),
        ("reboot: Power down", Ending.SHUT_DOWN),
        ("Kernel panic - not syncing: sysrq triggered crash", Ending.DIED),
        ("", Ending.DIED),
        ("the agent prints: System halted\nand goes on", Ending.DIED),
    ],
)
def test_how_a_machine_ended_is_read_from_its_console(printed: str, found: Ending) -> None:
    assert ending(printed) is found


# --- the serial line


@given(st.binary(max_size=300))
def test_any_line_is_an_object_or_nothing(line: bytes) -> None:
    found = parse_line(line)
    assert found is None or isinstance(found, dict)


class Guest:
    """The other end of a line, by its FIFOs."""

    def __init__(self, directory: Path) -> None:
        self._to = os.open(directory / "wire.out", os.O_RDWR | os.O_NONBLOCK)
        self._from = os.open(directory / "wire.in", os.O_RDWR | os.O_NONBLOCK)

    def say(self, line: bytes) -> None:
        os.write(self._to, line)

    async def asked(self) -> dict[str, Any]:
        while True:
            try:
                return json.loads(os.read(self._from, 4096))
            except BlockingIOError:
                await asyncio.sleep(0.001)


async def answered(tmp_path: Path, answer: bytes) -> dict[str, Any]:
    """What `ask` gives when the machine answers with that."""
    told: list[dict[str, Any]] = []
    wire = Wire(tmp_path / "wire", told.append)
    wire.open()
    try:
        guest = Guest(tmp_path / "wire")
        asking = asyncio.create_task(wire.ask("run", script="x"))
        request = await guest.asked()
        assert (request["do"], request["script"]) == ("run", "x")
        guest.say(answer.replace(b"ID", str(request["id"]).encode()))
        return await asking
    finally:
        wire.close()


async def test_an_answer_is_of_the_request_with_its_id(tmp_path: Path) -> None:
    other = b'{"id": 99}\n{"id": [1]}\nnonsense\n[]\n'
    assert (await answered(tmp_path, other + b'{"id": ID, "output": "y"}\n'))["output"] == "y"


async def test_what_the_machine_cannot_do_is_raised_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="run: OSError: no such thing"):
        await answered(tmp_path, b'{"id": ID, "error": "OSError: no such thing"}\n')


async def test_a_line_without_an_end_is_dropped_and_the_next_is_read(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    wire = Wire(tmp_path / "wire", told.append)
    wire.open()
    try:
        guest, sent = Guest(tmp_path / "wire"), 0
        while sent < LIMIT + 70_000:
            try:
                guest.say(b"x" * 4096)
                sent += 4096
            except BlockingIOError:
                await asyncio.sleep(0.001)
        guest.say(b'\n{"says": "up"}\n')
        while not told:  # noqa: ASYNC110 - what is told is a plain list
            await asyncio.sleep(0.001)
        assert told == [{"says": "up"}]
    finally:
        wire.close()


async def test_who_waits_when_the_machine_goes_off_is_told(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "wire", lambda message: None)
    wire.open()
    asking = asyncio.create_task(wire.ask("run", script="x"))
    await asyncio.sleep(0)
    wire.close()
    with pytest.raises(Unanswered, match="went off"):
        await asking
    with pytest.raises(Unanswered):
        await wire.ask("run", script="x")
