"""Cgroups of its own for each node, in every hierarchy of version 1, below those of this process."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
HIERARCHIES = (
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "systemd",
    "unified",
)


def missing() -> list[str]:
    """Hierarchies that this machine does not offer."""
    return [each for each in HIERARCHIES if not (ROOT / each / "cgroup.procs").exists()]


def make(name: str) -> list[Path]:
    """One in each hierarchy, empty."""
    return [_make(hierarchy, name) for hierarchy in HIERARCHIES]


def remove(cgroups: list[Path]) -> None:
    """With all below; their processes have ended."""
    for cgroup in cgroups:
        for below, _, _ in os.walk(cgroup, topdown=False):
            Path(below).rmdir()


def _make(hierarchy: str, name: str) -> Path:
    parent = ROOT / hierarchy / _own(hierarchy).lstrip("/")
    cgroup = parent / name
    remove([cgroup])  # what a run that was killed has left
    cgroup.mkdir()
    if hierarchy == "cpuset":
        for file in ("cpuset.cpus", "cpuset.mems"):
            (cgroup / file).write_text((parent / file).read_text())
    return cgroup


def _own(hierarchy: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.removeprefix("name=").split(",") if controllers else ["unified"]
        if hierarchy in names:
            return path
    return "/"
