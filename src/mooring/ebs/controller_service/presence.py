"""Whether the volume or snapshot that a request names exists.

EC2 may not yet show one that this process or its predecessor has just made, and one that it has shown may be
missing in the next answer. So the answer "there is none" is given only when it is proven (`settling`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mooring.csi.errors import Code, CsiError
from mooring.ebs.ec2.describe import Describe, could_be
from mooring.ebs.ec2.records import Snapshot, Volume
from mooring.ebs.ec2.settling import Settling

AGAIN_S = 1.0

_T = TypeVar("_T")


def making(id: str) -> str:
    """The key for `Settling.note` of the change that makes the volume or snapshot."""
    return f"make {id}"


def is_absent(settling: Settling, requested_at: float, prefix: str, id: str) -> bool:
    """Whether an answer without the object, requested at `requested_at`, proves that the object does not
    exist."""
    return not could_be(prefix, id) or settling.proves(requested_at, making(id))


async def volume_there(describe: Describe, settling: Settling, id: str) -> Volume:
    """The volume. Raises CsiError, NOT_FOUND; EbsError."""
    found = await _there(describe.volume, settling, "vol", id)
    if found is None:
        raise CsiError(Code.NOT_FOUND, f"there is no volume {id}")
    return found


async def snapshot_there(describe: Describe, settling: Settling, id: str) -> Snapshot:
    """The snapshot. Raises CsiError, NOT_FOUND; EbsError."""
    found = await _there(describe.snapshot, settling, "snap", id)
    if found is None:
        raise CsiError(Code.NOT_FOUND, f"there is no snapshot {id}")
    return found


async def _there(
    look: Callable[[str], Awaitable[_T | None]], settling: Settling, prefix: str, id: str
) -> _T | None:
    while True:
        requested_at = settling.now()
        found = await look(id)
        if found is not None or is_absent(settling, requested_at, prefix, id):
            return found
        await asyncio.sleep(AGAIN_S)
