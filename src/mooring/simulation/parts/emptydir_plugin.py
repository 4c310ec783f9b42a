"""emptyDir on a played machine: the production plugin, but for what takes threads and real mounts."""

from __future__ import annotations

from pathlib import Path

from mooring.simulation.parts.array_plugin import DirectoryMounter
from mooring.volumes.interfaces import Unmounter
from mooring.volumes.plugins.emptydir import PLUGIN_NAME, EmptyDirPlugin


class ScratchPlugin(EmptyDirPlugin):
    """An emptyDir on disk, removed without a thread."""

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:  # type: ignore[override]
        return DirectoryMounter(Path(self._host.get_pod_volume_dir(pod_uid, PLUGIN_NAME, spec_name)))
