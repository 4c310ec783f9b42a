"""What the plugin writes down on the node before it acts, so that it can undo that after any crash.

    <plugin's directory>/notes/<hash>.json     a volume that is used here, or about to be
    <plugin's directory>/logins/<hash>.json    a login of this plugin's, ended with the last volume

Without its note, a volume is known by its global path alone. No secrets here. Blocking.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.iscsi.source import Disk, disk_at


class Note(msgspec.Struct, frozen=True):
    """A volume at its global path. `device` is what pods get of a raw one; `wwid` what its disk said of
    itself."""

    path: str
    disk: Disk
    block: bool = False
    device: str = ""
    wwid: str = ""


class Login(msgspec.Struct, frozen=True):
    """A session that this plugin makes, or may have made."""

    target: str
    portal: str
    interface: str


_T = TypeVar("_T", Note, Login)


class Notes:
    """The files of one node."""

    def __init__(self, directory: Path) -> None:
        self._notes = directory / "notes"
        self._logins = directory / "logins"

    def find(self, path: str) -> Note | None:
        """The note of the volume there; without one, what its path says."""
        name = _file(path)
        if (self._notes / name).exists():
            return _read(self._notes / name, Note)
        disk = disk_at(path)
        return Note(path, disk, block="/volumeDevices/" in path) if disk is not None else None

    def save(self, note: Note) -> None:
        _write(self._notes / _file(note.path), note)

    def remove(self, path: str) -> None:
        (self._notes / _file(path)).unlink(missing_ok=True)

    def all(self) -> list[Note]:
        return list(_each(self._notes, Note))

    def begin(self, login: Login) -> None:
        _write(self._logins / _file("\n".join(msgspec.structs.astuple(login))), login)

    def end(self, login: Login) -> None:
        (self._logins / _file("\n".join(msgspec.structs.astuple(login)))).unlink(missing_ok=True)

    def logins(self, target: str, interface: str) -> list[Login]:
        """Those with the target over that interface."""
        found = _each(self._logins, Login)
        return [each for each in found if (each.target, each.interface) == (target, interface)]


def _file(text: str) -> str:
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _each(directory: Path, kind: type[_T]) -> Iterator[_T]:
    for path in sorted(directory.glob("*.json")):
        yield _read(path, kind)


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise VolumeError(
            f"{path} is damaged, so it is not known which iSCSI volumes use this node's sessions: compare "
            f"`iscsiadm -m session` with what is mounted, and remove the file ({error})"
        ) from error


def _write(path: Path, content: Note | Login) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(content))
    os.replace(new, path)
