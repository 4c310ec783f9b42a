"""Which watchdog an agent was given."""

from __future__ import annotations

import stat
from pathlib import Path

from mooring.node.self_fence.linux import LinuxWatchdog
from mooring.node.self_fence.supervised import SupervisedWatchdog
from mooring.node.self_fence.watchdog import NoWatchdog, Watchdog


def watchdog_at(path: Path) -> Watchdog:
    """The watchdog of that device, or of that socket of a machine's supervisor. What it is, is looked at when
    it is armed."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return NoWatchdog(
            f"there is no {path}: this machine has no watchdog outside its kernel, as far as it shows"
        )
    if stat.S_ISSOCK(mode):
        return SupervisedWatchdog(path)
    if stat.S_ISCHR(mode):
        return LinuxWatchdog(path)
    return NoWatchdog(
        f"{path} is neither a device nor a socket: give /dev/watchdog0, or another one's number"
    )
