"""How full a volume is: by its file system, or, if it shares one with others, by the files in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from mooring.volumes.interfaces import Metrics, MetricsNotSupported

_BLOCK = 512  # the unit of st_blocks, whatever the file system's own is


def file_system_metrics(path: str) -> Metrics:
    """The use of the file system that `path` is on. Blocking. Raises MetricsNotSupported if
    there is no such path."""
    try:
        status = os.statvfs(path)
    except FileNotFoundError as error:
        raise MetricsNotSupported(f"there is nothing at {path}: the volume is not set up") from error
    return Metrics(
        capacity=status.f_blocks * status.f_frsize,
        used=(status.f_blocks - status.f_bfree) * status.f_frsize,
        available=status.f_bavail * status.f_frsize,
        inodes=status.f_files,
        inodes_used=status.f_files - status.f_ffree,
        inodes_free=status.f_ffree,
    )


def directory_metrics(path: str) -> Metrics:
    """Returns what the directory itself takes of a file system that it shares with others.
    Capacity and available bytes are the file system's. A file with several names counts once.
    Blocking. Raises MetricsNotSupported."""
    whole = file_system_metrics(path)
    seen = {(status.st_dev, status.st_ino): status.st_blocks * _BLOCK for status in _walk(path)}
    return replace(whole, used=sum(seen.values()), inodes_used=len(seen))


def _walk(path: str) -> Iterator[os.stat_result]:
    """Everything below, without leaving the file system; what vanishes meanwhile is not counted."""
    device = os.lstat(path).st_dev
    yield os.lstat(path)
    for directory, names, files in os.walk(path):
        for name in (*names, *files):
            try:
                status = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:
                continue
            if status.st_dev == device:
                yield status
            elif name in names:
                names.remove(name)
