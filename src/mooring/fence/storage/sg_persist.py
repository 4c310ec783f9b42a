"""One disk's persistent reservation, looked at and changed by sg_persist (SPC-4, 5.12).

A disk that was just connected, or whose reservation another has changed, says so once (unit attention), and
does nothing else: it is asked again.
"""

from __future__ import annotations

from mooring.fence.storage import reservations
from mooring.fence.storage.reservations import Reservation
from mooring.fence.storage.reserved import Failed, ReservedDisk, Said, said

AGAIN = 2
UNIT_ATTENTION = 6
"""sg_persist's exit status (sg3_utils(8))."""


class Disk(ReservedDisk):
    """See `ReservedDisk`."""

    our_type = 5
    not_ended = (
        "PreemptedOnly",
        "that the disk has aborted the commands of all that had its keys is not known: one may still be carried "
        "out",
    )

    async def read(self) -> tuple[set[int], Reservation]:
        """See `ReservedDisk`."""
        found = reservations.keys(await self._in("--read-keys"))
        return found, reservations.reservation(await self._in("--read-reservation"))

    async def unregister(self, own: int) -> None:
        """See `ReservedDisk`."""
        await self._out("--register", f"--param-rk={hex(own)}", "--param-sark=0")

    async def _register(self, own: int) -> None:
        await self._out("--register-ignore", f"--param-sark={hex(own)}")

    async def _replace(self, own: int, new: int) -> None:
        await self._out("--register", f"--param-rk={hex(own)}", f"--param-sark={hex(new)}")

    async def _reserve(self, own: int) -> None:
        await self._out("--reserve", f"--param-rk={hex(own)}", f"--prout-type={self.our_type}")

    async def _preempt(self, own: int, other: int, kind: int) -> bool:
        words = (f"--param-rk={hex(own)}", f"--param-sark={hex(other)}", f"--prout-type={kind}")
        if (await self._do("--out", "--preempt-abort", *words)).status == 0:
            return True
        await self._out("--preempt", *words)
        return False

    async def _in(self, what: str) -> str:
        ended = await self._do("--in", what)
        if ended.status != 0:
            raise Failed(f"{self.device}: sg_persist {what}: {said(ended)}")
        return ended.output

    async def _out(self, what: str, *words: str) -> None:
        ended = await self._do("--out", what, *words)
        if ended.status != 0:
            raise Failed(f"{self.device}: sg_persist {what}: {said(ended)}; it may have been done")

    async def _do(self, *words: str) -> Said:
        ended, again = await self._run("sg_persist", *words, self.device), 0
        while ended.status == UNIT_ATTENTION and again < AGAIN:
            ended, again = await self._run("sg_persist", *words, self.device), again + 1
        return ended
