"""A cgroup (version 2) of its own for each machine: what is true of its power, and how it ends for certain.

A process of the machine cannot leave it, whatever session, namespace or parent it gives itself; so "off" is
"the kernel says that the group is empty". Pid files and answers of what was asked to end are not believed.
Only the hierarchy itself is needed, no controller, so it works where controllers are mounted as version 1.
Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

PARENT = "mooring"
PATIENCE_S = 10.0
_MOUNTS = Path("/proc/self/mountinfo")


@cache
def hierarchy(mounts: Path = _MOUNTS) -> Path | None:
    """Where cgroups of version 2 are mounted so that groups can be made there; None if nowhere: it
    stays so while this process runs. Blocks at the first call."""
    for line in mounts.read_text().splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] != "cgroup2":
            continue
        root = Path(fields[4].encode().decode("unicode_escape"))
        try:
            (root / PARENT).mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(root / PARENT, os.W_OK):
            return root
    return None


def of(data_dir: Path, machine: str) -> Cgroup | None:
    """The group of a machine of the cluster in `data_dir`; None where there are no groups. Blocks."""
    root = hierarchy()
    return Cgroup(root / PARENT / cluster(data_dir) / machine) if root is not None else None


def cluster(data_dir: Path) -> str:
    """A short name that the cluster in this directory has, and no other."""
    return hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]


def remove_empty(data_dir: Path) -> list[str]:
    """Kills what is left of the cluster's machines, removes their groups; the machines that still ran.
    Blocks."""
    root = hierarchy()
    if root is None:
        return []
    parent = root / PARENT / cluster(data_dir)
    found: list[str] = []
    for path in sorted(parent.iterdir()) if parent.is_dir() else ():
        if path.is_dir():
            group = Cgroup(path)
            found += [path.name] if group.populated() else []
            group.kill()
            group.remove()
    for path in (parent, root / PARENT):
        with contextlib.suppress(OSError):  # another machine or cluster has its group in it
            path.rmdir()
    return found


class Cgroup:
    """One group."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Idempotent. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)

    def entering(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` in the group, from its first instruction on."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def populated(self) -> bool:
        """Whether any process, also of groups below, is in it."""
        return self._event("populated")

    def frozen(self) -> bool:
        """Whether all of its processes stand still."""
        return self._event("frozen")

    def _event(self, name: str) -> bool:
        try:
            lines = (self.path / "cgroup.events").read_text().splitlines()
        except (FileNotFoundError, OSError):
            return False  # the group does not exist, so nothing can be in it
        return f"{name} 1" in lines

    def processes(self) -> list[int]:
        """Its pids, not those of groups below."""
        try:
            return [int(word) for word in (self.path / "cgroup.procs").read_text().split()]
        except (FileNotFoundError, OSError):
            return []

    def freeze(self, frozen: bool) -> None:
        """Stops, or lets run, all that is in it. Raises OSError if there is no such group."""
        (self.path / "cgroup.freeze").write_text("1" if frozen else "0")

    def kill(self) -> None:
        """Kills all that is in it and looks that it is empty before it returns. Blocks. Raises TimeoutError,
        which names what is left."""
        deadline = time.monotonic() + PATIENCE_S
        while self.populated():
            with contextlib.suppress(FileNotFoundError):
                (self.path / "cgroup.kill").write_text("1")
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"processes {', '.join(map(str, self.processes()))} of {self.path.name} do not end, even by SIGKILL"
                )
            time.sleep(0.005)

    def remove(self) -> None:
        """Removes the empty group and those below; nothing happens if there is none. Blocks."""
        for below in sorted(self.path.rglob("*"), reverse=True) if self.path.is_dir() else ():
            if below.is_dir():
                below.rmdir()
        with contextlib.suppress(FileNotFoundError):
            self.path.rmdir()

    async def until_empty(self, look_s: float = 0.05) -> None:
        """Waits until nothing is in it."""
        while self.populated():  # noqa: ASYNC110 - the kernel tells it by POLLPRI, which event loops do not read
            await asyncio.sleep(look_s)
