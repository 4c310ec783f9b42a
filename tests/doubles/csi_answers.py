"""What a CSI driver answers."""

from __future__ import annotations

from collections.abc import Awaitable

from mooring.csi.errors import Code, CsiError


async def code_of(call: Awaitable[object]) -> Code:
    """The code with which a call ends."""
    try:
        await call
    except CsiError as error:
        return error.code
    return Code.OK
