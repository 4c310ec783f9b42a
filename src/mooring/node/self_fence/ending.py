"""Ends what a node has that may write: its pods at once, then its mounts. As far as it goes: what hangs is
left to the watchdog.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from mooring.mounts.errors import MountsError
from mooring.mounts.interface import Mounts
from mooring.node.runtime import Runtime

log = structlog.get_logger("node-agent")


async def kill_pods(runtime: Runtime) -> int:
    """All at once; how many there were."""
    running = [uid for uid, sandbox in runtime.sandboxes().items() if sandbox.running]
    await asyncio.gather(*(runtime.kill_sandbox(uid) for uid in running), return_exceptions=True)
    return len(running)


async def end_everything(runtime: Runtime, mounts: Mounts, root: Path) -> None:
    """Kills all pods, and unmounts what is mounted below the agent's directory, the last first."""
    pods = await kill_pods(runtime)
    try:
        table = await mounts.mount_table()
    except (MountsError, OSError) as error:
        log.error("what is mounted cannot be read", why=str(error))
        return
    below = [each.mount_point for each in table if each.mount_point.startswith(f"{root}/")]
    for point in reversed(below):
        try:
            await mounts.unmount(point)
        except (MountsError, OSError) as error:
            log.error("not unmounted", path=point, why=str(error))
    log.warning("pods killed, volumes unmounted", pods=pods, mounts=len(below))
