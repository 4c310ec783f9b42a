"""The folder of static pods' manifests on a played machine: real files, and a kernel that is played.

The files stay when the machine loses power. An agent that runs is told of a change, as inotify does it; one
that starts reads the folder.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextvars import copy_context
from pathlib import Path
from typing import Any


class PlayedInotify:
    """One watch of one agent's life."""

    def __init__(self, folder: ManifestFolder, changed: Callable[[], None]) -> None:
        self._watches, self._changed, self._context = folder.watches, changed, copy_context()
        self._watches.append(self)

    def tell(self) -> None:
        """As work of the life that watches: one that is halted hears of it later, or never."""
        asyncio.get_running_loop().call_soon(self._changed, context=self._context)

    def close(self) -> None:
        """No more calls."""
        self._watches.remove(self)


class ManifestFolder:
    """`path` is made with the first manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.watches: list[PlayedInotify] = []

    def watch(self, directories: Iterable[Path], mask: int, changed: Callable[[], None]) -> PlayedInotify:
        """As `Inotify`."""
        return PlayedInotify(self, changed)

    def write(self, name: str, manifest: dict[str, Any]) -> None:
        """Adds a manifest, or another one in its place."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / f"{name}.json").write_text(json.dumps(manifest))
        self._tell()

    def remove(self, name: str) -> None:
        """Removes one, if it is there."""
        (self.path / f"{name}.json").unlink(missing_ok=True)
        self._tell()

    def _tell(self) -> None:
        for watch in list(self.watches):
            watch.tell()
