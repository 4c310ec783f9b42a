"""Files of a plugin, one for each thing that it writes down on the node: whole or not there, named by a hash
of what they are about. Blocking."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.volumes.errors import VolumeError

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
    except msgspec.DecodeError as error:
        raise VolumeError(f"{path} is damaged, so {advice}, and remove the file ({error})") from error


def write(path: Path, content: msgspec.Struct) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(content))
    os.replace(new, path)
