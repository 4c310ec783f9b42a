"""What a user may write for a `mooring.dev/disk` volume: in a PersistentVolume or pod, and
in a StorageClass. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mooring.kube.objects import FlexVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.disk_array import NO_DELAYS, Delays
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "mooring.dev/disk"
DEFAULT_FS_TYPE = "ext4"

_DELAYS = {
    "attachDelaySeconds": "attach",
    "attachReplyDelaySeconds": "attach_reply",
    "detachDelaySeconds": "detach",
    "detachReplyDelaySeconds": "detach_reply",
}
_PARAMETERS = {"fsType", "exclusive", *_DELAYS}
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class DiskSource:
    """A disk as a spec names it."""

    disk: str
    fs_type: str = DEFAULT_FS_TYPE
    read_only: bool = False
    exclusive: bool = True


@dataclass(frozen=True)
class Parameters:
    """A StorageClass's parameters: fsType, exclusive, {attach,detach}[Reply]DelaySeconds.
    All are optional."""

    fs_type: str = DEFAULT_FS_TYPE
    exclusive: bool = True
    delays: Delays = NO_DELAYS


def flex_volume(spec: VolumeSpec) -> FlexVolumeSource | None:
    """The flexVolume of the spec if this plugin is its driver."""
    source = spec.definition.flex_volume if spec.definition is not None else None
    return source if source is not None and source.driver == PLUGIN_NAME else None


def disk_source(spec: VolumeSpec) -> DiskSource:
    """Raises InvalidSpec for a spec that is not a disk's, or not complete."""
    source = flex_volume(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no flexVolume with driver {PLUGIN_NAME}")
    if not source.options.get("disk"):
        raise InvalidSpec(f"volume {spec.name} does not name its disk: add flexVolume.options.disk")
    exclusive = _boolean("exclusive", source.options.get("exclusive", "true"), f"volume {spec.name}")
    return DiskSource(source.options["disk"], source.fs_type or DEFAULT_FS_TYPE, source.read_only, exclusive)


def parameters(given: Mapping[str, str]) -> Parameters:
    """Raises InvalidSpec for a parameter that does not exist or has an impossible value."""
    if unknown := sorted(given.keys() - _PARAMETERS):
        known = ", ".join(sorted(_PARAMETERS))
        raise InvalidSpec(
            f"the StorageClass has parameters that {PLUGIN_NAME} does not know: {unknown}. Known: {known}"
        )
    return Parameters(
        fs_type=given.get("fsType") or DEFAULT_FS_TYPE,
        exclusive=_boolean("exclusive", given.get("exclusive", "true"), "the StorageClass"),
        delays=Delays(
            **{field: _seconds(name, given[name]) for name, field in _DELAYS.items() if name in given}
        ),
    )


def _boolean(name: str, text: str, where: str) -> bool:
    if text not in _BOOLEANS:
        raise InvalidSpec(f'{name} of {where} is {text!r}: it must be "true" or "false"')
    return _BOOLEANS[text]


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidSpec(
            f"{name} of the StorageClass is {text!r}: it must be a number of seconds, 0 or more"
        )
    return seconds
