"""One disk's persistent reservation, looked at and changed by a program: what SCSI and NVMe have in common.

Who is registered under a key may write; who is not may not, while a reservation for registrants is held. What
failed may have been done all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Set
from typing import ClassVar, Protocol

from mooring.fence.storage.reservations import Reservation, ended_key


class Failed(Exception):
    """A disk did not answer as it should."""


class ReservedForOne(Failed):
    """A reservation of a type under which its holder alone may write."""


class WrongTarget(Failed):
    """What is registered there is not the machine's that is meant."""


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


class ReservedDisk(ABC):
    """The disk at one path of the machine that looks. All raise Failed, or Unreadable."""

    our_type: ClassVar[int]
    """Of the reservation that is made: write exclusive, registrants only."""
    not_ended: ClassVar[tuple[str, str]]
    """Code and message where `shut_out` is False."""

    def __init__(self, device: str, run: Run) -> None:
        self.device, self._run = device, run

    @abstractmethod
    async def read(self) -> tuple[set[int], Reservation]:
        """The keys that are registered, and the reservation."""

    async def registered(self, keys: Set[int]) -> tuple[set[int], Reservation]:
        """The keys under which the machine is registered that has these, and the reservation."""
        found, held = await self.read()
        return found & keys, held

    @abstractmethod
    async def unregister(self, own: int) -> None:
        """Takes this path's registration under that key back; a reservation of its own goes with it."""

    async def seize(self, own: int, others: Iterable[int]) -> bool:
        """Registers this path under its own key, whatever it was registered under; keeps what is not
        registered from writing; takes the others' registrations away. Whether the commands of all those
        others are ended, too. Raises ReservedForOne: then nothing was changed."""
        _, held = await self.read()
        if held.type < 0:
            raise ReservedForOne(
                f"{self.device} is reserved for one machine alone ({hex(held.holder)}): it is left as it is"
            )
        await self._register(own)
        if not held.type:
            await self._reserve(own)
        ended = [await self._preempt(own, key, held.type or self.our_type) for key in sorted(others)]
        return all(ended)

    async def shut_out(self, own: int, others: Set[int], keys: Set[int]) -> bool:
        """As `seize`; and writes down at the disk, by the `ended_key`, that the commands of all that had
        these keys are ended. A call that comes later has nothing to preempt, and would not know: so it is
        False where a key was not there to be preempted and nothing is written down."""
        found, held = await self.read()
        if not others and held.type > 0 and ended_key(own) in found:
            return True
        if not await self.seize(own, others) or not keys <= others or (await self.registered(keys))[0]:
            return False
        await self._replace(own, ended_key(own))
        return True

    async def give_back(self, own: int) -> bool:
        """Takes what `shut_out` has registered back; whether it is gone."""
        for key in (await self.read())[0] & {own, ended_key(own)}:
            await self.unregister(key)
        return not (await self.read())[0] & {own, ended_key(own)}

    @abstractmethod
    async def _register(self, own: int) -> None: ...
    @abstractmethod
    async def _replace(self, own: int, new: int) -> None: ...
    @abstractmethod
    async def _reserve(self, own: int) -> None: ...
    @abstractmethod
    async def _preempt(self, own: int, other: int, kind: int) -> bool:
        """Whether the commands of those that had that key are ended, too."""


def said(ended: Said) -> str:
    """How it ended, and the first line that it said of it."""
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"
