"""The files of a clone: how much they are, and a copy of them that is a volume. Blocking.

Guarantees: no symbolic link is followed; what is neither a file, a directory nor a link is refused; nothing
is read or written outside of the two directories, also while another process exchanges what is in the first.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from mooring.volumes.errors import VolumeError

DEEPEST = 200
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PART = 1 << 20


@dataclass(frozen=True)
class Size:
    """Bytes and files."""

    bytes: int
    files: int


def size_of(directory: Path, most: Size) -> Size:
    """Raises VolumeError beyond `most`, having looked at no more than that."""
    used = files = 0
    for at, names, others in os.walk(directory):
        for name in (*names, *others):
            files += 1
            try:
                status = os.lstat(os.path.join(at, name))
            except OSError:
                continue  # git renames what it writes
            used += max(status.st_blocks * 512, status.st_size if stat.S_ISREG(status.st_mode) else 0)
            if used > most.bytes or files > most.files:
                raise VolumeError(
                    f"the repository is larger than {most.bytes >> 20} MiB or has more than {most.files} files with "
                    f"its history: use an init container, or let the node's operator raise maxMiB or maxFiles"
                )
    return Size(used, files)


def copy(source: Path, target: Path, most: Size) -> None:
    """Copies what is in `source` into `target`, which exists. Files keep whether they can be run, and nothing
    else of their mode. Raises VolumeError, OSError."""
    _Copy(most).directory(os.open(source, _READ | os.O_DIRECTORY), os.open(target, _READ | os.O_DIRECTORY), 0)


class _Copy:
    def __init__(self, most: Size) -> None:
        self._bytes, self._files = most.bytes, most.files

    def directory(self, source: int, target: int, depth: int) -> None:
        """Both are open directories, which are closed here."""
        try:
            if depth > DEEPEST:
                raise VolumeError(f"the repository has more than {DEEPEST} directories in one another")
            for name in os.listdir(source):
                self._take(0, 1)
                self._entry(name, source, target, depth)
        finally:
            os.close(source)
            os.close(target)

    def _entry(self, name: str, source: int, target: int, depth: int) -> None:
        mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif stat.S_ISDIR(mode):
            inner = os.open(name, _READ | os.O_DIRECTORY, dir_fd=source)
            os.mkdir(name, 0o755, dir_fd=target)
            self.directory(inner, os.open(name, _READ | os.O_DIRECTORY, dir_fd=target), depth + 1)
        elif stat.S_ISREG(mode):
            self._file(name, source, target)
        else:
            raise VolumeError(f"{name[:100]!a} in the repository is neither a file, a directory nor a link")

    def _file(self, name: str, source: int, target: int) -> None:
        with os.fdopen(os.open(name, _READ, dir_fd=source), "rb") as old:
            status = os.fstat(old.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise VolumeError(f"{name[:100]!a} in the repository has changed while it was copied")
            mode = 0o755 if status.st_mode & 0o100 else 0o644
            with os.fdopen(os.open(name, _NEW, mode, dir_fd=target), "wb") as new:
                os.fchmod(new.fileno(), mode)
                while part := old.read(_PART):
                    self._take(len(part), 0)
                    new.write(part)

    def _take(self, size: int, files: int) -> None:
        self._bytes -= size
        self._files -= files
        if self._bytes < 0 or self._files < 0:
            raise VolumeError("the repository is larger than it may be")
