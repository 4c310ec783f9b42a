"""Packs the first files of a virtual machine: an archive in cpio's "newc" format, which its kernel unpacks
into memory. Pure.

Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

DIRECTORY, FILE = 0o040000, 0o100000
_END = "TRAILER!!!"
_MOST = 0xFFFFFFFF


@dataclass(frozen=True)
class Entry:
    """A file, or a directory; its path has no leading slash."""

    path: str
    mode: int
    content: bytes = b""


def pack(files: Mapping[str, bytes], programs: Iterable[str] = ()) -> bytes:
    """An archive with these files, by path, and all directories above them; `programs` are those that can be
    executed. Raises ValueError for a path that is none."""
    executable = set(programs)
    entries = [Entry(path, DIRECTORY | 0o755) for path in _directories(files)]
    entries += [
        Entry(path, FILE | (0o755 if path in executable else 0o644), content)
        for path, content in files.items()
    ]
    return b"".join(_entry(number, entry) for number, entry in enumerate([*entries, Entry(_END, 0)], 1))


def _directories(paths: Iterable[str]) -> list[str]:
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\0" in path:
            raise ValueError(f"{path!r} is no path in an archive")
        found |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    return sorted(found)


def _entry(number: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    if len(entry.content) > _MOST:
        raise ValueError(f"{entry.path} is longer than {_MOST} bytes")
    links = 2 if entry.mode & DIRECTORY else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name
    return _padded(head) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
