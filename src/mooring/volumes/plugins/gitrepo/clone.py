"""Has git fetch a repository into a directory of its own, so that nothing in the repository, and nothing of
this node's users, decides what git does.

Guarantees:
- Only http and https; no redirects; no questions; no password of this node; no configuration, template or
  attributes of the node, no hooks, filters or submodules: git gets its settings in its arguments alone.
- git checks what it receives (`fsckObjects`): names as `.git`, and hostile `.gitmodules`, do not arrive.
- It runs as a user that owns nothing, without capabilities and without a way to gain any, where this process
  may choose that (root).
- Time, the size of one file, of all files, and their number are bounded; git and what it started are killed
  beyond that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import OutcomeUnknown, VolumeError
from mooring.volumes.plugins.gitrepo.source import Checkout
from mooring.volumes.plugins.gitrepo.tree import Size, size_of
from mooring.volumes.plugins.programs import Ended, Run, run
from mooring.volumes.plugins.rest import said

OWNER = 1_998_000_000
"""User and group of git. No user of a node has such a number, and no pod by chance."""
LOOK_S = 0.5
MEMORY_BYTES = 1 << 30
"""Of address space. Packs are mapped in windows, and large files streamed (`_SETTINGS`)."""
REPOSITORY = "repository"

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.askPass=",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.http.allow=always",
    "protocol.https.allow=always",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.fsckObjects=true",
    "fetch.fsck.badTimezone=ignore",
    "fetch.fsck.zeroPaddedFilemode=ignore",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=1",
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=128m",
    "core.bigFileThreshold=16m",
    "advice.detachedHead=false",
)


@dataclass(frozen=True)
class Limits:
    """What a clone may take: seconds, bytes with its history, and number of files."""

    seconds: float
    size: Size


def words(home: Path, limits: Limits, as_owner: bool, *order: str) -> list[str]:
    """git with that order, and all that keeps it. Its time ends also when this process has: a server that
    sends a byte a second would keep it for ever."""
    environment = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "http:https",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_COMMITTER_NAME": "none",
        "GIT_COMMITTER_EMAIL": "none",
        "HOME": str(home),
    }
    privileges = (
        *("setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"),
        *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"),
    )
    seconds = int(limits.seconds) + 1
    bounds = (
        *("timeout", "--signal=KILL", str(seconds)),
        *("prlimit", f"--fsize={limits.size.bytes}", f"--cpu={seconds}", f"--as={MEMORY_BYTES}"),
        *("--core=0", "--nofile=1024", "--"),
    )
    return [
        *(privileges if as_owner else ()),
        *bounds,
        *("env", *(f"{name}={value}" for name, value in environment.items())),
        *("git", *(part for each in _SETTINGS for part in ("-c", each)), *order),
    ]


async def clone(wanted: Checkout, directory: Path, limits: Limits, call: Run = run) -> Path:
    """The checkout, made below `directory`, which is empty and this process's own. Raises VolumeError,
    OutcomeUnknown."""
    as_owner = os.geteuid() == 0
    if as_owner:
        os.chown(directory, OWNER, OWNER)
    place = directory / REPOSITORY
    orders = [
        ("clone", ["clone", "--template=", "--no-checkout", "--no-recurse-submodules", "--no-local", "--quiet",
                   "--", wanted.repository, str(place)]),
        ("check out", ["-C", str(place), "checkout", "--quiet", *([wanted.revision] if wanted.revision else []), "--"]),
    ]  # fmt: skip
    deadline = asyncio.get_running_loop().time() + limits.seconds
    for what, order in orders:
        left = max(deadline - asyncio.get_running_loop().time(), 1.0)
        argv = words(directory, limits, as_owner, *order)
        ended = await _bounded(argv, directory, limits, left, call)
        if ended.status is None:
            raise OutcomeUnknown(
                f"git did not {what} {wanted.repository} within {limits.seconds:g} s, and was ended: it is tried again"
            )
        if ended.status != 0:
            raise VolumeError(f"git cannot {what} {wanted.repository}: {said(ended.words())}")
    return place


async def _bounded(argv: Sequence[str], directory: Path, limits: Limits, left: float, call: Run) -> Ended:
    """Runs it and looks on; ended when there is more than it may take."""
    running = asyncio.ensure_future(call(*argv, deadline_s=left))
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=LOOK_S)
            await blocking(size_of, directory, limits.size)
        return running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})
