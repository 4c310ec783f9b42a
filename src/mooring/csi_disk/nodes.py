"""The nodes that the array's driver serves: each writes itself down before it gives its name to anybody. Blocking."""

from __future__ import annotations

from pathlib import Path

from mooring.volumes.plugins.disk_files import write_durably


class Nodes:
    """Kept in the array's directory, because controller and nodes share nothing else."""

    def __init__(self, array: Path) -> None:
        self._directory = array / "csi-nodes"

    def register(self, node: str) -> None:
        """Idempotent."""
        self._directory.mkdir(parents=True, exist_ok=True)
        write_durably(self._directory / node, b"")

    def knows(self, node: str) -> bool:
        """Whether the node has ever registered."""
        return "/" not in node and (self._directory / node).is_file()
