"""EC2's descriptions of volumes, instances and snapshots, as far as the driver needs them. Pure.

Guarantee: an answer that EC2 never gives (a missing id, a size that is text, two different records of one
volume) is a MalformedAnswer that names the action and the field. Unknown fields are ignored. An unknown state
is kept as it is; callers compare with the states that they know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

from mooring.ebs.errors import MalformedAnswer

NAME_TAG = "CSIVolumeName"
SNAPSHOT_NAME_TAG = "CSIVolumeSnapshotName"


@dataclass(frozen=True)
class Attachment:
    """The attachment of a volume to an instance. `state`: attaching, attached, detaching, detached or
    busy."""

    instance_id: str
    device: str
    state: str
    since: datetime | None = None
    """When the attach began."""
    card: int = 0


@dataclass(frozen=True)
class Volume:
    """`state`: creating, available, in-use, deleting, deleted or error. `size` in GiB, `throughput` in
    MiB/s."""

    id: str
    state: str
    size: int
    type: str
    zone: str
    attachments: tuple[Attachment, ...] = ()
    """Without detached ones."""
    iops: int = 0
    throughput: int = 0
    snapshot_id: str = ""
    source_id: str = ""
    """The volume that it is a copy of."""
    encrypted: bool = False
    kms_key_id: str = ""
    multi_attach: bool = False
    zone_id: str = ""
    created: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The name in CreateVolume's request; empty for a volume that this driver did not create."""
        return self.tags.get(NAME_TAG, "")

    def attachment(self, instance_id: str) -> Attachment | None:
        """The attachment to that instance, or None."""
        return next((each for each in self.attachments if each.instance_id == instance_id), None)


@dataclass(frozen=True)
class BlockDevice:
    """A device name in use on an instance; `volume_id` is empty for instance store devices."""

    device: str
    volume_id: str = ""
    card: int = 0


@dataclass(frozen=True)
class Instance:
    """`state`: pending, running, shutting-down, terminated, stopping or stopped."""

    id: str
    state: str
    type: str
    devices: tuple[BlockDevice, ...] = ()
    root_device: str = ""


@dataclass(frozen=True)
class Snapshot:
    """`state`: pending, completed, error, recoverable or recovering. `size` in GiB."""

    id: str
    volume_id: str
    state: str
    size: int
    started: datetime
    message: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The name in CreateSnapshot's request."""
        return self.tags.get(SNAPSHOT_NAME_TAG, "")


@dataclass(frozen=True)
class Modification:
    """The latest one of a volume. `state`: modifying, optimizing, completed or failed."""

    volume_id: str
    state: str
    size: int = 0
    iops: int = 0
    throughput: int = 0
    type: str = ""
    message: str = ""


_T = TypeVar("_T")


class Fields:
    """A structure in an answer, and its path there, for errors. Methods raise MalformedAnswer."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise MalformedAnswer(f"{where} is not a structure")
        self._value = cast(Mapping[str, Any], value)
        self._where = where

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without a `default` it must be there and not be empty."""
        found = self._typed(name, str, default)
        if default is None and not found:
            raise MalformedAnswer(f"{self._where}.{name} is empty")
        return found

    def count(self, name: str, default: int | None = None) -> int:
        """A number that is not negative."""
        found = self._typed(name, int, default)
        if found < 0 or isinstance(found, bool):
            raise MalformedAnswer(f"{self._where}.{name} is {found!r}")
        return found

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, False)

    def time(self, name: str) -> datetime | None:
        """A time with its zone; None if it is not there."""
        if self._value.get(name) is None:
            return None
        found = self._typed(name, datetime, None)
        if found.tzinfo is None:
            raise MalformedAnswer(f"{self._where}.{name} has no time zone")
        return found

    def each(
        self, name: str, read: Callable[[Fields], _T], default: Sequence[object] | None = None
    ) -> tuple[_T, ...]:
        """The members of a list."""
        found = self._value.get(name)
        if found is None and default is not None:
            found = default
        if not isinstance(found, Sequence) or isinstance(found, (str, bytes)):
            raise MalformedAnswer(f"{self._where}.{name} is {'missing' if found is None else 'not a list'}")
        members = enumerate(cast(Sequence[object], found))
        return tuple(read(Fields(one, f"{self._where}.{name}[{number}]")) for number, one in members)

    def part(self, name: str) -> Fields | None:
        """A structure in it; None if it is not there."""
        found = self._value.get(name)
        return None if found is None else Fields(found, f"{self._where}.{name}")

    def tags(self) -> dict[str, str]:
        return dict(self.each("Tags", lambda tag: (tag.text("Key"), tag.text("Value", "")), ()))

    def wrong(self, problem: str) -> MalformedAnswer:
        return MalformedAnswer(f"{self._where} {problem}")

    def _typed(self, name: str, kind: type[_T], default: _T | None) -> _T:
        found = self._value.get(name)
        if found is None:
            if default is None:
                raise MalformedAnswer(f"{self._where}.{name} is missing")
            return default
        if not isinstance(found, kind):
            raise MalformedAnswer(f"{self._where}.{name} is {type(found).__name__}, not {kind.__name__}")
        return found


