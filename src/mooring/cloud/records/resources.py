"""The cloud's records: plain values that are stored whole and never changed in place.

`due` is the time of a record's next transition (seconds since the epoch; 0: none). Sizes are in GiB,
throughput in MiB/s.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A volume on an instance. `state`: attaching, attached, detaching or busy."""

    instance: str
    device: str
    state: str
    time: float
    """When the attach began."""
    due: float = 0.0
    card: int = 0
    delete_on_termination: bool = False
    force: bool = False
    """Whether the detach does not wait until the instance releases the device."""
    stuck: bool = False
    """Whether the instance does not release the device until `due`, or for ever."""


class Volume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: creating, available, in-use, deleting or error."""

    id: str
    size: int
    type: str
    zone: str
    created: float
    state: str
    iops: int = 0
    throughput: int = 0
    encrypted: bool = False
    kms_key: str = ""
    snapshot: str = ""
    source: str = ""
    """The volume it was copied from."""
    rate: int = 0
    """Volume initialization rate in MiB/s; 0: none was requested."""
    initialized: float = 0.0
    """When its initialization ends."""
    multi_attach: bool = False
    tags: dict[str, str] = {}
    attachments: tuple[Attachment, ...] = ()
    due: float = 0.0
    doomed: bool = False
    """Whether its KMS key is unusable: it vanishes when its creation would end."""
    stored: bool = False
    """Whether there is storage behind it. (A root volume has none until it leaves its instance.)"""

    def attachment(self, instance: str) -> Attachment | None:
        """Its attachment to the instance."""
        return next((each for each in self.attachments if each.instance == instance), None)

    def with_attachment(self, attachment: Attachment) -> Volume:
        """The volume with this attachment in place of the one to the same instance."""
        others = [each for each in self.attachments if each.instance != attachment.instance]
        return msgspec.structs.replace(self, attachments=(*others, attachment), state="in-use")

    def without_attachment(self, instance: str) -> Volume:
        """The volume without its attachment to the instance; available if that was the last one."""
        left = tuple(each for each in self.attachments if each.instance != instance)
        return msgspec.structs.replace(self, attachments=left, state=self.state if left else "available")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: pending, completed or error."""

    id: str
    volume: str
    size: int
    started: float
    state: str
    description: str = ""
    encrypted: bool = False
    kms_key: str = ""
    message: str = ""
    ends: float = 0.0
    """When it is complete; its progress grows linearly until then."""
    tags: dict[str, str] = {}
    due: float = 0.0


class Modification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last modification of volume `id`. `state`: modifying, optimizing, completed or failed."""

    id: str
    state: str
    started: float
    original: Shape
    target: Shape
    starts: tuple[float, ...] = ()
    """When each modification of the last 24 hours began."""
    optimizing: float = 0.0
    """When it became "optimizing"."""
    ended: float = 0.0
    message: str = ""
    due: float = 0.0


class Shape(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ModifyVolume can change."""

    size: int
    type: str
    iops: int
    throughput: int
    multi_attach: bool = False


class Instance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: pending, running, stopping, stopped, shutting-down or terminated."""

    id: str
    type: str
    zone: str
    launched: float
    state: str
    number: int
    """Counts instances from 1; gives its addresses."""
    reservation: str
    image: str
    root_device: str
    interfaces: int = 1
    launch_index: int = 0
    client_token: str = ""
    burned: tuple[str, ...] = ()
    """Device names that force detaches have made unusable until its next start."""
    boot_devices: tuple[str, ...] = ()
    """Devices besides the root device that it had when it last started."""
    reason: str = ""
    tags: dict[str, str] = {}
    due: float = 0.0


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A used client token. `id`: action, zone and token."""

    id: str
    digest: str
    """Of the request's parameters."""
    resources: tuple[str, ...]
    used: float


class Discard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a deleted snapshot, to be removed when no volume is being created from it."""

    id: str
    due: float


class Starts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a cloud was started on these records."""

    count: int
    id: str = "starts"


Record = Volume | Snapshot | Modification | Instance | Token | Discard | Starts


def tags_of(record: object) -> Mapping[str, str]:
    """The record's tags."""
    return record.tags if isinstance(record, (Volume, Snapshot, Instance)) else {}


def dues_of(record: object) -> dict[str, tuple[float, str]]:
    """The due times of a record: its own under "", those of its attachments under the instances' ids."""
    dues: dict[str, tuple[float, str]] = {}
    if isinstance(record, Volume):
        dues = {
            each.instance: (each.due, f"{each.state} {each.force}") for each in record.attachments if each.due
        }
    if isinstance(record, (Volume, Snapshot, Modification, Instance, Discard)) and record.due:
        dues[""] = (record.due, "" if isinstance(record, Discard) else record.state)
    return dues
