"""Removes what is left of a pod's directory. Never recurses: what is not empty, or is a mount point, stays,
and is logged (data-loss reports against upstream: kubernetes/kubernetes#45464, #134075)."""

from __future__ import annotations

from pathlib import Path

import structlog

log = structlog.get_logger("node-agent")


def remove_pod_directory(root: Path, uid: str) -> bool:
    """Whether it is gone. Only after the runtime and the volume plugins have removed what was theirs."""
    directory = root / "pods" / uid
    parents = [directory, directory / "volumes", directory / "volumeDevices", directory / "plugins"]
    inner = [path for parent in parents[1:] for path in parent.glob("*")]
    for path in [*inner, *reversed(parents)]:
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning(
                "pod directory left in place",
                path=str(path),
                error=str(error),
                step="its pod is gone: see what it is, move away what you need, and remove it",
            )
            return False
    return True
