"""What the disks of a played array are like: attributes (a CSI driver's mutable parameters) that can be
changed while a disk is used.

What is asked for one disk is carried out one after the other, as a CSI driver has to do it (ABORTED while
another request for the same volume is pending): a change that takes effect after its sender was told of an
error is made before the next one is. Like all that the storage does, it goes on if the sender dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

from mooring.key_locks import KeyLocks
from mooring.simulation.parts.storage_errors import Infeasible, Unanswered
from mooring.volumes.errors import VolumeError, VolumeNotFound

REFUSED = "bad"
"""A parameter that the storage does not know."""


class Disks(Protocol):
    """What an array is to the attributes of its disks."""

    disks: set[str]
    attach_s: float
    at_work: asyncio.Event
    failure: Exception | None
    unanswered: Callable[[], bool]
    puts_off: Callable[[], float]
    asked_by: Callable[[], str]
    journal: Callable[..., None]
    carry_out: Callable[[Coroutine[Any, Any, None]], Awaitable[None]]
    leave_it: Callable[[Coroutine[Any, Any, None]], object]


class DiskAttributes:
    """Those of one array's disks."""

    def __init__(self, array: Disks) -> None:
        self._array = array
        self._has: dict[str, str] = {}
        self._first: dict[str, str] = {}  # as what they were made
        self._turns = KeyLocks()

    def may_begin(self, disk: str, attributes: Mapping[str, str]) -> bool:
        """Whether a disk is not there, or was made like this."""
        return disk not in self._array.disks or self._first.get(disk, "") == in_text(attributes)

    def begin(self, disk: str, attributes: Mapping[str, str]) -> None:
        """A disk is made like this; idempotent."""
        if attributes and disk not in self._first:
            self._first[disk] = in_text(attributes)
            self._make(disk, attributes)

    async def change(self, disk: str, attributes: Mapping[str, str]) -> None:
        """Idempotent. Raises `VolumeNotFound`, `Infeasible`."""
        told = {"volume": disk, "attributes": in_text(attributes), "by": self._array.asked_by()}
        self._array.journal("array", "truth.modifying", **told)
        try:
            await self._change(disk, attributes)
        finally:
            self._array.journal("array", "truth.modify-answered", **told)

    async def _change(self, disk: str, attributes: Mapping[str, str]) -> None:
        if seconds := self._array.puts_off():
            self._array.journal("array", "truth.modify-put-off", volume=disk, seconds=round(seconds, 3))
            self._array.leave_it(self._later(disk, attributes, seconds))
            raise VolumeError(f"changing {disk}: internal error")
        await self._array.carry_out(self._in_turn(disk, attributes, self._array.attach_s))
        if self._array.unanswered():
            raise Unanswered(f"changing {disk}: no answer")

    async def _later(self, disk: str, attributes: Mapping[str, str], seconds: float) -> None:
        try:
            await self._in_turn(disk, attributes, seconds)
        except VolumeError as error:
            self._array.journal("array", "truth.modify-given-up", volume=disk, why=str(error))

    async def _in_turn(self, disk: str, attributes: Mapping[str, str], seconds: float) -> None:
        async with self._turns[disk]:
            await self._array.at_work.wait()
            await asyncio.sleep(seconds)
            if self._array.failure is not None:
                raise self._array.failure
            self._make(disk, attributes)

    def _make(self, disk: str, attributes: Mapping[str, str]) -> None:
        if disk not in self._array.disks:
            raise VolumeNotFound(disk)
        if REFUSED in attributes:
            raise Infeasible(f"the parameter {REFUSED} is not known")
        if self._has.get(disk) != (wanted := in_text(attributes)):
            self._has[disk] = wanted
            self._array.journal("array", "truth.modified", volume=disk, attributes=wanted)


def in_text(attributes: Mapping[str, str]) -> str:
    """One word for them, in which they can be compared."""
    return ",".join(f"{key}={value}" for key, value in sorted(attributes.items()))
