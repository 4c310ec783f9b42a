"""What the plugin writes down on the node before it acts, so that it can undo that after any crash.

    <plugin's directory>/notes/<hash>.json     a volume that is used here, or about to be
    <plugin's directory>/logins/<hash>.json    a login of this plugin's, ended with the last volume

Without its note, a volume is known by its global path alone. No secrets here. Blocking.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.volumes.plugins.iscsi.source import Disk, disk_at
from mooring.volumes.plugins.note_files import NotesOfBoot, each_of, file_name, write


class Note(msgspec.Struct, frozen=True):
    """A volume at its global path. `device` is what pods get of a raw one, in that `boot`; `wwid` what its
    disk said of itself; `key` that under which this node registers at it (0: it does not)."""

    path: str
    disk: Disk
    block: bool = False
    device: str = ""
    wwid: str = ""
    key: int = 0
    boot: str = ""


class Login(msgspec.Struct, frozen=True):
    """A session that this plugin makes, or may have made."""

    target: str
    portal: str
    interface: str


_ADVICE = (
    "it is not known which iSCSI volumes use this node's sessions: compare `iscsiadm -m session` with mounts"
)


class Notes(NotesOfBoot[Note]):
    """The files of one node."""

    kind, advice = Note, _ADVICE

    def __init__(self, directory: Path, boot: str) -> None:
        super().__init__(directory, boot)
        self._logins = directory / "logins"

    def said_by(self, path: str) -> Note | None:
        disk = disk_at(path)
        return Note(path, disk, block="/volumeDevices/" in path) if disk is not None else None

    def without_device(self, note: Note) -> Note:
        return msgspec.structs.replace(note, device="")

    def begin(self, login: Login) -> None:
        write(self._logins / file_name("\n".join(msgspec.structs.astuple(login))), login)

    def end(self, login: Login) -> None:
        (self._logins / file_name("\n".join(msgspec.structs.astuple(login)))).unlink(missing_ok=True)

    def logins(self, target: str, interface: str) -> list[Login]:
        """Those with the target over that interface."""
        found = each_of(self._logins, Login, _ADVICE)
        return [each for each in found if (each.target, each.interface) == (target, interface)]
