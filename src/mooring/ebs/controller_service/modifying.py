"""Growing and changing volumes.

EC2 accepts the next modification of a volume only when the one before it is completed, and four in any 24
hours. So requests for one volume within a short time become one modification; a property that already has its
value is left out; and if another client's modification (or our own, before a restart) leads to the same
result, the modifier waits for it instead of sending another one. A modification counts as done when EC2 is
"optimizing": the volume then has its new size and speed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import structlog

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.parameters import Change
from mooring.ebs.controller_service.presence import volume_there
from mooring.ebs.controller_service.tags import AUTO_IOPS_TAG, IOPS_PER_GB_TAG, TagPolicy, tag_list
from mooring.ebs.controller_service.volume_types import TYPES, iops_for
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.describe import Describe, poll_pause_s
from mooring.ebs.ec2.records import Modification, Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable

MODIFICATION_S = 900.0
"""The longest wait for the end of a modification, in seconds; most take seconds."""
SHOWN_S = 60.0
"""The longest wait for EC2 to show a modification that it has accepted, in seconds."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Target:
    """What a volume is to become; 0 and empty: unchanged. Sizes in GiB, throughput in MiB/s."""

    size: int = 0
    type: str = ""
    iops: int = 0
    iops_per_gb: int = 0
    throughput: int = 0
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    deleted_tags: frozenset[str] = frozenset()

    @property
    def modifies(self) -> bool:
        """Whether it is about more than tags."""
        return bool(self.size or self.type or self.iops or self.iops_per_gb or self.throughput)

    def merged(self, other: Target) -> Target:
        """Both targets in one. Raises CsiError, ABORTED, if they contradict each other."""
        for name in ("size", "type", "iops", "iops_per_gb", "throughput"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine and theirs and mine != theirs:
                raise _at_odds(f"{name} {mine} and {theirs}")
        for key in self.tags.keys() & other.tags.keys():
            if self.tags[key] != other.tags[key]:
                raise _at_odds(f"two values of tag {key}")
        if clash := (self.deleted_tags & other.tags.keys()) | (other.deleted_tags & self.tags.keys()):
            raise _at_odds(f"tag {min(clash)} is to be written and to be deleted")
        return Target(
            self.size or other.size,
            self.type or other.type,
            self.iops or other.iops,
            self.iops_per_gb or other.iops_per_gb,
            self.throughput or other.throughput,
            {**self.tags, **other.tags},
            self.deleted_tags | other.deleted_tags,
        )


def target_of(change: Change, policy: TagPolicy) -> Target:
    """The target for the change that a VolumeAttributesClass asks for. Raises CsiError, INVALID_ARGUMENT."""
    tags = dict(policy.checked(change.tags))
    if change.iops_per_gb:
        tags[IOPS_PER_GB_TAG] = str(change.iops_per_gb)
    if change.auto_iops_on_modify is not None:
        tags[AUTO_IOPS_TAG] = "true" if change.auto_iops_on_modify else "false"
    return Target(
        type=change.type,
        iops=change.iops,
        iops_per_gb=change.iops_per_gb,
        throughput=change.throughput,
        tags=tags,
        deleted_tags=frozenset(change.deleted_tags),
    )


def grown_size(volume: Volume, wanted: csi.CapacityRange) -> int:
    """The size in GiB that a volume is to have; its present size if that suffices. Raises CsiError,
    OUT_OF_RANGE."""
    size = max(-(-wanted.required_bytes // GIB), volume.size)
    if wanted.limit_bytes and size * GIB > wanted.limit_bytes:
        raise CsiError(
            Code.OUT_OF_RANGE,
            f"volume {volume.id} has {size} GiB at least, and the limit is {wanted.limit_bytes} bytes",
        )
    facts = TYPES.get(volume.type)
    if facts and size > facts.largest:
        raise CsiError(
            Code.OUT_OF_RANGE, f"{size} GiB: a {volume.type} volume has at most {facts.largest} GiB"
        )
    return size


def differences(volume: Volume, target: Target) -> dict[str, Any]:
    """The parameters for ModifyVolume; empty if the volume has its target values."""
    size, kind = max(target.size, volume.size), target.type or volume.type
    wanted = {
        "Size": size,
        "VolumeType": kind,
        "Iops": _iops(volume, target, size, kind),
        "Throughput": target.throughput,
    }
    present = {
        "Size": volume.size,
        "VolumeType": volume.type,
        "Iops": volume.iops,
        "Throughput": volume.throughput,
    }
    return {name: value for name, value in wanted.items() if value and value != present[name]}


def _iops(volume: Volume, target: Target, size: int, kind: str) -> int:
    """The target's IOPS; or IOPS in proportion to the size, as the target or the volume's tags specify."""
    if target.iops:
        return target.iops
    per_gb = target.iops_per_gb
    noted = volume.tags.get(IOPS_PER_GB_TAG, "")
    if not per_gb and noted.isdecimal() and volume.tags.get(AUTO_IOPS_TAG) == "true" and size != volume.size:
        per_gb = int(noted)
    return iops_for(kind, size, per_gb, raise_to_least=True)


def makes(modification: Modification, changes: Mapping[str, Any]) -> bool:
    """Whether the modification leads to these changes."""
    targets = {
        "Size": modification.size,
        "VolumeType": modification.type,
        "Iops": modification.iops,
        "Throughput": modification.throughput,
    }
    return all(targets[name] == value for name, value in changes.items())


def as_made(volume: Volume, latest: Modification | None) -> Volume:
    """The volume as its latest modification has made it. While EC2 is optimizing it, which takes longer than
    its descriptions lag, they may be of before that."""
    if latest is None or latest.state != "optimizing":
        return volume
    made = {field: getattr(latest, field) for field in _FIELDS.values()}
    return replace(volume, **{field: value for field, value in made.items() if value})


class Modifier:
    """Modifies volumes. Requests for one volume within `window_s` seconds become one modification."""

    def __init__(self, api: Ec2Api, describe: Describe, settling: Settling, window_s: float) -> None:
        self._api = api
        self._describe = describe
        self._settling = settling
        self._window_s = window_s
        self._gathering: dict[str, _Gathering] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By volume. A lock exists while a task holds it or waits for it."""
        self._tasks: set[asyncio.Task[Volume]] = set()

    async def expand(self, volume_id: str, wanted: csi.CapacityRange) -> Volume:
        """Returns the volume when it has grown. Raises CsiError, EbsError."""
        volume = await self._volume(volume_id)
        return await self.change(volume_id, Target(size=grown_size(volume, wanted)))

    async def change(self, volume_id: str, target: Target) -> Volume:
        """Returns the volume when it has changed. Cancelling a caller does not cancel the modification, which
        other callers may share. Raises CsiError, EbsError."""
        gathering = self._gathering.get(volume_id)
        if gathering is None:
            gathering = _Gathering(target)
            gathering.task = asyncio.get_running_loop().create_task(self._gather(volume_id, gathering))
            self._gathering[volume_id] = gathering
            self._tasks.add(gathering.task)
            gathering.task.add_done_callback(self._tasks.discard)
        else:
            gathering.target = gathering.target.merged(target)
        assert gathering.task is not None
        return await asyncio.shield(gathering.task)

    async def _gather(self, volume_id: str, gathering: _Gathering) -> Volume:
        try:
            await asyncio.sleep(self._window_s)
        finally:
            del self._gathering[volume_id]
        async with self._locks.setdefault(volume_id, asyncio.Lock()):
            return await self._apply(volume_id, gathering.target)

    async def _apply(self, volume_id: str, target: Target) -> Volume:
        volume = await (self._modify(volume_id, target) if target.modifies else self._volume(volume_id))
        await self._tag(volume, target)
        return volume

    async def _modify(self, volume_id: str, target: Target) -> Volume:
        try:
            return await self._ensure(volume_id, target)
        except Ec2Error as error:
            if error.code != "IncorrectModificationState":
                raise
            # There is a modification that EC2 did not show yet: perhaps the one that this request wants.
            await asyncio.sleep(self._settling.settle_s)
            return await self._ensure(volume_id, target)

    async def _ensure(self, volume_id: str, target: Target) -> Volume:
        latest = await self._finished_modifying(volume_id)
        volume = as_made(await self._volume(volume_id), latest)
        changes = differences(volume, target)
        if changes:
            _refuse_while_optimizing(latest, volume)
            await self._ask(volume, changes)
        return replace(volume, **{_FIELDS[name]: value for name, value in changes.items()})

    async def _ask(self, volume: Volume, changes: Mapping[str, Any]) -> None:
        try:
            await self._api.call("ModifyVolume", {"VolumeId": volume.id, **changes})
        except Ec2Unreachable as error:
            _log.info("the outcome of ModifyVolume is not known", volume=volume.id, error=str(error))
        await self._finished_modifying(volume.id, changes)

    async def _finished_modifying(
        self, volume_id: str, changes: Mapping[str, Any] | None = None
    ) -> Modification | None:
        """Waits until the volume's latest modification is not "modifying" and returns it; with `changes`,
        waits for one that makes them. Raises CsiError if it failed, or takes too long."""
        time = asyncio.get_running_loop().time
        began = time()
        for polls in itertools.count():
            latest = await self._describe.modification(volume_id)
            is_shown = changes is None or (latest is not None and makes(latest, changes))
            if is_shown and (latest is None or latest.state != "modifying"):
                if changes is not None:
                    _check_made(latest, volume_id)
                return latest
            if time() - began > (MODIFICATION_S if is_shown else SHOWN_S):
                state = latest.state if latest and is_shown else "not shown"
                raise CsiError(
                    Code.UNAVAILABLE,
                    f"the modification of volume {volume_id} is {state} after {time() - began:.0f} s",
                )
            await asyncio.sleep(poll_pause_s(self._describe.batching, polls))
        raise AssertionError("unreachable: the questions have no end")

    async def _tag(self, volume: Volume, target: Target) -> None:
        tags = {key: value for key, value in target.tags.items() if volume.tags.get(key) != value}
        if tags:
            await self._api.call("CreateTags", {"Resources": [volume.id], "Tags": tag_list(tags)})
        gone = sorted(target.deleted_tags & volume.tags.keys())
        if gone:
            await self._api.call(
                "DeleteTags", {"Resources": [volume.id], "Tags": [{"Key": key} for key in gone]}
            )

    async def _volume(self, volume_id: str) -> Volume:
        return await volume_there(self._describe, self._settling, volume_id)


@dataclass
class _Gathering:
    target: Target
    task: asyncio.Task[Volume] | None = None


_FIELDS = {"Size": "size", "VolumeType": "type", "Iops": "iops", "Throughput": "throughput"}


def _check_made(latest: Modification | None, volume_id: str) -> None:
    if latest is not None and latest.state == "failed":
        raise CsiError(
            Code.INTERNAL, f"EC2 could not modify volume {volume_id}: {latest.message or 'no reason given'}"
        )


def _refuse_while_optimizing(running: Modification | None, volume: Volume) -> None:
    if running is not None and running.state == "optimizing":
        raise CsiError(
            Code.FAILED_PRECONDITION,
            f"volume {volume.id} cannot be modified: EC2 is still optimizing it after the last modification; try later",
        )


def _at_odds(what: str) -> CsiError:
    return CsiError(
        Code.ABORTED, f"another change of this volume is under way, and is at odds with this one: {what}"
    )
