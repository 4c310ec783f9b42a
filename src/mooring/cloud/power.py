"""The machines behind instances, at a Unix socket: one line is an order, `on i-...` or `off i-...`; one line
is the answer, `done`, or what went wrong. What listens there answers `done` to `off` when nothing of the
machine runs any more.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mooring.cloud.interface import PowerUnknown
from mooring.mounts.machine_ports import short_path

ANSWER_S = 60.0
LINE_BYTES = 4096


class SocketPower:
    """See `Power`."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def on(self, instance_id: str) -> None:
        """Boots it. Raises PowerUnknown."""
        await self._order(f"on {instance_id}")

    async def off(self, instance_id: str) -> None:
        """Cuts its power. Raises PowerUnknown."""
        await self._order(f"off {instance_id}")

    async def _order(self, order: str) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                with short_path(Path(self._socket)) as address:
                    reader, writer = await asyncio.open_unix_connection(address, limit=LINE_BYTES)
                try:
                    writer.write(f"{order}\n".encode())
                    answer = (await reader.readline()).decode(errors="replace").strip()
                finally:
                    writer.close()
        except (OSError, ValueError) as error:
            raise PowerUnknown(f"{self._socket}: {order}: {error}") from error
        if answer != "done":
            raise PowerUnknown(f"{order}: {answer or 'no answer'}")
