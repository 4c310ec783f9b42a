"""Runs the system's storage tools (mount, mkfs, fsck, ...) to their end.

Guarantee: a started tool is never abandoned half-way: cancellation waits for its end, because an interrupted
mkfs or fsck leaves a damaged file system.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection
from typing import NamedTuple

from mooring.mounts.blocking import finish
from mooring.mounts.errors import CommandFailed, ToolMissing

PACKAGES = {
    "ext": "e2fsprogs",
    "xfs": "xfsprogs",
    "resize2fs": "e2fsprogs",
    "mount.ceph": "ceph-common",
    "mount.cifs": "cifs-utils",
    "mount.glusterfs": "glusterfs-client",
    "mount.nfs": "nfs-common",
    "mount.quobyte": "quobyte-client",
    "sg_persist": "sg3-utils",
}
"""Part of a tool's name: the Debian package that has it."""

SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


class Outcome(NamedTuple):
    """How a tool ended: exit status (negative: killed by that signal) and its output, errors included."""

    status: int
    output: str


def find_tool(name: str) -> str:
    """The path of the program `name`. Raises ToolMissing, naming the package that has it."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        raise ToolMissing(name, next((package for part, package in PACKAGES.items() if part in name), ""))
    return path


async def run(*command: str, ok: Collection[int] = (0,)) -> Outcome:
    """Runs `command` in the C locale without input. Raises CommandFailed unless its exit
    status is in `ok`."""
    program = find_tool(command[0])
    # Starting it must not be cancelled either: asyncio kills a process whose start is cancelled.
    outcome = await finish(asyncio.ensure_future(_to_its_end(program, *command[1:])))
    if outcome.status not in ok:
        raise CommandFailed(command, outcome.status, outcome.output)
    return outcome


async def _to_its_end(program: str, *arguments: str) -> Outcome:
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
    )
    output, _ = await process.communicate()
    return Outcome(process.returncode or 0, output.decode(errors="replace"))
