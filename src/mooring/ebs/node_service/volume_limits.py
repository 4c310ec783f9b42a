"""How many volumes of this driver an instance may have. Pure, but for reading the table.

    limit = attachments of the type − network interfaces beyond the first − attachments of others,
            and at least 1

The second term is for types whose attachments share slots with network interfaces ("shared"). Attachments of
others are the root device and what the instance was launched with. The only list of these without a call to
EC2 is the metadata service's, made when the instance was last started, and it has this driver's own volumes
too if they were attached then: counting these made the limit smaller with each restart (upstream #2796). They
are told apart by their device names: /dev/xvdaa to /dev/xvddz are this driver's (`device_names`), which no
image or launch template has a reason to use. It gives other names only when all of these are taken; a volume
under such a name is counted by mistake, which makes the limit smaller, never too large.
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
    """What EC2's DescribeInstanceTypes says of an instance type (EbsInfo)."""

    attachments: int
    """The root device's is one of them; of a shared type the first network interface is not."""
    shared: bool
    cards: int = 1


UNKNOWN_TYPE = TypeLimit(27, shared=True)
"""What most types have: for types that are younger than the table."""


@cache
def table() -> Mapping[str, TypeLimit]:
    """All types that are known. `scripts/instance_types.py` writes the file."""
    rows: dict[str, tuple[int, str, int]] = json.loads(TABLE.read_text())
    return {name: TypeLimit(count, kind == "shared", cards) for name, (count, kind, cards) in rows.items()}


def of_type(instance_type: str) -> TypeLimit:
    """The limit of the type, or what is assumed for one that is not known."""
    return table().get(instance_type, UNKNOWN_TYPE)


def others(boot_volumes: Iterable[str]) -> int:
    """How many of the volumes with these device names, the root's not among them, are not this driver's."""
    return sum(not _OURS.fullmatch(name) for name in boot_volumes)


def max_volumes(limit: TypeLimit, network_interfaces: int, reserved: int) -> int:
    """Volumes of this driver that an instance of the type may have; `reserved` attachments are others', the
    root device's included. At least 1, because an orchestrator takes 0 for "any number"."""
    taken = max(0, network_interfaces - 1) if limit.shared else 0
    return max(1, limit.attachments - taken - reserved)
