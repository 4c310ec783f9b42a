"""Takes a machine's registration at NVMe namespaces away (nvme-cli): see `registrations`.

A machine is known by its host identifiers (`/etc/nvme/hostid`), which have to differ between all machines,
the controller's too. PREEMPT AND ABORT is answered also by controllers that abort as well as they can: it is
FENCED only where `aborts` says `complete`, or else UNKNOWN (MayNotAbort).

Not tried with a real device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from mooring.fence.identity import is_uuid
from mooring.fence.interface import Answer, Mechanism, Order, Outcome, Parameter
from mooring.fence.storage import reserved
from mooring.fence.storage.clients import listed
from mooring.fence.storage.nvme_resv import Namespace
from mooring.fence.storage.registrations import PARAMETERS, Registrations


class NvmePr(Registrations):
    """See `Mechanism`."""

    kind = "nvme-pr"
    summary = "Takes a machine's registration at NVMe namespaces away (reservations)"
    needs: ClassVar[Mapping[str, str]] = {"nvme": "nvme-cli"}
    parameters: Mapping[str, Parameter] = {
        **PARAMETERS,
        "devices": replace(
            PARAMETERS["devices"], summary="Paths of the namespaces on the controller's machine, with commas"
        ),
        "hosts": Parameter(
            "The machine's host identifiers (/etc/nvme/hostid), with commas", required=True, per_node=True
        ),
        "aborts": Parameter(
            "complete: a preempted host's commands have ended once its preemption is answered; else UNKNOWN is "
            "the answer"
        ),
    }

    def disk(self, device: str, order: Order, run: reserved.Run) -> Namespace:
        """See `Registrations`."""
        return Namespace(device, listed(order.parameters["hosts"]), run)

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        wrong = [each for each in listed(given.get("hosts", "")) if not is_uuid(each)]
        return [
            *super().problems(order),
            *(f"hosts: {each!r} is no host identifier of 128 bits" for each in wrong),
            *(
                []
                if given.get("aborts", "complete") == "complete"
                else ["aborts is `complete`, or not given"]
            ),
        ]

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        answer = await super().fence(order)
        if answer.outcome is not Outcome.FENCED or order.parameters.get("aborts") == "complete":
            return answer
        message = "its keys are gone, but whether its last commands have ended depends on the device (aborts)"
        return Answer(Outcome.UNKNOWN, "MayNotAbort", message, before=answer.before)


def mechanism() -> Mechanism:
    """For the registry."""
    return NvmePr()
