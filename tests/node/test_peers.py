"""A node's agent answers its peers, asks them when it is told to, and states on its Lease what it found."""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

import mooring.node.self_fence
from mooring.kube.errors import Unreachable
from mooring.kube.objects import Lease, ManagedMeta, Node
from mooring.kube.transport import Request
from mooring.node.node_lease import NAMESPACE
from mooring.node.peer_door import udp
from mooring.node.peers import Peers, Take
from mooring.node.self_fence.keeper import LeaseLost
from mooring.node.self_fence.watchdog import Armed
from mooring.volumes.peers import (
    DOOR,
    MOST_PEERS,
    QUESTIONS,
    STATEMENTS,
    Heard,
    Question,
    Statement,
    answer,
    ask,
    encoded,
    said,
    statements_of,
)

NODE, NONCE, TO = "node-1", "a" * 32, ("10.0.0.2", 7000)
QUESTION = Question("node-2", "boot-2", "10.0.0.2:7000", NONCE)


class PlayedDoor:
    """`reply` is what comes back from outside for what is sent."""

    def __init__(self) -> None:
        self.where = "10.0.0.1:7000"
        self.sent: list[tuple[bytes, tuple[str, int]]] = []
        self.reply: Callable[[bytes], bytes | None] = lambda data: None
        self.take: Take = lambda data, sender: None

    @contextlib.asynccontextmanager
    async def opened(self, take: Take) -> AsyncGenerator[PlayedDoor]:
        self.take = take
        yield self

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        self.sent.append((data, to))
        if (reply := self.reply(data)) is not None:
            asyncio.get_running_loop().call_soon(self.take, reply, to)


def of_boot(boot: str, *, hears_api: bool = False) -> Callable[[bytes], bytes | None]:
    return lambda data: answer(data, boot, hears_api=hears_api)


def asked(*questions: Question) -> Node:
    return Node(metadata=ManagedMeta(name=NODE, annotations={QUESTIONS: encoded(questions)}))


async def found(door: PlayedDoor, *questions: Question) -> list[Statement]:
    """What the agent states when it is asked this."""
    told: asyncio.Queue[str] = asyncio.Queue()
    peers = Peers(door.opened, "boot-1", lambda: True, told.put_nowait)
    async with peers.serving():
        running = asyncio.create_task(peers.run())
        peers.node_changed(None, asked(*questions))
        text = await told.get()
        running.cancel()
    return list(statements_of(text))


@pytest.mark.parametrize(
    ("boot", "heard", "api"), [("boot-2", Heard.YES, True), ("boot-3", Heard.ANOTHER_BOOT, False)]
)
async def test_what_a_peer_answers_is_stated(boot: str, heard: Heard, api: bool):
    door = PlayedDoor()
    door.reply = of_boot(boot, hears_api=True)
    assert await found(door, QUESTION) == [Statement("node-2", "boot-2", NONCE, heard, api)]


def test_a_peer_is_asked_several_times_before_it_counts_as_not_heard(run: Any):
    async def story() -> None:
        door = PlayedDoor()
        (stated,) = await found(door, QUESTION)
        assert stated.heard is Heard.NO
        assert door.sent == [(ask(NONCE), TO)] * 3

    run(story())


def test_an_answer_that_is_lost_once_is_heard_the_next_time(run: Any):
    async def story() -> None:
        door, answered = PlayedDoor(), of_boot("boot-2")
        door.reply = lambda data: answered(data) if len(door.sent) > 1 else None
        (stated,) = await found(door, QUESTION)
        assert stated.heard is Heard.YES

    run(story())


def test_it_asks_five_peers_at_the_most(run: Any):
    async def story() -> None:
        door = PlayedDoor()
        many = [Question(f"n{number}", "b", "10.0.0.2:7000", f"{number:032x}") for number in range(9)]
        assert len(await found(door, *many)) == MOST_PEERS
        assert len({data for data, _ in door.sent}) == MOST_PEERS

    run(story())


async def test_it_answers_a_question_with_its_own_boot_and_nothing_else():
    door = PlayedDoor()
    peers = Peers(door.opened, "boot-1", lambda: True, lambda text: None)
    async with peers.serving():
        for data in (b"", b"\xff" * 2000, ask(NONCE)[:-1], b"mooring-peer ask " + b"x" * 111):
            door.take(data, TO)
        assert door.sent == []
        door.take(ask(NONCE), TO)
    ((reply, to),) = door.sent
    assert (said(reply), to) == (said(answer(ask(NONCE), "boot-1", hears_api=True) or b""), TO)


async def test_the_same_questions_are_not_asked_again():
    door, told = PlayedDoor(), list[str]()
    door.reply = of_boot("boot-2")
    peers = Peers(door.opened, "boot-1", lambda: True, told.append)
    async with peers.serving():
        running = asyncio.create_task(peers.run())
        for _ in range(3):
            peers.node_changed(None, asked(QUESTION))
            await asyncio.sleep(0.01)
        assert len(door.sent) == len(told) == 1
        peers.node_changed(None, asked())
        await asyncio.sleep(0.01)
        running.cancel()
    assert told[-1] == "", "what nothing asks about is stated no more"


