"""The parameters of a StorageClass, a VolumeAttributesClass and a VolumeSnapshotClass. Pure.

Keys of a StorageClass are case-insensitive, those of a VolumeAttributesClass are not (upstream's parameters
documentation, v1.64). An unknown key is refused: a typing error must not make a volume of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.csi.errors import Code, CsiError
from mooring.ebs import formatting
from mooring.ebs.controller_service.tags import (
    DELETION_PREFIX,
    METADATA_TAGS,
    SPECIFICATION_PREFIX,
    deleted,
    specified,
)

BLOCK_ATTACH = "blockattachuntilinitialized"
"""Also the key of the volume's context."""

_IGNORED = frozenset({"fstype", "csi.storage.k8s.io/fstype", "blockexpress"})
"""The first two are the provisioner's; upstream ignores the last one, too."""
_KNOWN = formatting.KEYS | _IGNORED | frozenset(METADATA_TAGS) | frozenset(
    {
        "type", "iops", "iopspergb", "allowautoiopspergbincrease", "allowautoiopsincreaseonmodify", "throughput",
        "volumeinitializationrate", "encrypted", "kmskeyid", BLOCK_ATTACH,
    }
)  # fmt: skip
_MUTABLE = frozenset({"iops", "throughput", "type", "volumeType"})
_MODIFIABLE = _MUTABLE | frozenset(METADATA_TAGS) | frozenset({"iopspergb", "allowautoiopsincreaseonmodify"})
INT32 = 2**31 - 1


@dataclass(frozen=True)
class VolumeParameters:
    """What CreateVolume is to make. 0 and empty: not given. Throughput and rate in MiB/s."""

    type: str = "gp3"
    iops: int = 0
    iops_per_gb: int = 0
    auto_iops: bool = False
    """Whether IOPS below the type's minimum are raised to it."""
    auto_iops_on_modify: bool = False
    throughput: int = 0
    initialization_rate: int = 0
    encrypted: bool = False
    kms_key_id: str = ""
    wait_initialized: bool = False
    """Whether an attach waits until all data of the volume's snapshot is there."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tags that name the claim of the volume."""


@dataclass(frozen=True)
class Change:
    """What ControllerModifyVolume is to change. 0, empty and None: unchanged."""

    type: str = ""
    iops: int = 0
    iops_per_gb: int = 0
    auto_iops_on_modify: bool | None = None
    throughput: int = 0
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    deleted_tags: tuple[str, ...] = ()


def volume_parameters(given: Mapping[str, str], mutable: Mapping[str, str]) -> VolumeParameters:
    """The parameters of a StorageClass (`given`) and of a VolumeAttributesClass (`mutable`), which takes
    precedence. Raises CsiError, INVALID_ARGUMENT."""
    tags = {key: value for key, value in given.items() if key.startswith(SPECIFICATION_PREFIX)}
    lowered = {key.lower(): value for key, value in given.items() if key not in tags}
    _refuse_unknown(lowered, _KNOWN, "parameter")
    plain = {key: value for key, value in mutable.items() if not key.startswith(SPECIFICATION_PREFIX)}
    _refuse_unknown(plain, _MUTABLE, "mutable parameter")
    plain["type"] = plain.get("type") or plain.get("volumeType") or lowered.get("type") or "gp3"
    wanted = {**lowered, **plain}
    if wanted.get("iops") and wanted.get("iopspergb"):
        if "iops" not in mutable:
            raise _refused("iops and iopsPerGB exclude each other: give one of them")
        del wanted["iopspergb"]
    key = wanted.get("kmskeyid", "")
    return VolumeParameters(
        type=wanted["type"],
        iops=_number(wanted, "iops"),
        iops_per_gb=_number(wanted, "iopspergb"),
        auto_iops=wanted.get("allowautoiopspergbincrease") == "true",
        auto_iops_on_modify=wanted.get("allowautoiopsincreaseonmodify") == "true",
        throughput=_number(wanted, "throughput"),
        initialization_rate=_number(wanted, "volumeinitializationrate"),
        encrypted=wanted.get("encrypted") == "true" or bool(key),
        kms_key_id=key,
        wait_initialized=wanted.get(BLOCK_ATTACH) == "true",
        tags={**specified(tags), **specified(mutable)},
        metadata=_metadata(wanted),
    )


def change(mutable: Mapping[str, str]) -> Change:
    """The change for the parameters of a VolumeAttributesClass. Raises CsiError, INVALID_ARGUMENT."""
    prefixes = (SPECIFICATION_PREFIX, DELETION_PREFIX)
    plain = {key: value for key, value in mutable.items() if not key.startswith(prefixes)}
    _refuse_unknown(plain, _MODIFIABLE, "mutable parameter")
    if plain.get("iops") and plain.get("iopspergb"):
        raise _refused("iops and iopspergb exclude each other: give one of them")
    tags, gone = specified(mutable), deleted(mutable)
    if both := sorted(set(tags) & set(gone)):
        raise _refused(f"tags {', '.join(both)} are to be written and to be deleted: choose one")
    auto = plain.get("allowautoiopsincreaseonmodify")
    return Change(
        type=plain.get("type") or plain.get("volumeType", ""),
        iops=_number(plain, "iops"),
        iops_per_gb=_number(plain, "iopspergb"),
        auto_iops_on_modify=None if auto is None else auto == "true",
        throughput=_number(plain, "throughput"),
        tags={**tags},
        deleted_tags=gone,
    )


def snapshot_tags(given: Mapping[str, str]) -> dict[str, str]:
    """The tags that a VolumeSnapshotClass specifies. Raises CsiError, INVALID_ARGUMENT, for all other
    parameters: this driver has no fast restore, locks or Outposts."""
    plain = [
        key
        for key in given
        if not key.startswith((SPECIFICATION_PREFIX, "csi.storage.k8s.io/volumesnapshot"))
    ]
    if plain:
        raise _refused(f"this driver has no snapshot parameter {', '.join(sorted(plain))}: leave it out")
    return specified(given)


def _metadata(parameters: Mapping[str, str]) -> dict[str, str]:
    return {tag: parameters[key] for key, tag in METADATA_TAGS.items() if parameters.get(key)}


def _refuse_unknown(parameters: Mapping[str, str], known: frozenset[str], kind: str) -> None:
    if unknown := sorted(parameters.keys() - known):
        raise _refused(f"unknown {kind} {', '.join(unknown)}: there are {', '.join(sorted(known))}")


def _number(parameters: Mapping[str, str], key: str) -> int:
    text = parameters.get(key, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT32):
        raise _refused(f"{key} {text!r} is no number from 0 to {INT32}")
    return int(text or 0)


def _refused(message: str) -> CsiError:
    return CsiError(Code.INVALID_ARGUMENT, message)
