"""What the plugin writes down on the node before it acts, so that it can undo that after any crash.

    <plugin's directory>/notes/<hash>.json     a volume that is used here, or about to be

Without its note, a volume is known by its global path alone. No keys here. Blocking.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.volumes.plugins.note_files import each_of, file_name, read, write
from mooring.volumes.plugins.rbd.source import Image, image_at

BOOT = Path("/proc/sys/kernel/random/boot_id")
_ADVICE = (
    "it is not known which images of Ceph are used here: look at what is mounted, and at /sys/bus/rbd/devices"
)


class Note(msgspec.Struct, frozen=True):
    """A volume at its global path. `number` is the device's, /dev/rbdNUMBER, in that `boot`; `identity` what
    the cluster calls the image."""

    path: str
    image: Image
    block: bool = False
    number: str = ""
    identity: str = ""
    boot: str = ""


class Notes:
    """The files of one node. A device of an earlier boot counts as none: numbers are given anew."""

    def __init__(self, directory: Path, boot: str) -> None:
        self._notes = directory / "notes"
        self._boot = boot

    def find(self, path: str) -> Note | None:
        """The note of the volume there; without one, what its path says."""
        file = self._notes / file_name(path)
        if file.exists():
            return self._of_this_boot(read(file, Note, _ADVICE))
        image = image_at(path)
        return Note(path, image, block="/volumeDevices/" in path) if image is not None else None

    def save(self, note: Note) -> None:
        write(self._notes / file_name(note.path), msgspec.structs.replace(note, boot=self._boot))

    def remove(self, path: str) -> None:
        (self._notes / file_name(path)).unlink(missing_ok=True)

    def all(self) -> list[Note]:
        return [self._of_this_boot(each) for each in each_of(self._notes, Note, _ADVICE)]

    def _of_this_boot(self, note: Note) -> Note:
        return note if note.boot == self._boot else msgspec.structs.replace(note, number="")
