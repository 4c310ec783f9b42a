"""What the plugin writes down on the node before it acts, so that it can undo that after any crash.

    <plugin's directory>/notes/<hash>.json     a volume that is used here, or about to be

Without its note, a volume is known by its global path alone. No keys here. Blocking.
"""

from __future__ import annotations

import msgspec

from mooring.volumes.plugins.note_files import NotesOfBoot
from mooring.volumes.plugins.rbd.source import Image, image_at

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


class Notes(NotesOfBoot[Note]):
    """The files of one node."""

    kind, advice = Note, _ADVICE

    def said_by(self, path: str) -> Note | None:
        image = image_at(path)
        return Note(path, image, block="/volumeDevices/" in path) if image is not None else None

    def without_device(self, note: Note) -> Note:
        return msgspec.structs.replace(note, number="")
