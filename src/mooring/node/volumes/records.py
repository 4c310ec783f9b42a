"""What the agent writes down about each volume before it mounts it, so that a restarted agent knows what is
there.

One small file for each volume, `<root>/volumes/<hash of its unique name>.json`: replaced atomically before a
mount is made, and again after it is gone. A crash of the agent loses nothing. A crash of the machine may lose
a file, but it ends the mounts, too; so nothing is synced to disk, unless this agent has attached the volume:
that attachment stays, and no controller would undo it.

What is mounted without a record (the file was lost, or is damaged) is found by `scan`: it counts as in use
and is taken down, because the attachment under which it was mounted is not known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import structlog

from mooring.mounts.interface import Mount
from mooring.volumes.names import (
    attachable_volume_name,
    escape_plugin_name,
    pod_volume_name,
    unescape_plugin_name,
)
from mooring.volumes.plugins.disk_files import write_durably

log = structlog.get_logger("node-agent")


class DeviceRecord(msgspec.Struct, frozen=True):
    """A device that is mounted (`mount_path` is where) or given to pods as it is (`mount_path` is the
    device), or about to be. The VolumeAttachment's and the Node's uid are "" if not known. `leaving`: its
    unmount has begun, and no mount has succeeded since. `unfinished`: its mount has begun, and none has
    succeeded since: what is mounted there may lack what the driver does after that."""

    mount_path: str
    attachment_uid: str = ""
    node_uid: str = ""
    leaving: bool = False
    unfinished: bool = False


class PodRecord(msgspec.Struct, frozen=True):
    """A pod's volume that is set up, or about to be. `path` is where. `unfinished`: its set-up has begun, and
    none has succeeded since: what is mounted there may lack its content, or its owner. `leaving`: it is being
    taken from the pod: half of it may be gone, and the rest may go at any time."""

    spec_name: str
    path: str
    unfinished: bool = False
    leaving: bool = False


class VolumeRecord(msgspec.Struct, frozen=True):
    """Everything that is, or may be, mounted of one volume. `pods` is by pod UID."""

    unique_name: str
    plugin: str
    attachable: bool = False
    has_device: bool = False
    attached_here: bool = False
    """This agent has attached it, or was about to, and must detach it: no controller does."""
    block: bool = False
    """Pods get the raw device; nothing of it is mounted."""
    device: DeviceRecord | None = None
    pods: dict[str, PodRecord] = {}

    @property
    def empty(self) -> bool:
        return self.device is None and not self.pods and not self.attached_here


class Records:
    """The records of one node, below its root directory."""

    def __init__(self, root: Path) -> None:
        self._directory = root / "volumes"

    def load(self) -> list[VolumeRecord]:
        """All records. A damaged one is logged and removed: `scan` finds what it was about."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return [
            record for path in sorted(self._directory.glob("*.json")) if (record := _read(path)) is not None
        ]

    def save(self, record: VolumeRecord) -> None:
        """Writes the record, or removes it when nothing is left of the volume."""
        path = self._directory / f"{hashlib.sha256(record.unique_name.encode()).hexdigest()[:32]}.json"
        if record.empty:
            path.unlink(missing_ok=True)
            return
        content = msgspec.json.encode(record)
        if record.attached_here:
            write_durably(path, content)
            return
        new = path.with_suffix(".new")
        new.write_bytes(content)
        os.replace(new, path)


def _read(path: Path) -> VolumeRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=VolumeRecord)
    except ValueError as error:  # no JSON, not such a record, or no UTF-8
        log.error(
            "damaged volume record removed; its mounts are looked for", path=str(path), error=str(error)
        )
        path.unlink()
        return None


VolumeAt = Callable[[str, str], str | None]
"""Takes a plugin's name and a mount point below its directory; gives the name of the volume that is mounted
there."""


def scan(
    root: Path, records: Iterable[VolumeRecord], table: Iterable[Mount], volume_at: VolumeAt
) -> list[VolumeRecord]:
    """Records for what is there without one: pods' volume directories, and devices mounted below
    `<root>/plugins`. A device that belongs to a known record comes as that record, completed."""
    known = list(records)
    by_name = {record.unique_name: record for record in known}
    paths = {record.device.mount_path for record in known if record.device}
    pods = {
        (uid, escape_plugin_name(record.plugin), p.spec_name)
        for record in known
        for uid, p in record.pods.items()
    }
    unknown = [mount.mount_point for mount in table if mount.mount_point not in paths]
    found = [_unknown_device(root, mount_point, volume_at) for mount_point in unknown]
    for kind in ("volumes", "volumeDevices"):
        paths_of_pods = sorted(root.glob(f"pods/*/{kind}/*/*"))
        found += [_unknown_pod_volume(path) for path in paths_of_pods if _pod_key(path) not in pods]
    return [_completed(by_name.get(record.unique_name), record) for record in found if record is not None]


def _completed(known: VolumeRecord | None, found: VolumeRecord) -> VolumeRecord:
    return found if known is None else msgspec.structs.replace(known, device=found.device, has_device=True)


def _pod_key(path: Path) -> tuple[str, str, str]:
    return path.parents[2].name, path.parent.name, path.name


def _unknown_device(root: Path, mount_point: str, volume_at: VolumeAt) -> VolumeRecord | None:
    path = Path(mount_point)
    if not path.is_relative_to(root / "plugins"):
        return None
    parts = path.relative_to(root / "plugins").parts
    plugin = unescape_plugin_name(parts[0]) if parts else ""
    volume = volume_at(plugin, mount_point)
    if not volume:
        return None
    name = attachable_volume_name(plugin, volume)
    return VolumeRecord(name, plugin, attachable=True, has_device=True, device=DeviceRecord(mount_point))


def _unknown_pod_volume(path: Path) -> VolumeRecord:
    uid, directory, spec_name = _pod_key(path)
    plugin = unescape_plugin_name(directory)
    name = pod_volume_name(plugin, uid, spec_name)
    block = path.parents[1].name == "volumeDevices"
    return VolumeRecord(name, plugin, block=block, pods={uid: PodRecord(spec_name, str(path))})