async def test_two_agents_hear_one_another_over_real_sockets():
    told: asyncio.Queue[str] = asyncio.Queue()
    one = Peers(udp("127.0.0.1"), "boot-1", lambda: True, told.put_nowait)
    other = Peers(udp("127.0.0.1"), "boot-2", lambda: False, lambda text: None)
    async with one.serving():
        running = asyncio.create_task(one.run())
        async with other.serving():
            one.node_changed(None, asked(Question("node-2", "boot-2", other.where, NONCE)))
            (heard,) = statements_of(await told.get())
            where = other.where
        one.node_changed(None, asked(Question("node-2", "boot-2", where, "b" * 32)))
        (gone,) = statements_of(await told.get())
        running.cancel()
    assert (heard.heard, heard.hears_api) == (Heard.YES, False)
    assert gone.heard is Heard.NO


async def test_a_door_that_cannot_be_opened_is_done_without():
    peers = Peers(udp("192.0.2.1"), "boot-1", lambda: True, lambda text: None)
    async with peers.serving():
        assert peers.where == ""
        await peers.run()


# --- as a part of the agent


async def lease(stage: Any) -> Lease:
    return await stage.api.get(Lease, NODE, NAMESPACE)


def test_an_agent_announces_its_door_and_states_at_once_what_it_was_asked(play: Any):
    async def story(stage: Any):
        door = PlayedDoor()
        door.reply = of_boot("boot-2", hears_api=True)
        stage.peer_door = door.opened
        await stage.start()
        assert (await stage.node()).metadata.annotations[DOOR] == door.where
        before = asyncio.get_running_loop().time()
        body = {"metadata": {"annotations": {QUESTIONS: encoded((QUESTION,))}}}
        await stage.api.patch(Node, NODE, body)

        async def stated() -> str:
            return (await lease(stage)).metadata.annotations.get(STATEMENTS, "")

        text = await stage.until(stated, 5)
        assert asyncio.get_running_loop().time() - before < 5, "before the next renewal is due"
        assert statements_of(text) == (Statement("node-2", "boot-2", NONCE, Heard.YES, True),)
        await stage.api.patch(Node, NODE, {"metadata": {"annotations": {QUESTIONS: None}}})

        async def none() -> bool:
            return not await stated()

        await stage.until(none, 15)

    play(story)


def test_while_nothing_is_asked_nothing_is_sent(play: Any):
    async def story(stage: Any):
        door = PlayedDoor()
        stage.peer_door = door.opened
        await stage.start()
        await asyncio.sleep(300)
        assert door.sent == []

    play(story)


def test_an_agent_without_a_door_takes_away_what_another_one_has_announced(play: Any):
    async def story(stage: Any):
        stage.peer_door = PlayedDoor().opened
        await stage.start()
        await stage.kill()
        stage.peer_door = None
        await stage.start()

        async def gone() -> bool:
            return DOOR not in (await stage.node()).metadata.annotations

        await stage.until(gone)

    play(story)


class _Watchdog:
    async def arm(self, seconds: float) -> Armed:
        return Armed("played", seconds, fed_by_close=True)

    async def feed(self) -> None:
        return

    async def disarm(self) -> None:
        return


@pytest.mark.parametrize("heard", [True, False])
def test_no_peer_postpones_that_a_node_fences_itself(play: Any, heard: bool):
    """SNR's gap G1: peers behind the same cut say that all is well, while the other side releases."""

    async def story(stage: Any) -> float:
        door = PlayedDoor()
        door.reply = of_boot("boot-2", hears_api=True) if heard else door.reply
        stage.peer_door, stage.watchdog = door.opened, _Watchdog()
        await stage.start()
        await asyncio.sleep(60)
        await stage.api.patch(Node, NODE, {"metadata": {"annotations": {QUESTIONS: encoded((QUESTION,))}}})
        await asyncio.sleep(10)
        cut = asyncio.get_running_loop().time()

        def no_way(request: Request) -> None:
            raise Unreachable("cut")

        stage.gate = no_way
        asking = asyncio.create_task(_goes_on_asking(door))
        with pytest.raises(LeaseLost):
            await stage.ended()
        asking.cancel()
        assert asyncio.get_running_loop().time() - cut <= 40
        return 0

    play(story)


async def _goes_on_asking(door: PlayedDoor) -> None:
    while True:
        door.take(ask("c" * 32), TO)
        await asyncio.sleep(0.5)


def test_what_fences_a_node_knows_nothing_of_peers():
    folder = Path(mooring.node.self_fence.__file__).parent
    for path in folder.glob("*.py"):
        names = [
            each.module or ""
            for each in ast.walk(ast.parse(path.read_text()))
            if isinstance(each, ast.ImportFrom)
        ]
        assert not [name for name in names if "peer" in name], path
