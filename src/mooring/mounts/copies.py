"""Copies of media: of files with their holes, as a clone where the file system can, and of
directories. Blocking."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_FICLONE = 0x40049409
_AT_ONCE = 64 * 1024 * 1024


def copy_medium(source: Path, target: Path) -> None:
    """Makes `target` what `source` is, in place of any left-over, and has it on disk when this returns. What
    fails, for want of room above all, leaves nothing: who asked for it may never ask again."""
    _remove(target)
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            _copy_file(source, target)
    except BaseException:
        _remove(target)
        raise


def _remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target, ignore_errors=True)
    else:
        target.unlink(missing_ok=True)


def _copy_file(source: Path, target: Path) -> None:
    with open(source, "rb") as reader, open(target, "xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        if not _cloned(reader.fileno(), writer.fileno()):
            writer.truncate(size)
            for start, end in _data(reader.fileno(), size):
                _copy(reader.fileno(), writer.fileno(), start, end)
        os.fsync(writer.fileno())


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY):
            return False
        raise
    return True


def _data(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where the file has data: from, to. The rest is holes."""
    position = 0
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, position


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        piece = os.pread(source, min(_AT_ONCE, end - start), start)
        if not piece:
            raise OSError(errno.EIO, "the medium became shorter while it was copied")
        os.pwrite(target, piece, start)
        start += len(piece)
