"""The targets through which the played storage serves its disks, and which nodes it shuts out of them.

A node that is shut out goes on running; what it writes to a disk of the target is refused, and it can mount
none. This is the truth: what a mechanism says of it is its own word (`parts.fence_device`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Collection
from typing import Any

TARGETS = ("a", "b")


def target_of(disk: str) -> str:
    """The target that serves the disk."""
    return TARGETS[zlib.crc32(disk.encode()) % len(TARGETS)]


class Targets:
    """Who is shut out. `journal` is told of every change; `on_let_in` is called when a node gets in again:
    what its kernel has not written yet, it writes now."""

    def __init__(self, journal: Callable[..., None], on_let_in: Callable[[str, str], None]) -> None:
        self._journal, self._on_let_in = journal, on_let_in
        self._shut: set[tuple[str, str]] = set()  # target and node
        self._history: dict[tuple[str, str], list[tuple[float, bool]]] = {}

    def refuses(self, disk: str, node: str) -> bool:
        """Whether nothing that the node writes to the disk takes effect."""
        return (target_of(disk), node) in self._shut

    def shuts_out(self, node: str, targets: Collection[str] = TARGETS) -> bool:
        """Whether the node gets into none of these targets."""
        return all((each, node) in self._shut for each in targets)

    def shut_out_of(self, node: str) -> list[str]:
        """The targets that the node is shut out of."""
        return [each for each in TARGETS if (each, node) in self._shut]

    def shut_out_before(self, node: str, targets: Collection[str], seconds: float) -> bool:
        """Whether that was so, so long ago."""
        then = asyncio.get_running_loop().time() - seconds

        def was(target: str) -> bool:
            states = [shut for at, shut in self._history.get((target, node), ()) if at <= then]
            return bool(states) and states[-1]

        return all(map(was, targets))

    def shut(self, node: str, targets: Collection[str]) -> None:
        """The node is shut out from now on. Idempotent."""
        for target in targets:
            if (target, node) not in self._shut:
                self._shut.add((target, node))
                self._changed(target, node, "truth.shut-out", {})

    def let_in(self, node: str, targets: Collection[str], **why: Any) -> None:
        """The node gets in again. Idempotent. `why`: for the journal."""
        for target in targets:
            if (target, node) in self._shut:
                self._shut.discard((target, node))
                self._changed(target, node, "truth.let-in", why)
                self._on_let_in(target, node)

    def _changed(self, target: str, node: str, what: str, why: dict[str, Any]) -> None:
        moment = asyncio.get_running_loop().time()
        self._history.setdefault((target, node), []).append((moment, (target, node) in self._shut))
        self._journal("array", what, target=target, node=node, **why)
