"""Answers this node's peers, and asks them what the controller `fencing` wants to know (`volumes.peers`).

- It answers each question on the wire as long as the agent works, with a proof that it is of this boot.
- The questions are on our own Node; each nonce is probed once: a few words, and a few seconds for the answer.
- What came back is handed to `tell`, which writes it on our own Lease with a renewal at once.
- Without questions it sends nothing and tells nothing.

It must not know of the watchdog: nothing that a peer says postpones what a node does to itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog

from mooring.kube.objects import Node
from mooring.volumes.peers import (
    QUESTIONS,
    Heard,
    Question,
    Said,
    Statement,
    answer,
    ask,
    door_of,
    encoded,
    heard,
    questions_of,
    said,
)

TRIES, TRY_S = 3, 1.0
"""So often is a peer asked, and so long is each answer waited for, before it counts as not heard."""

log = structlog.get_logger("node-agent")

Take = Callable[[bytes, tuple[str, int]], None]
"""Takes what has come, and from where."""


class Door(Protocol):
    """Where words to and from peers pass."""

    where: str
    """`ADDRESS:PORT`, as peers reach it."""

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        """Sends one word; whether it arrives is not known."""
        ...


Open = Callable[[Take], AbstractAsyncContextManager[Door]]
"""Opens a door. Raises OSError."""


class Peers:
    """The agent's part. `hears_api` says whether the API server has acknowledged a renewal just now; `tell`
    takes the statements to be written, "" for none."""

    def __init__(
        self, open_door: Open | None, boot_id: str, hears_api: Callable[[], bool], tell: Callable[[str], None]
    ) -> None:
        self._open, self._boot_id, self._hears_api, self._tell = open_door, boot_id, hears_api, tell
        self._door: Door | None = None
        self._questions: tuple[Question, ...] = ()
        self._found: dict[str, Statement] = {}
        """By the nonce of the question."""
        self._awaited: dict[str, asyncio.Future[Said]] = {}
        self._wake = asyncio.Event()

    @property
    def where(self) -> str:
        """What this node announces; "" if it has no door."""
        return self._door.where if self._door is not None else ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answers as long as it is entered. Without a door, peers count this node among those that say
        nothing."""
        async with contextlib.AsyncExitStack() as stack:
            if self._open is not None:
                try:
                    self._door = await stack.enter_async_context(self._open(self._took))
                except OSError as error:
                    log.warning("peers cannot ask this node", why=str(error))
            yield

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Of our own Node."""
        text = new.metadata.annotations.get(QUESTIONS, "") if new is not None else ""
        self._questions = questions_of(text)
        asked = {each.nonce for each in self._questions}
        if asked != self._found.keys():
            self._wake.set()

    async def run(self) -> None:
        """Asks, until cancelled."""
        while self._door is not None:
            await self._wake.wait()
            self._wake.clear()
            new = [each for each in self._questions if each.nonce not in self._found]
            made = await asyncio.gather(*(self._asked(self._door, each) for each in new))
            found = {**self._found, **{each.nonce: each for each in made}}
            self._found = {each.nonce: found[each.nonce] for each in self._questions if each.nonce in found}
            self._tell(encoded(tuple(self._found.values())))

    async def _asked(self, door: Door, question: Question) -> Statement:
        """What the target answers, or that it does not."""
        to, answered = door_of(question.door), None
        assert to is not None, "what cannot be asked is no question"
        waits = self._awaited[question.nonce] = asyncio.get_running_loop().create_future()
        try:
            for _ in range(TRIES):
                door.send(ask(question.nonce), to)
                done, _ = await asyncio.wait((waits,), timeout=TRY_S)
                if done:
                    answered = waits.result()
                    break
        finally:
            self._awaited.pop(question.nonce, None)
        result = heard(question, answered)
        api = result is Heard.YES and answered is not None and answered.hears_api
        return Statement(question.node, question.boot_id, question.nonce, result, api)

    def _took(self, data: bytes, sender: tuple[str, int]) -> None:
        if (found := said(data)) is not None:
            waits = self._awaited.get(found.nonce)
            if waits is not None and not waits.done():
                waits.set_result(found)
            return
        reply = answer(data, self._boot_id, hears_api=self._hears_api())
        if reply is not None and self._door is not None:
            self._door.send(reply, sender)
