"""emptyDir on a played machine: the production plugin, but for what takes threads and real mounts."""

from __future__ import annotations

from pathlib import Path

from mooring.kube.objects import Pod
from mooring.simulation.parts.array_plugin import DirectoryMounter
from mooring.volumes.interfaces import Unmounter
from mooring.volumes.names import escape_plugin_name
from mooring.volumes.plugins.emptydir import PLUGIN_NAME, EmptyDirMounter, EmptyDirPlugin
from mooring.volumes.spec import VolumeSpec

TOO_MUCH = "too-much"
"""A file that is larger than any limit."""


def fill(root: Path, pod_uid: str) -> bool:
    """A pod puts too much into its emptyDirs, on the machine with that root. Returns whether it has any."""
    there = [*(root / "pods" / pod_uid / "volumes" / escape_plugin_name(PLUGIN_NAME)).glob("*")]
    for directory in there:
        (directory / TOO_MUCH).touch()
    return bool(there)


class ScratchMounter(EmptyDirMounter):
    """What is in the directory is looked at without a thread, and not counted."""

    async def limit_exceeded(self) -> str | None:
        exceeds = self._size_limit() and (Path(self._path) / TOO_MUCH).exists()
        return f"Usage of EmptyDir volume {self._name} exceeds its limit." if exceeds else None


class _Scratch(DirectoryMounter):
    """Goes with all that is in it."""

    async def tear_down_at(self, directory: str) -> None:
        (self._path / TOO_MUCH).unlink(missing_ok=True)
        await super().tear_down_at(directory)


class ScratchPlugin(EmptyDirPlugin):
    """An emptyDir on disk, removed without a thread."""

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> EmptyDirMounter:
        return ScratchMounter(self._host, spec, pod)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:  # type: ignore[override]
        return _Scratch(Path(self._host.get_pod_volume_dir(pod_uid, PLUGIN_NAME, spec_name)))
