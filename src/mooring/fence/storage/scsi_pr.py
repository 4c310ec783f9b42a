"""Takes a machine's registration at SCSI disks away (sg_persist): see `registrations`.

multipathd must not register for the machine either (no `reservation_key` in its configuration). A target
without APTPL (tgt) forgets reservations when it loses power, which `look` then finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.fence.interface import Mechanism, Order
from mooring.fence.storage import reserved
from mooring.fence.storage.registrations import Registrations
from mooring.fence.storage.sg_persist import Disk


class ScsiPr(Registrations):
    """See `Mechanism`."""

    kind = "scsi-pr"
    summary = "Takes a machine's registration at SCSI disks away (persistent reservations)"
    needs: ClassVar[Mapping[str, str]] = {"sg_persist": "sg3-utils"}

    def disk(self, device: str, order: Order, run: reserved.Run) -> Disk:
        """See `Registrations`."""
        return Disk(device, run)


def mechanism() -> Mechanism:
    """For the registry."""
    return ScsiPr()
