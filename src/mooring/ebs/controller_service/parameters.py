"""What a class asks for: its parameters, and what an attributes class changes. Pure.

Keys of a class count in any case of letters, those of an attributes class as they are written (upstream's
parameters documentation, v1.64). What is unknown is refused: a typing error must not become a volume of
another kind.
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
"""The first two are the provisioner's; the last one says nothing any more."""
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
    """What CreateVolume is to make. 0 and empty: not said. Throughput and rate in MiB/s."""

    type: str = "gp3"
    iops: int = 0
    iops_per_gb: int = 0
    auto_iops: bool = False
    """IOPS below the type's least are raised to it."""
    auto_iops_on_modify: bool = False
    throughput: int = 0
    initialization_rate: int = 0
    encrypted: bool = False
    kms_key_id: str = ""
    wait_initialized: bool = False
    """The volume is attached only when all data of its snapshot is there."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tags that tell for which claim the volume is."""


@dataclass(frozen=True)
class Change:
    """What ControllerModifyVolume is to change. 0, empty and None: leave it."""

    type: str = ""
    iops: int = 0
    iops_per_gb: int = 0
    auto_iops_on_modify: bool | None = None
    throughput: int = 0
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    deleted_tags: tuple[str, ...] = ()


def volume_parameters(given: Mapping[str, str], mutable: Mapping[str, str]) -> VolumeParameters:
    """From a class's parameters and an attributes class's; the latter win. Raises CsiError,
    INVALID_ARGUMENT."""
    tags = {key: value for key, value in given.items() if key.startswith(SPECIFICATION_PREFIX)}
    asked = {key.lower(): value for key, value in given.items() if key not in tags}
    _refuse_unknown(asked, _KNOWN, "parameter")
    plain = {key: value for key, value in mutable.items() if not key.startswith(SPECIFICATION_PREFIX)}
    _refuse_unknown(plain, _MUTABLE, "mutable parameter")
    plain["type"] = plain.get("type") or plain.get("volumeType") or asked.get("type") or "gp3"
    wanted = {**asked, **plain}
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
    """From an attributes class's parameters. Raises CsiError, INVALID_ARGUMENT."""
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
    """The tags that a snapshot class asks for. Raises CsiError, INVALID_ARGUMENT, for all other parameters:
    fast restore, locks and Outposts are not what this driver does."""
    plain = [
        key
        for key in given
        if not key.startswith((SPECIFICATION_PREFIX, "csi.storage.k8s.io/volumesnapshot"))
    ]
    if plain:
        raise _refused(f"this driver has no snapshot parameter {', '.join(sorted(plain))}: leave it out")
    return specified(given)


def _metadata(asked: Mapping[str, str]) -> dict[str, str]:
    return {tag: asked[key] for key, tag in METADATA_TAGS.items() if asked.get(key)}


def _refuse_unknown(asked: Mapping[str, str], known: frozenset[str], kind: str) -> None:
    if unknown := sorted(asked.keys() - known):
        raise _refused(f"unknown {kind} {', '.join(unknown)}: there are {', '.join(sorted(known))}")


def _number(asked: Mapping[str, str], key: str) -> int:
    text = asked.get(key, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT32):
        raise _refused(f"{key} {text!r} is no number from 0 to {INT32}")
    return int(text or 0)


def _refused(message: str) -> CsiError:
    return CsiError(Code.INVALID_ARGUMENT, message)
