"""What the demo and the tests see of a power loss: whether any write of the old machine gets through after
it.

Of a machine that shares this host's kernel, a file that was opened in it before: every later write to it has
to fail. Of a machine with a kernel of its own, its processes: none may be left. And of both the disk itself:
not a byte of it may change until another node has it (`content`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
from pathlib import Path
from typing import Protocol

from mooring.cluster.stage import Stage

UNSYNCED = b"never synced\n" * 1000


class PowerWitness(Protocol):
    """Writes a file that is never synced, and looks on while the machine loses its power."""

    async def begin(self) -> None:
        """Writes `UNSYNCED` to the file `unsynced` of the volume."""
        ...

    async def after(self, killing: asyncio.Task[tuple[int, str]]) -> str:
        """Waits for the power loss; how a later write ended: `EIO`, `nothing runs`, or `succeeded`."""
        ...


class SharedKernel:
    """Through a file that is open on the machine's mount."""

    def __init__(self, mount: Path) -> None:
        self._mount = mount
        self._file = -1

    async def begin(self) -> None:
        self._file = os.open(self._mount / "unsynced", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(self._file, UNSYNCED)

    async def after(self, killing: asyncio.Task[tuple[int, str]]) -> str:
        """Goes on writing until that fails. Then lets the file go: as long as any process holds it, the
        kernel keeps the device."""
        try:
            while not killing.done():
                os.pwrite(self._file, b"late\n", 0)
                await asyncio.sleep(0.005)
            os.fsync(self._file)
            return "succeeded"
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))
        finally:
            with contextlib.suppress(OSError):
                os.close(self._file)


class OwnKernel:
    """By the processes that could still write."""

    def __init__(self, stage: Stage, node: str, disk: str) -> None:
        self._stage, self._node, self._disk = stage, node, disk

    async def begin(self) -> None:
        where = self._stage.truth.staged_at(self._disk, self._node)
        script = f"yes 'never synced' | head -c {len(UNSYNCED)} > '{where}/unsynced'"
        status, output = await self._stage.run_in(self._node, script)
        assert status == 0, output

    async def after(self, killing: asyncio.Task[tuple[int, str]]) -> str:
        await killing
        return "succeeded" if self._stage.has_power(self._node) else "nothing runs"


def content(stage: Stage, disk: str) -> str:
    """A checksum of all that is on a disk: what nothing writes to does not change. Blocks."""
    with stage.truth.medium(disk).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