def volume(fields: Fields) -> Volume:
    """A volume of DescribeVolumes."""
    id = fields.text("VolumeId")
    attachments = fields.each("Attachments", lambda one: _attachment(one, id))
    if len({each.instance_id for each in attachments}) < len(attachments):
        raise fields.wrong("is attached to one instance twice")
    return Volume(
        id=id,
        state=fields.text("State"),
        size=fields.count("Size"),
        type=fields.text("VolumeType"),
        zone=fields.text("AvailabilityZone"),
        zone_id=fields.text("AvailabilityZoneId", ""),
        attachments=tuple(each for each in attachments if each.state != "detached"),
        iops=fields.count("Iops", 0),
        throughput=fields.count("Throughput", 0),
        snapshot_id=fields.text("SnapshotId", ""),
        source_id=fields.text("SourceVolumeId", ""),
        encrypted=fields.flag("Encrypted"),
        kms_key_id=fields.text("KmsKeyId", ""),
        multi_attach=fields.flag("MultiAttachEnabled"),
        created=fields.time("CreateTime"),
        tags=fields.tags(),
    )


def _attachment(fields: Fields, volume_id: str) -> Attachment:
    if fields.text("VolumeId", volume_id) != volume_id:
        raise fields.wrong(f"is another volume's than {volume_id}")
    return Attachment(
        instance_id=fields.text("InstanceId", ""),  # absent if it is attached to a service of Amazon's
        device=fields.text("Device", ""),
        state=fields.text("State"),
        since=fields.time("AttachTime"),
        card=fields.count("EbsCardIndex", 0),
    )


def instance(fields: Fields) -> Instance:
    """An instance of a reservation of DescribeInstances."""
    state = fields.part("State")
    if state is None:
        raise fields.wrong("has no State")
    return Instance(
        id=fields.text("InstanceId"),
        state=state.text("Name"),
        type=fields.text("InstanceType", ""),
        devices=fields.each("BlockDeviceMappings", _block_device, ()),
        root_device=fields.text("RootDeviceName", ""),
    )


def _block_device(fields: Fields) -> BlockDevice:
    ebs = fields.part("Ebs")
    if ebs is None:
        return BlockDevice(fields.text("DeviceName"))
    return BlockDevice(fields.text("DeviceName"), ebs.text("VolumeId"), ebs.count("EbsCardIndex", 0))


def snapshot(fields: Fields) -> Snapshot:
    """A snapshot of DescribeSnapshots, or the answer of CreateSnapshot."""
    started = fields.time("StartTime")
    if started is None:
        raise fields.wrong("has no StartTime")
    return Snapshot(
        id=fields.text("SnapshotId"),
        volume_id=fields.text("VolumeId", ""),
        state=fields.text("State"),
        size=fields.count("VolumeSize"),
        started=started,
        message=fields.text("StateMessage", ""),
        tags=fields.tags(),
    )


def modification(fields: Fields) -> Modification:
    """A modification of DescribeVolumesModifications, or in the answer of ModifyVolume."""
    return Modification(
        volume_id=fields.text("VolumeId"),
        state=fields.text("ModificationState"),
        size=fields.count("TargetSize", 0),
        iops=fields.count("TargetIops", 0),
        throughput=fields.count("TargetThroughput", 0),
        type=fields.text("TargetVolumeType", ""),
        message=fields.text("StatusMessage", ""),
    )


def by_id(records: Sequence[_T], id_of: Callable[[_T], str], action: str) -> dict[str, _T]:
    """Records by their ids. Raises MalformedAnswer if two records with one id differ."""
    found: dict[str, _T] = {}
    for record in records:
        if found.setdefault(id_of(record), record) != record:
            raise MalformedAnswer(f"{action}: {id_of(record)} is in the answer twice, and not the same")
    return found
