"""`vol_data.json`: what an unmount needs to know. It lies beside the mount, and is written before it.

The file and its first six keys are the kubelet's, so that either can clean up after the other. The publish
context of ControllerPublishVolume is our addition, so that later pods need not read it from the API server.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

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


def save(directory: str, data: VolumeData) -> None:
    """Writes the file, and makes its directory. Replaced atomically; not synced, since a crash of
    the machine ends the mounts, too."""
    path = Path(directory)
    path.mkdir(mode=0o750, parents=True, exist_ok=True)
    new = path / f"{NAME}.new"
    new.write_bytes(msgspec.json.encode(data))
    os.replace(new, path / NAME)


def load(directory: str) -> VolumeData | None:
    """Returns the content; None if there is no file, or it cannot be read: then what is
    mounted there is not known."""
    try:
        return msgspec.json.decode((Path(directory) / NAME).read_bytes(), type=VolumeData)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no JSON, not of that form, or no UTF-8
        return None


def remove(directory: str) -> None:
    """Removes the file and its directory, which must be empty but for it."""
    path = Path(directory)
    (path / NAME).unlink(missing_ok=True)
    (path / f"{NAME}.new").unlink(missing_ok=True)
    if path.exists():
        path.rmdir()
