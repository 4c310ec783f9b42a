"""Files that change together: a directory whose content is replaced as a whole, as the
kubelet does for ConfigMaps.

    <dir>/..data -> ..<digest>      swapped by one rename: readers see all old files or all new ones
    <dir>/<name> -> ..data/<name>   what the user sees

Blocking. Idempotent: the same payload again changes nothing, what a crash left behind is removed by
the next write, and what a power loss took from the files is written again: they are not synced.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mooring.volumes.errors import InvalidSpec
from mooring.volumes.ownership import give_to_group

CURRENT = "..data"
_NEXT = "..data_tmp"


@dataclass(frozen=True)
class PayloadFile:
    """One file: its content and permission bits."""

    content: bytes
    mode: int


Payload = Mapping[str, PayloadFile]
"""By path, relative to the directory."""


def check_path(path: str) -> None:
    """Raises InvalidSpec for a path that leads out of the directory, or in the way of its own links."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise InvalidSpec(f"path {path!r} must be relative, without '..', and must not begin with '..'")


def digest(payload: Payload, group: int | None = None) -> str:
    """Pure: names the payload by its content."""
    state = hashlib.sha256(str(group).encode())
    for path, file in sorted(payload.items()):
        for part in (path.encode(), oct(file.mode).encode(), file.content):
            state.update(len(part).to_bytes(8, "big") + part)
    return state.hexdigest()[:32]


def write_payload(directory: Path, payload: Payload, group: int | None = None) -> bool:
    """Makes `directory` show exactly `payload`, given to `group` (if any) to be read: files, links, and
    directories, which pass the group on. Returns whether anything changed. Raises InvalidSpec for a path that
    is not allowed, and OSError."""
    for path in payload:
        check_path(path)
    directory.mkdir(parents=True, exist_ok=True)
    name = f"..{digest(payload, group)}"
    changed = not _shows(directory, name, payload)
    if changed:
        _fill(directory / name, payload, group)
        _point(directory, name)
    _link_names(directory, {PurePosixPath(path).parts[0] for path in payload})
    _tidy(directory, name)
    if group is not None:  # its root last, so that it says whether all was given: also what a crash left
        give_to_group(str(directory), group, read_only=True, on_root_mismatch=not changed)
    return changed


def _shows(directory: Path, name: str, payload: Payload) -> bool:
    try:
        return (
            os.readlink(directory / CURRENT) == name
            and (directory / name).is_dir()
            and all((directory / name / path).read_bytes() == file.content for path, file in payload.items())
        )
    except (FileNotFoundError, NotADirectoryError):
        return False


def _fill(target: Path, payload: Payload, group: int | None) -> None:
    shutil.rmtree(target, ignore_errors=True)  # half of it, left by a crash
    target.mkdir()
    target.chmod(0o755)
    for path, file in payload.items():
        where = target / path
        _make_directories(target, where.parent)
        where.write_bytes(file.content)
        where.chmod(file.mode)
    if group is not None:  # before any pod sees it
        give_to_group(str(target), group, read_only=True)


def _make_directories(target: Path, directory: Path) -> None:
    """Whatever the umask is."""
    if directory != target and not directory.is_dir():
        _make_directories(target, directory.parent)
        directory.mkdir()
        directory.chmod(0o755)


def _point(directory: Path, name: str) -> None:
    following = directory / _NEXT
    following.unlink(missing_ok=True)
    following.symlink_to(name)
    os.rename(following, directory / CURRENT)


def _link_names(directory: Path, names: set[str]) -> None:
    shown = {entry for entry in os.listdir(directory) if not entry.startswith("..")}
    for name in names - shown:
        (directory / name).symlink_to(f"{CURRENT}/{name}")
    for name in shown - names:
        (directory / name).unlink()


def _tidy(directory: Path, current: str) -> None:
    for entry in os.listdir(directory):
        if entry.startswith("..") and entry not in (CURRENT, current):
            path = directory / entry
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
