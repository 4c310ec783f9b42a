"""The agents that are installed, and what each says of itself: asked once, and again when its file is new."""

from __future__ import annotations

import os
import re
import subprocess

from mooring.fence import programs
from mooring.fence.agents.metadata import BadMetadata, Metadata, parse

ASK_S = 10.0
_NAME = re.compile(r"fence_[a-z0-9_]{1,40}", re.ASCII)
_asked: dict[tuple[str, int], Metadata] = {}


class NoAgent(Exception):
    """There is no such agent, or it does not say what it is."""


def installed(agent: str) -> Metadata:
    """What it says of itself. Runs it, the first time: it then asks no device. Blocks. Raises NoAgent."""
    if not _NAME.fullmatch(agent):
        raise NoAgent(f"{agent!r} is no name of a fence agent: fence_xyz")
    path = programs.find(agent)
    if path is None:
        raise NoAgent(f"{agent} is not installed: apt-get install fence-agents")
    key = path, os.stat(path).st_mtime_ns
    if key not in _asked:
        _asked[key] = _ask(agent, path)
    return _asked[key]


def _ask(agent: str, path: str) -> Metadata:
    environ = {"PATH": programs.search_path(), "LANG": "C", "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            [path, "-o", "metadata"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=ASK_S,
            env=environ,
        )
        return parse(done.stdout.decode(errors="replace"))
    except (OSError, subprocess.TimeoutExpired, BadMetadata) as error:
        raise NoAgent(f"{agent} does not say what it is (`{agent} -o metadata`): {error}") from error
