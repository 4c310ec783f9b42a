"""Batches of questions: a loop gathers questions of one kind and puts them to EC2 in one call.

Guarantees: a question is answered by a call that began after it, never by an older one. The first question
after a quiet time waits only `gather_s` for others; while questions keep coming, there is one call per
`every_s`. Cancelling a caller takes effect at once and does not affect the others. Equal questions share a
place. A bad name costs only its own caller: the names in EC2's error are taken out, and the rest is sent
again at once; if the error names none of them, the batch is halved until it does. It must not know what the
questions are about.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from mooring.ebs.errors import Ec2Error

_Answer = TypeVar("_Answer")
Ask = Callable[[Sequence[str]], Awaitable[Mapping[str, _Answer]]]

_BETWEEN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
GATHER_S = 0.02
EVERY_S = 1.0


class Batches(Generic[_Answer]):
    """One kind of question. `ask` puts up to `largest` of them to EC2 in one call; its result lacks the names
    that EC2 does not know. `concerns_names` tells errors about some of the names from errors of the call."""

    def __init__(
        self,
        ask: Ask[_Answer],
        *,
        largest: int,
        concerns_names: Callable[[Ec2Error], bool],
        gather_s: float = GATHER_S,
        every_s: float = EVERY_S,
    ) -> None:
        self._ask = ask
        self._largest = largest
        self._concerns_names = concerns_names
        self._gather_s = gather_s
        self._every_s = every_s
        self._waiting: dict[str, asyncio.Future[_Answer | None]] = {}
        self._loop: asyncio.Task[None] | None = None
        self._called_at = float("-inf")

    async def get(self, name: str) -> _Answer | None:
        """The answer; None if EC2 does not know the name. Raises what the call raised."""
        answer = self._waiting.get(name)
        if answer is None:
            answer = self._waiting[name] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_seen)
        if self._loop is None:
            self._loop = asyncio.get_running_loop().create_task(self._run())
        return await asyncio.shield(answer)

    async def _run(self) -> None:
        time = asyncio.get_running_loop().time
        try:
            while self._waiting:
                await asyncio.sleep(max(self._gather_s, self._called_at + self._every_s - time()))
                names = list(self._waiting)[: self._largest]
                answers = {name: self._waiting.pop(name) for name in names}
                self._called_at = time()
                await self._answer(answers)
        finally:
            self._loop = None
            for answer in self._waiting.values():
                answer.cancel()
            self._waiting.clear()

    async def _answer(self, answers: Mapping[str, asyncio.Future[_Answer | None]]) -> None:
        try:
            found = await isolated(list(answers), self._ask, self._concerns_names)
        except asyncio.CancelledError:
            for answer in answers.values():
                answer.cancel()
            raise
        except Exception as error:
            for answer in answers.values():
                answer.set_exception(error)
            return
        for name, answer in answers.items():
            answer.set_result(found.get(name))


async def isolated(
    names: Sequence[str], ask: Ask[_Answer], concerns_names: Callable[[Ec2Error], bool]
) -> Mapping[str, _Answer]:
    """The answers for the names that EC2 knows, without those that it complains of."""
    left: list[str] = list(names)
    while left:
        try:
            return await ask(left)
        except Ec2Error as error:
            if not concerns_names(error):
                raise
            if len(left) == 1:
                return {}
            message = error.message
        blamed = set(left) & set(_BETWEEN_NAMES.split(message))
        if not blamed or len(blamed) == len(left):
            # The error names none of the ids, or all of them, which some stand-ins for EC2 do for any cause.
            half = len(left) // 2
            first = await isolated(left[:half], ask, concerns_names)
            return {**first, **await isolated(left[half:], ask, concerns_names)}
        left = [name for name in left if name not in blamed]
    return {}


def _seen(answer: asyncio.Future[_Answer | None]) -> None:
    """Retrieves the error, so that asyncio does not log it when all callers have gone."""
    if not answer.cancelled():
        answer.exception()
