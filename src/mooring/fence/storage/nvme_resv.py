"""One NVMe namespace's reservation, looked at and changed by nvme-cli (NVM Express Base Specification,
Reservations).

A registration is a host's, by its host identifier, and holds at all of its controllers. So a key alone does
not tell a machine: what the machine's host identifiers are registered under counts as its own, and a key of
its own that another host has, too, is left alone (WrongTarget).

Nothing is preempted without abort: a controller that knows reservations knows PREEMPT AND ABORT.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from mooring.fence.identity import same_uuid
from mooring.fence.storage import nvme_report
from mooring.fence.storage.nvme_report import Report
from mooring.fence.storage.reservations import Reservation, ended_key
from mooring.fence.storage.reserved import Failed, ReservedDisk, Run, Said, WrongTarget, said

REGISTER, UNREGISTER, REPLACE = 0, 1, 2
"""Reservation Register Action."""
ACQUIRE, PREEMPT_AND_ABORT = 0, 2
"""Reservation Acquire Action."""


class Namespace(ReservedDisk):
    """See `ReservedDisk`. `hosts`: the machine's host identifiers."""

    our_type = 3
    not_ended = (
        "AbortNotSeen",
        "that its keys were preempted and its commands aborted is not known: one may still be carried out",
    )

    def __init__(self, device: str, hosts: Sequence[str], run: Run) -> None:
        super().__init__(device, run)
        self._hosts = hosts

    async def read(self) -> tuple[set[int], Reservation]:
        """See `ReservedDisk`."""
        report = await self._report()
        return {each.key for each in report.registrants}, report.reservation

    async def registered(self, keys: Set[int]) -> tuple[set[int], Reservation]:
        """See `ReservedDisk`. Raises WrongTarget."""
        report = await self._report()
        own = {each.key for each in report.registrants if self._is_its(each.host)}
        for each in report.registrants:
            if each.key in keys | own and not self._is_its(each.host):
                raise WrongTarget(
                    f"{self.device}: {hex(each.key)} is registered by the host {each.host}, which is another"
                )
        return own, report.reservation

    async def shut_out(self, own: int, others: Set[int], keys: Set[int]) -> bool:
        """See `ReservedDisk`. Raises WrongTarget."""
        if others & {own, ended_key(own)}:
            raise WrongTarget(f"{self.device}: the fence's own machine has one of those host identifiers")
        return await super().shut_out(own, others, keys)

    async def unregister(self, own: int) -> None:
        """See `ReservedDisk`."""
        await self._change("resv-register", UNREGISTER, crkey=own)

    async def _register(self, own: int) -> None:
        # A host that is registered under another key is refused; one that is not has none to replace.
        ended = await self._order("resv-register", REGISTER, nrkey=own)
        if ended.status != 0:
            await self._change("resv-register", REPLACE, "--iekey", nrkey=own)

    async def _replace(self, own: int, new: int) -> None:
        await self._change("resv-register", REPLACE, crkey=own, nrkey=new)

    async def _reserve(self, own: int) -> None:
        await self._change("resv-acquire", ACQUIRE, f"--rtype={self.our_type}", crkey=own)

    async def _preempt(self, own: int, other: int, kind: int) -> bool:
        await self._change("resv-acquire", PREEMPT_AND_ABORT, f"--rtype={kind}", crkey=own, prkey=other)
        return True

    async def _report(self) -> Report:
        ended = await self._run("nvme", "resv-report", self.device, "--eds", "--output-format=json")
        if ended.status != 0:
            raise Failed(f"{self.device}: nvme resv-report: {said(ended)}")
        return nvme_report.parse(ended.output)

    async def _change(self, what: str, action: int, *words: str, **keys: int) -> None:
        ended = await self._order(what, action, *words, **keys)
        if ended.status != 0:
            raise Failed(f"{self.device}: nvme {what}: {said(ended)}; it may have been done")

    async def _order(self, what: str, action: int, *words: str, **keys: int) -> Said:
        name = "--rrega" if what == "resv-register" else "--racqa"
        given = [f"--{key}={hex(value)}" for key, value in keys.items()]
        return await self._run("nvme", what, self.device, f"{name}={action}", *words, *given)

    def _is_its(self, host: str) -> bool:
        return any(same_uuid(host, each) for each in self._hosts)
