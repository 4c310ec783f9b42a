"""Mount tables: parsing `/proc/PID/mountinfo` (proc(5)), and questions about one. Pure but
for `read_mount_table`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from mooring.mounts.interface import Mount

_ESCAPE = re.compile(r"\\([0-7]{3})")


def unescape(field: str) -> str:
    """Undoes the kernel's octal escapes (space, tab, newline, backslash)."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


def parse_mount(line: str) -> Mount:
    """One line of a mountinfo file. Raises ValueError if it is none."""
    left, separator, right = line.rstrip("\n").partition(" - ")
    fields, tail = left.split(" "), right.split(" ")
    if not separator or len(fields) < 6 or len(tail) < 3:
        raise ValueError(f"not a line of a mount table: {line!r}")
    major, _, minor = fields[2].partition(":")
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=(int(major), int(minor)),
        root=unescape(fields[3]),
        mount_point=unescape(fields[4]),
        options=frozenset(fields[5].split(",")),
        fs_type=unescape(tail[0]),
        source=unescape(tail[1]),
        super_options=frozenset(tail[2].split(",")),
    )


def parse_mount_table(text: str) -> tuple[Mount, ...]:
    """A whole mountinfo file, in the kernel's order."""
    return tuple(parse_mount(line) for line in text.split("\n") if line)


def read_mount_table(pid: int | None = None) -> tuple[Mount, ...]:
    """The mount table as process `pid` (default: this one) sees it. Raises OSError if there
    is no such process."""
    content = Path(f"/proc/{'self' if pid is None else pid}/mountinfo").read_bytes()
    return parse_mount_table(os.fsdecode(content))


def mount_at(table: Iterable[Mount], path: str) -> Mount | None:
    """What one sees at the mount point `path`: the topmost of the mounts there, on which no
    other of them stands."""
    here = [mount for mount in table if mount.mount_point == path]
    covered = {mount.parent_id for mount in here}
    return next((mount for mount in reversed(here) if mount.mount_id not in covered), None)


def shown_at(table: Iterable[Mount], path: str) -> Mount:
    """What a bind mount of the directory `path` (absolute, without links) would show: the mount that it lies
    in, with the directory as its root. Raises ValueError if the table has no mount for it."""
    table = tuple(table)
    for place in (path, *map(str, PurePosixPath(path).parents)):
        if (found := mount_at(table, place)) is not None:
            root = os.path.normpath(os.path.join(found.root, os.path.relpath(path, place)))
            return replace(found, root=root, mount_point=path)
    raise ValueError(f"no mount has {path}")


def same_content(table: Iterable[Mount], shown: Mount) -> list[Mount]:
    """All mounts that show what `shown` shows, or a part of it: bind mounts, and those of
    directories below."""
    below = shown.root.rstrip("/") + "/"
    return [
        mount
        for mount in table
        if mount.device == shown.device and (mount.root == shown.root or mount.root.startswith(below))
    ]


def mounts_of_device(table: Iterable[Mount], device: tuple[int, int]) -> list[Mount]:
    """All mounts of the file system on the device with this major and minor number."""
    return [mount for mount in table if mount.device == device]


def mounts_below(table: Iterable[Mount], path: str) -> list[Mount]:
    """Mounts at `path` or anywhere below it, deepest first: the order in which they can be unmounted. Of
    several at one mount point it does not matter which stands first: each unmount takes the topmost."""
    prefix = path.rstrip("/") + "/"
    found = [mount for mount in table if mount.mount_point == path or mount.mount_point.startswith(prefix)]
    return sorted(found, key=lambda mount: mount.mount_point.count("/"), reverse=True)


def as_shown(path: str) -> str:
    """The path as mount tables show it. Only the parent is resolved: a mount point itself is never a link,
    and a look at one may wait for a server. Blocking."""
    parent, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(parent), name)
