"""`vol_data.json`: what an unmount needs to know, beside what is mounted, written before it is.

The file and its first six keys are the kubelet's, so that either can clean up after the other; what ControllerPublish
said is ours, so that pods that come later need not ask the API server for it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mooring.mounts.blocking import blocking

NAME = "vol_data.json"


class VolumeData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A staged volume, or a pod's."""

    spec_vol_id: str = msgspec.field(default="", name="specVolID")
    volume_handle: str = ""
    driver_name: str = ""
    node_name: str = ""
    attachment_id: str = msgspec.field(default="", name="attachmentID")
    volume_lifecycle_mode: str = "Persistent"
    publish_context: dict[str, str] = {}


async def save(directory: str, data: VolumeData) -> None:
    """Makes the directory, too. Replaced atomically."""
    await blocking(_save, Path(directory), msgspec.json.encode(data))


def _save(directory: Path, text: bytes) -> None:
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    new = directory / f"{NAME}.new"
    new.write_bytes(text)
    os.replace(new, directory / NAME)


async def load(directory: str) -> VolumeData | None:
    """None if there is none, or one that cannot be read: then nobody knows what is mounted there."""
    return await blocking(load_now, Path(directory))


def load_now(directory: Path) -> VolumeData | None:
    """As `load`, at once."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=VolumeData)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


async def remove(directory: str) -> None:
    """The file and its directory, which must be empty but for it."""
    await blocking(_remove, Path(directory))


def _remove(directory: Path) -> None:
    (directory / NAME).unlink(missing_ok=True)
    (directory / f"{NAME}.new").unlink(missing_ok=True)
    if directory.exists():
        directory.rmdir()
