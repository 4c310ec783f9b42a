"""What the plugin writes down on the node before it acts, so that it can undo that after any crash.

    <plugin's directory>/notes/<hash>.json     a volume that is used here, or about to be

Without its note, a volume is known by its global path alone. Blocking.
"""

from __future__ import annotations

import msgspec

from mooring.volumes.plugins.fc.source import Disk, disk_at
from mooring.volumes.plugins.note_files import NotesOfBoot

_ADVICE = "it is not known which Fibre Channel disks are used here: look at what is mounted, and at its pods"


class Note(msgspec.Struct, frozen=True):
    """A volume at its global path. `device` is what is mounted there, or what pods get of a raw one, in that
    `boot`; `wwid` what its disk said of itself."""

    path: str
    disk: Disk
    block: bool = False
    device: str = ""
    wwid: str = ""
    boot: str = ""


class Notes(NotesOfBoot[Note]):
    """The files of one node."""

    kind, advice = Note, _ADVICE

    def said_by(self, path: str) -> Note | None:
        disk = disk_at(path)
        return Note(path, disk, block="/volumeDevices/" in path) if disk is not None else None

    def without_device(self, note: Note) -> Note:
        return msgspec.structs.replace(note, device="")
