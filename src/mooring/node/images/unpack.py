"""Unpacks the layers of an image into a directory: a program of its own, run by `store`.

`python -m mooring.node.images.unpack DIRECTORY LAYER…`, the lowest layer first. The directory becomes the
root of this process before anything is read, so no path and no link in a layer leads out of it. Whiteouts
(`.wh.NAME`, `.wh..wh..opq`) take away what lower layers have. On failure one line on standard error says why.
Standard library only.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import shutil
import stat
import sys
import tarfile
import zlib
from typing import BinaryIO

PREFIX = ".wh."
OPAQUE = ".wh..wh..opq"
_NEEDED_INSIDE = (bz2, gzip, lzma, zlib)
"""No module can be imported any more once the root has changed."""


def apply_layer(layer: BinaryIO) -> None:
    """Applies one layer to the root directory of this process."""
    # Whiteouts are about lower layers, wherever in this one they stand.
    with tarfile.open(fileobj=layer, mode="r:*") as tar:
        members = tar.getmembers()
        for member in members:
            _take_away(member.name)
        tar.extraction_filter = lambda member, path: member
        for member in members:
            if not os.path.basename(member.name).startswith(PREFIX):
                _extract(tar, member)


def _take_away(name: str) -> None:
    directory, base = os.path.split(_inside(name))
    if base == OPAQUE:
        for entry in os.listdir(directory) if os.path.isdir(directory) else ():
            _remove(os.path.join(directory, entry))
    elif base.startswith(PREFIX):
        _remove(os.path.join(directory, base.removeprefix(PREFIX)))


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    path = _inside(member.name)
    if path == "/":
        return
    with contextlib.suppress(FileNotFoundError):
        if not (member.isdir() and stat.S_ISDIR(os.lstat(path).st_mode)):
            _remove(path)
    if member.islnk():
        member.linkname = _inside(member.linkname)
    try:
        tar.extract(member, "/", numeric_owner=True)
    except PermissionError:
        if not member.isdev():  # a user namespace makes no devices; pods have their own /dev
            raise


def _inside(name: str) -> str:
    """A path from the root; `..` cannot lead above it."""
    return os.path.normpath("/" + name.lstrip("/"))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def main() -> None:
    """Exits 1 with one line on standard error if a layer cannot be applied."""
    directory, *layers = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        opened = [(path, stack.enter_context(open(path, "rb"))) for path in layers]
        os.umask(0)
        os.chroot(directory)
        os.chdir("/")
        for path, layer in opened:
            try:
                apply_layer(layer)
            except tarfile.ReadError as error:
                os.write(
                    2, f"layer {path} is not a tar archive, plain or by gzip, bzip2 or xz: {error}\n".encode()
                )
                sys.exit(1)
            except (OSError, tarfile.TarError, zlib.error, EOFError) as error:
                os.write(2, f"layer {path}: {error}\n".encode())
                sys.exit(1)


if __name__ == "__main__":
    main()
