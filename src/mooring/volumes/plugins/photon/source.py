"""What a `photonPersistentDisk` source and the answers of Photon Controller mean: checked values. Pure.

Guarantee: an identifier that leaves here is of letters, digits and dashes, so that it leads nowhere else in a
path or a URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from mooring.kube.objects import PhotonPersistentDiskVolumeSource
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, PluginError
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugins.fc.source import Disk as NamedDisk
from mooring.volumes.plugins.rest import said
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/photon-pd"
DEFAULT_FS_TYPE = "ext4"
DONE, FAILED = "COMPLETED", "ERROR"

_DISK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]{0,99}", re.ASCII)
_TARGET = re.compile(r"https://[-A-Za-z0-9.\[\]:]{1,260}(/[-\w.]{1,40}){0,4}", re.ASCII)


@dataclass(frozen=True)
class Disk:
    """What a spec names, checked. Its text is the disk's identifier."""

    id: str
    fs_type: str = DEFAULT_FS_TYPE
    read_only: bool = False

    @property
    def named(self) -> NamedDisk:
        """As the node knows it: its identifier is the name that it tells of itself (NAA)."""
        return NamedDisk(wwids=(f"3{self.id.replace('-', '')}",))


class VM(msgspec.Struct, frozen=True):
    """A machine of the project."""

    id: str
    name: str


class VMs(msgspec.Struct, frozen=True):
    """The answer to a list."""

    items: list[VM] = []


class DiskState(msgspec.Struct, frozen=True):
    """A persistent disk; `vms` are those that have it."""

    id: str
    state: str = ""
    vms: list[str] | None = None


class StepError(msgspec.Struct, frozen=True):
    """Why a step of a task failed."""

    code: str = ""
    message: str = ""


class Step(msgspec.Struct, frozen=True):
    """A step of a task."""

    errors: list[StepError] | None = None


class Task(msgspec.Struct, frozen=True):
    """What an order has become: QUEUED, STARTED, COMPLETED or ERROR."""

    id: str
    state: str
    steps: list[Step] | None = None

    @property
    def why(self) -> str:
        """What it says of its failure, in one short line."""
        errors = [error for step in self.steps or () for error in step.errors or ()]
        return said("; ".join(each.message or each.code for each in errors[:3])) or "it says not why"


def written(spec: VolumeSpec) -> PhotonPersistentDiskVolumeSource | None:
    """The `photonPersistentDisk` source of the spec, unchecked."""
    return spec.definition.photon_persistent_disk if spec.definition is not None else None


def disk(spec: VolumeSpec) -> Disk:
    """Raises InvalidSpec for a spec that is not Photon's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no photonPersistentDisk source")
    if not _DISK.fullmatch(source.pd_id.lower()):
        raise InvalidSpec(
            f"photonPersistentDisk.pdID {source.pd_id[:100]!a} of volume {spec.name} is no identifier of a disk, "
            f"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx: correct it"
        )
    return Disk(source.pd_id.lower(), source.fs_type or DEFAULT_FS_TYPE, spec.read_only)


def global_path(host: VolumeHost, of: Disk) -> Path:
    """Where the disk is mounted for the node."""
    return host.get_plugin_dir(PLUGIN_NAME) / "mounts" / of.id


def disk_at(path: str) -> Disk | None:
    """What a global path says of its disk; None if it is none."""
    place = Path(path)
    return Disk(place.name) if place.parent.name == "mounts" and _DISK.fullmatch(place.name) else None


def target(text: str) -> str:
    """The URL of the API. Raises PluginError."""
    try:
        host = urlsplit(text).hostname
    except ValueError:
        host = None
    if not host or not _TARGET.fullmatch(text):
        raise PluginError(f"the setting target {text[:100]!a} is not https://HOST:PORT: correct it")
    return text


def checked_id(text: str, what: str) -> str:
    """An identifier that Photon Controller made. Raises OutcomeUnknown for what cannot be one."""
    if not _ID.fullmatch(text):
        raise OutcomeUnknown(f"Photon Controller calls a {what} {text[:100]!a}, which cannot be")
    return text


def vm_of(node_name: str, found: VMs) -> str | None:
    """The machine with the node's name; None if there is none. Raises OutcomeUnknown if there are several."""
    named = [each.id for each in found.items if each.name == node_name]
    if len(named) > 1:
        raise OutcomeUnknown(
            f"Photon Controller has {len(named)} machines of the name {node_name}: it is not known which is the node"
        )
    return checked_id(named[0], "machine") if named else None


def others(at: Sequence[str], vm: str) -> list[str]:
    """Which other machines have the disk, in words that can be shown."""
    return [said(each) for each in at[:8] if each != vm]
