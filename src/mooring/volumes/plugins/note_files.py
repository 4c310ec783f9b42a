"""Files of a plugin, one for each thing that it writes down on the node: whole or not there, also after a
power loss, as other volumes can not be let go of while one of them cannot be read. Named by a hash of what
they are about. Blocking.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.disk_files import write_durably

_T = TypeVar("_T")


def file_name(about: str) -> str:
    return f"{hashlib.sha256(about.encode()).hexdigest()[:32]}.json"


def each_of(directory: Path, kind: type[_T], advice: str) -> Iterator[_T]:
    """All that is written down there. Raises VolumeError, with this advice, for a damaged one."""
    for path in sorted(directory.glob("*.json")):
        yield read(path, kind, advice)


def read(path: Path, kind: type[_T], advice: str) -> _T:
    """Raises VolumeError, with this advice, if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except ValueError as error:  # no JSON, not such a note, or no UTF-8
        raise VolumeError(f"{path} is damaged, so {advice}, and remove the file ({error})") from error


def write(path: Path, content: msgspec.Struct) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_durably(path, msgspec.json.encode(content))


class Placed(Protocol):
    """What is written down of a volume: its global path, and the boot in which that was."""

    @property
    def path(self) -> str: ...
    @property
    def boot(self) -> str: ...


_N = TypeVar("_N", bound=Placed)


class NotesOfBoot(ABC, Generic[_N]):
    """The notes on a node's volumes. A device of an earlier boot counts as none: names are given anew.
    `advice` is for who finds a damaged one."""

    kind: type[_N]
    advice: str

    def __init__(self, directory: Path, boot: str) -> None:
        self._notes = directory / "notes"
        self._boot = boot

    @abstractmethod
    def said_by(self, path: str) -> _N | None:
        """What a global path without a note says by itself."""

    @abstractmethod
    def without_device(self, note: _N) -> _N: ...

    def find(self, path: str) -> _N | None:
        """The note of the volume there; without one, what its path says."""
        file = self._notes / file_name(path)
        return self._of_this_boot(read(file, self.kind, self.advice)) if file.exists() else self.said_by(path)

    def save(self, note: _N) -> None:
        struct = cast(msgspec.Struct, note)
        write(self._notes / file_name(note.path), msgspec.structs.replace(struct, boot=self._boot))

    def remove(self, path: str) -> None:
        (self._notes / file_name(path)).unlink(missing_ok=True)

    def all(self) -> list[_N]:
        return [self._of_this_boot(each) for each in each_of(self._notes, self.kind, self.advice)]

    def _of_this_boot(self, note: _N) -> _N:
        """One that says no boot is of a version whose notes had none: the agent alone was made anew."""
        return note if note.boot in ("", self._boot) else self.without_device(note)
