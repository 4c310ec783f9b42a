"""A target of tgt that a machine is shut out of, by writes that stop: initiators write by iSCSI all the time,
and log in again at once when they are disconnected."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from iscsi_initiator import Initiator, Refused
from tests.fence import contract
from tests.fence.contract import Case

from mooring.fence.interface import Order, Outcome, State, Target, Volume
from mooring.fence.storage.iscsi_tgt import IscsiTgt

pytestmark = pytest.mark.root

TARGET = "iqn.2026-01.dev.mooring:played"
PORTAL = "127.0.0.1"
ADDRESSES = {"one": "127.0.0.2", "two": "127.0.0.3"}
NAMES = {"one": "iqn.2026-01.dev.mooring:one", "two": "iqn.2026-01.dev.mooring:two"}


class Storage:
    """A target whose list has both machines, by address and by name."""

    def __init__(self, directory: Path) -> None:
        self.socket = str(directory / "tgt")
        self.environ = {**os.environ, "TGT_IPC_SOCKET": self.socket}
        self.medium = directory / "disk"
        self.port = 0
        self.acl = [each for node in ADDRESSES for each in (ADDRESSES[node], NAMES[node])]
        self.process: subprocess.Popen[bytes] | None = None
        self._writers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.medium.write_bytes(bytes(1 << 20))
        with socket.create_server((PORTAL, 0)) as free:
            self.port = free.getsockname()[1]
        self._run()
        while not self._answers():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.05)
        self.order("new", "-T", TARGET)
        unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", str(self.medium))
        self._tgtadm("--op", "new", *unit)
        for entry in self.acl:
            self.order("bind", "-Q" if entry.startswith("iqn") else "-I", entry)
        for block, node in enumerate(ADDRESSES):
            self._writers.append(asyncio.create_task(self._write(node, block)))
        for node in ADDRESSES:
            while not await self.writes(node):
                pass

    def _run(self) -> None:
        portal = f"portal={PORTAL}:{self.port}"
        self.process = subprocess.Popen(
            ["tgtd", "-f", "-C", "0", "--iscsi", portal], env=self.environ, stderr=subprocess.DEVNULL
        )

    def _answers(self) -> bool:
        ask = ["tgtadm", "-C", "0", "--op", "show", "--mode", "sys"]
        return subprocess.run(ask, env=self.environ, capture_output=True, check=False).returncode == 0

    def order(self, operation: str, *words: str) -> None:
        self._tgtadm("--op", operation, "--mode", "target", "--tid", "1", *words)

    def _tgtadm(self, *words: str) -> None:
        subprocess.run(["tgtadm", "-C", "0", "--lld", "iscsi", *words], env=self.environ, check=True)

    async def _write(self, node: str, block: int) -> None:
        count = 0
        while True:
            initiator = Initiator(NAMES[node], ADDRESSES[node])
            try:
                await initiator.login(TARGET, PORTAL, self.port)
                while True:
                    count += 1
                    await initiator.write(block, count.to_bytes(8, "big").ljust(512, b"\0"))
                    await asyncio.sleep(0.005)
            except Refused:
                await asyncio.sleep(0.005)
            finally:
                initiator.close()

    def written(self, node: str) -> bytes:
        with self.medium.open("rb") as file:
            file.seek(512 * list(ADDRESSES).index(node))
            return file.read(8)

    async def writes(self, node: str) -> bool:
        before = self.written(node)
        await asyncio.sleep(0.4)
        return self.written(node) != before

    async def stop_writing(self, node: str) -> None:
        """Its session is closed."""
        writer = self._writers[list(ADDRESSES).index(node)]
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        await asyncio.sleep(0.2)

    async def stop(self) -> None:
        for each in self._writers:
            each.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    if shutil.which("tgtd", path="/usr/sbin") is None:
        pytest.skip("needs tgtd: apt-get install tgt")
    storage = Storage(tmp_path)
    try:
        await storage.start()
        yield storage
    finally:
        await storage.stop()


def case(storage: Storage) -> Case:
    target = Target(
        *("node-1", "uid", "boot"),
        addresses=(ADDRESSES["one"],),
        initiators=(NAMES["one"],),
        volumes=(Volume(f"{TARGET},1"),),
    )
    order = Order(target, "token-1", {"target": TARGET, "socket": storage.socket}, deadline=20)
    return Case(IscsiTgt(), order, lambda: storage.writes("one"), lambda: storage.writes("two"))


async def test_a_fence_stops_its_writes_and_an_unfence_lets_it_go_on(storage: Storage):
    await contract.a_fence_stops_it_and_an_unfence_lets_it_go_on(case(storage))
    assert await storage.writes("one")


async def test_the_same_order_again_does_no_more(storage: Storage):
    await contract.the_same_order_again_does_no_more(case(storage))


async def test_a_fence_that_is_cut_short_can_be_ordered_again(storage: Storage):
    await contract.a_fence_that_is_cut_short_can_be_ordered_again(case(storage), (0.005, 0.02, 0.05))


async def test_a_look_changes_nothing(storage: Storage):
    await contract.a_look_changes_nothing(case(storage))


async def test_a_tgtd_that_stands_still_is_unknown_and_nothing_is_left(storage: Storage):
    assert storage.process is not None
    storage.process.send_signal(19)
    try:
        await contract.a_deadline_is_unknown_and_leaves_nothing(case(storage), 2)
    finally:
        storage.process.send_signal(18)


async def test_taken_out_of_the_list_alone_it_goes_on_writing_and_is_not_taken_for_shut_out(storage: Storage):
    storage.order("unbind", "-I", ADDRESSES["one"])
    storage.order("unbind", "-Q", NAMES["one"])
    assert await storage.writes("one")
    of = case(storage)
    look = await of.mechanism.look(of.order)
    assert (look.state, look.code) == (State.OPEN, "Connected")
    assert (await of.mechanism.fence(of.order)).outcome is Outcome.FENCED
    assert not await storage.writes("one")


@pytest.mark.parametrize("wide", [("-I", "ALL"), ("-I", "127.0.0.0/8")])
async def test_a_list_that_lets_it_in_with_others_is_left_as_it_is(storage: Storage, wide: tuple[str, str]):
    storage.order("bind", *wide)
    of = case(storage)
    answer = await of.mechanism.fence(of.order)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "ListTooWide")
    assert wide[1] in answer.message
    assert await of.works() and await of.elsewhere()


async def test_it_is_let_in_as_it_was_by_the_entries_that_are_given(storage: Storage):
    of = case(storage)
    storage.order("unbind", "-Q", NAMES["one"])
    of.order = replace(of.order, parameters={**of.order.parameters, "acl": ADDRESSES["one"]})
    assert (await of.mechanism.fence(of.order)).outcome is Outcome.FENCED
    assert (await of.mechanism.unfence(of.order)).outcome is Outcome.UNFENCED
    assert await storage.writes("one")
    of.order = replace(of.order, target=replace(of.order.target, addresses=("127.0.0.9",)))
    storage.order("unbind", "-I", ADDRESSES["one"])
    assert (await of.mechanism.look(of.order)).state is State.OPEN  # its session, by its name


async def test_a_target_or_a_tgtd_that_is_not_there_is_unknown(storage: Storage):
    of = case(storage)
    none = replace(
        of.order,
        target=replace(of.order.target, volumes=()),
        parameters={**of.order.parameters, "target": "iqn.x:none"},
    )
    answer = await of.mechanism.fence(none)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "NotFound")
    gone = replace(of.order, parameters={**of.order.parameters, "socket": "/nowhere/tgt"})
    assert (await of.mechanism.fence(gone)).outcome is Outcome.UNKNOWN
    assert await of.works()


async def test_a_machine_that_is_shut_out_has_no_session_left(storage: Storage):
    """Also while it tries to log in all the time."""
    of, tgt = case(storage), IscsiTgt()
    assert (await tgt.sessions(of.order)).state is State.OPEN
    storage.order("unbind", "-I", ADDRESSES["one"])
    storage.order("unbind", "-Q", NAMES["one"])
    assert (await tgt.sessions(of.order)).state is State.OPEN, "it is refused, and has a session still"
    assert (await tgt.fence(of.order)).outcome is Outcome.FENCED
    for _ in range(5):
        assert (await tgt.sessions(of.order)).state is State.SHUT
        await asyncio.sleep(0.1)
    assert (await tgt.unfence(of.order)).outcome is Outcome.UNFENCED
    assert (await tgt.sessions(of.order)).state is State.OPEN


async def test_what_it_has_written_is_counted_while_it_writes(storage: Storage):
    of, tgt = case(storage), IscsiTgt()

    async def counted() -> int:
        found = await tgt.sessions(of.order)
        assert found.moved is not None
        return sum(found.moved.values())

    before = await counted()
    assert await storage.writes("one")
    between = await counted()
    assert between > before
    await storage.stop_writing("one")
    idle = await counted()
    assert await storage.writes("two")
    assert await counted() == idle, "what another one writes is not its own"
