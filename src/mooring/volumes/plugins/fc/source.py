"""What an `fc` source means: checked values, from which paths are made. Pure.

Guarantee: every text of a `Disk` has been looked at, so that none leads out of the plugin's directory. A
volume's directory says all that finds its disk again, so that two volumes never share one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mooring.kube.objects import FCVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugins.fc.identity import named
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/fc"
DEFAULT_FS_TYPE = "ext4"
HIGHEST_LUN = 255
MOST_NAMES = 16
LONGEST_DIRECTORY = 240  # bytes; a file system allows 255

_WWN = re.compile(r"(?:0x)?([0-9a-f]{16})", re.ASCII)
_COLONS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){7}", re.ASCII)
_WWID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+=@#-]{0,199}", re.ASCII)
_BY_PORTS = re.compile(r"([0-9a-f]{16}(?:,[0-9a-f]{16})*)-lun-([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True)
class Disk:
    """A LUN behind ports of a storage, by their names, 16 hexadecimal digits each; or a disk by what it says
    of itself (`wwids`: one of them is enough)."""

    wwns: tuple[str, ...] = ()
    lun: int = 0
    wwids: tuple[str, ...] = ()
    fs_type: str = DEFAULT_FS_TYPE
    read_only: bool = False

    def __str__(self) -> str:
        return f"LUN {self.lun} of {', '.join(self.wwns)}" if self.wwns else f"disk {', '.join(self.wwids)}"


def written(spec: VolumeSpec) -> FCVolumeSource | None:
    """The `fc` source of the spec, unchecked."""
    return spec.definition.fc if spec.definition is not None else None


def disk(spec: VolumeSpec) -> Disk:
    """Raises InvalidSpec for a spec that is not Fibre Channel's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no fc source")
    where = f"fc of volume {spec.name}"
    if bool(source.target_wwns) == bool(source.wwids):
        raise InvalidSpec(f"{where} needs either targetWWNs with lun, or wwids: give one of them")
    if len(source.target_wwns) + len(source.wwids) > MOST_NAMES:
        raise InvalidSpec(f"{where} has more than {MOST_NAMES} names: leave some out")
    read_only = source.read_only or spec.read_only
    fs_type = source.fs_type or DEFAULT_FS_TYPE
    if source.wwids:
        ids = tuple(dict.fromkeys(_wwid(text, where) for text in source.wwids))
        found = Disk(wwids=ids, fs_type=fs_type, read_only=read_only)
    else:
        if source.lun is None or not 0 <= source.lun <= HIGHEST_LUN:
            raise InvalidSpec(f"{where} needs a lun of 0 to {HIGHEST_LUN} beside targetWWNs")
        ports = tuple(dict.fromkeys(_wwn(text, where) for text in source.target_wwns))
        found = Disk(wwns=ports, lun=source.lun, fs_type=fs_type, read_only=read_only)
    if len(directory(found)) > LONGEST_DIRECTORY:
        raise InvalidSpec(f"the names in {where} are too long together: leave some out")
    return found


def _wwn(text: str, where: str) -> str:
    low = text.lower()
    found = _WWN.fullmatch(low.replace(":", "") if _COLONS.fullmatch(low) else low)
    if found is None:
        raise InvalidSpec(
            f"{text[:100]!a} in targetWWNs of {where} is not the name of a port: it has 16 hexadecimal digits"
        )
    return found[1]


def _wwid(text: str, where: str) -> str:
    short = named(text) if len(text) <= LONGEST_DIRECTORY else ""
    if not _WWID.fullmatch(short) or _BY_PORTS.fullmatch(short):
        raise InvalidSpec(
            f"{text[:100]!a} in wwids of {where} is not what a disk can be called: write what `lsscsi --scsi_id`, or "
            f"the link /dev/disk/by-id/scsi-..., says of it"
        )
    return short


# --- names and places


def volume_name(disk: Disk) -> str:
    """As upstream: `[WWN WWN]:LUN`, `[WWID WWID]`."""
    return f"[{' '.join(disk.wwns)}]:{disk.lun}" if disk.wwns else f"[{' '.join(disk.wwids)}]"


def directory(disk: Disk) -> str:
    """The name of its directory: upstream's, with all the names instead of the first."""
    return f"{','.join(disk.wwns)}-lun-{disk.lun}" if disk.wwns else ",".join(disk.wwids)


def global_path(host: VolumeHost, disk: Disk, *, block: bool = False) -> Path:
    """Where the volume is mounted for the node; for a raw device, the name by which it is recorded."""
    plugin = host.get_plugin_dir(PLUGIN_NAME)
    return (plugin / "volumeDevices" if block else plugin / "mounts") / directory(disk)


def disk_at(path: str) -> Disk | None:
    """What a global path says of its disk; None if it is none."""
    parent, name = Path(path).parts[-2:] if len(Path(path).parts) > 1 else ("", "")
    if parent not in ("mounts", "volumeDevices"):
        return None
    if found := _BY_PORTS.fullmatch(name):
        lun = int(found[2])
        return Disk(wwns=tuple(found[1].split(",")), lun=lun) if lun <= HIGHEST_LUN else None
    ids = tuple(name.split(","))
    plain = all(_WWID.fullmatch(each) and named(each) == each for each in ids)
    return Disk(wwids=ids) if plain and len(name) <= LONGEST_DIRECTORY else None
