"""How many volumes of this driver an instance may have. Pure, but for reading the table.

    limit = attachments of the type − network interfaces beyond the first − attachments of others,
            and at least 1

The second term is for types whose attachments share slots with network interfaces ("shared"). Attachments of
others are the root device and the volumes with which the instance was launched. The only list of these
without a call to EC2 is the metadata service's. It dates from the instance's last start, and includes this
driver's own volumes that were attached then: counting those made the limit smaller with each restart
(upstream #2796). Device names distinguish them: /dev/xvdaa to /dev/xvddz are this driver's (`device_names`),
which no image or launch template has a reason to use. The driver gives other names only when all of these are
taken; a volume under such a name is counted as another's, which makes the limit smaller, never too large.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("attachment_limits.json")

_OURS = re.compile(r"(/dev/)?(xvd|sd)[a-d][a-z]")


@dataclass(frozen=True)
class TypeLimit:
    """The limits of an instance type, from EC2's DescribeInstanceTypes (EbsInfo)."""

    attachments: int
    """Includes the root device's; for a shared type, excludes the first network interface's."""
    shared: bool
    cards: int = 1


UNKNOWN_TYPE = TypeLimit(27, shared=True)
"""The limits of most types, assumed for types that are newer than the table."""


@cache
def table() -> Mapping[str, TypeLimit]:
    """All known types. `scripts/instance_types.py` writes the file."""
    rows: dict[str, tuple[int, str, int]] = json.loads(TABLE.read_text())
    return {name: TypeLimit(count, kind == "shared", cards) for name, (count, kind, cards) in rows.items()}


def of_type(instance_type: str) -> TypeLimit:
    """The limit of the type; `UNKNOWN_TYPE` for one that is not in the table."""
    return table().get(instance_type, UNKNOWN_TYPE)


def others(boot_volumes: Iterable[str]) -> int:
    """The number of volumes with these device names (without the root) that are not this driver's."""
    return sum(not _OURS.fullmatch(name) for name in boot_volumes)


def max_volumes(limit: TypeLimit, taken: int) -> int:
    """The number of this driver's volumes that an instance of the type may have. `taken`: attachments of
    others, the root device's included, and for a shared type the network interfaces beyond the first. At
    least 1, because an orchestrator takes 0 for "no limit"."""
    return max(1, limit.attachments - taken)
