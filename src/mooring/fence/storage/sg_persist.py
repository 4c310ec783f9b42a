"""One disk's persistent reservation, looked at and changed by sg_persist (SPC-4, 5.12).

A disk that was just connected, or whose reservation another has changed, says so once (unit attention), and
does nothing else: it is asked again. What failed may have been done all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mooring.fence.storage import reservations
from mooring.fence.storage.reservations import OUR_TYPE, Reservation

AGAIN = 2
UNIT_ATTENTION = 6
"""sg_persist's exit status (sg3_utils(8))."""


class Failed(Exception):
    """A disk did not answer as it should."""


class Said(Protocol):
    """How a program ended, and what it printed."""

    @property
    def status(self) -> int | None: ...
    @property
    def output(self) -> str: ...
    @property
    def errors(self) -> str: ...
    def words(self) -> str: ...


class Run(Protocol):
    """Runs a program to its end, or its deadline."""

    async def __call__(self, *words: str) -> Said: ...


class ReservedForOne(Failed):
    """A reservation of a type under which its holder alone may write."""


class Disk:
    """The disk at one path of the machine that looks. All raise Failed, or Unreadable."""

    def __init__(self, device: str, run: Run) -> None:
        self.device, self._run = device, run

    async def read(self) -> tuple[set[int], Reservation]:
        """The keys that are registered, and the reservation."""
        found = reservations.keys(await self._in("--read-keys"))
        return found, reservations.reservation(await self._in("--read-reservation"))

    async def unregister(self, own: int) -> None:
        """Takes this path's registration under that key back; a reservation of its own goes with it."""
        await self._out("--register", f"--param-rk={hex(own)}", "--param-sark=0")

    async def seize(self, own: int, others: Iterable[int]) -> bool:
        """Registers this path under its own key, whatever it was registered under; keeps what is not
        registered from writing; takes the others' registrations away. Whether the commands of all those
        others are ended, too. Raises ReservedForOne: then nothing was changed."""
        _, held = await self.read()
        if held.type < 0:
            raise ReservedForOne(
                f"{self.device} is reserved for one machine alone ({hex(held.holder)}): it is left as it is"
            )
        await self._out("--register-ignore", f"--param-sark={hex(own)}")
        if not held.type:
            await self._out("--reserve", f"--param-rk={hex(own)}", f"--prout-type={OUR_TYPE}")
        aborted = True
        for key in sorted(others):
            words = (f"--param-rk={hex(own)}", f"--param-sark={hex(key)}")
            kind = f"--prout-type={held.type or OUR_TYPE}"
            if (await self._do("--out", "--preempt-abort", *words, kind)).status != 0:
                await self._out("--preempt", *words, kind)
                aborted = False
        return aborted

    async def _in(self, what: str) -> str:
        ended = await self._do("--in", what)
        if ended.status != 0:
            raise Failed(f"{self.device}: sg_persist {what}: {_said(ended)}")
        return ended.output

    async def _out(self, what: str, *words: str) -> None:
        ended = await self._do("--out", what, *words)
        if ended.status != 0:
            raise Failed(f"{self.device}: sg_persist {what}: {_said(ended)}; it may have been done")

    async def _do(self, *words: str) -> Said:
        ended, again = await self._run("sg_persist", *words, self.device), 0
        while ended.status == UNIT_ATTENTION and again < AGAIN:
            ended, again = await self._run("sg_persist", *words, self.device), again + 1
        return ended


def _said(ended: Said) -> str:
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"
