"""The cloud's settings: its account, its delays, its limits and its faults.

Defaults are EC2's own values, or close to what EC2 shows. Values are plain data that converts to and from
JSON (`to_json`, `from_json`). A `Settings` is immutable; `changed` makes another one, or raises with the
problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Delay = tuple[float, float]
"""A duration in seconds, drawn evenly from [least, most]."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of `action` ("*": all) that fail with `code`."""

    action: str
    code: str = "InternalError"
    message: str = "An internal error has occurred"
    status: int = 500
    """HTTP status; EC2 has 500 for InternalError, 503 for Unavailable and RequestLimitExceeded, else 400."""
    share: float = 1.0
    """The share of calls that fail, 0 to 1."""
    after: bool = False
    """Whether the request is carried out, and only its answer lost."""
    times: int = 0
    """The most calls that fail, counted since the last change of settings; 0: no limit."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Times are in seconds, sizes in GiB."""

    # --- the account and its places
    region: str = "us-east-1"
    zones: tuple[str, ...] = ("us-east-1a", "us-east-1b", "us-east-1c")
    """Each must begin with the region's name. Their ids follow EC2's pattern (use1-az1, use1-az2, ...)."""
    account: str = "123456789012"
    """Owner of everything: twelve digits."""

    # --- how long things take
    creating_s: Delay = (1.5, 4.0)
    deleting_s: Delay = (1.0, 4.0)
    attaching_s: Delay = (1.0, 4.0)
    detaching_s: Delay = (1.0, 4.0)
    busy_retry_s: float = 1.0
    """Pause between tries of a detach whose device is in use."""
    snapshot_s: Delay = (5.0, 15.0)
    modifying_s: Delay = (2.0, 6.0)
    optimizing_s: Delay = (10.0, 30.0)
    starting_s: Delay = (5.0, 10.0)
    stopping_s: Delay = (5.0, 10.0)
    terminating_s: Delay = (5.0, 15.0)
    terminated_shown_s: float = 3600.0
    """How long a terminated instance is still described."""
    initializing_s: Delay = (0.0, 0.0)
    """How long a volume made of a snapshot or of another volume is "initializing" in DescribeVolumeStatus."""

    # --- what a describe sees: answers are as old as a number drawn from [0, this]
    volumes_lag_s: float = 0.0
    instances_lag_s: float = 0.0
    """Applies to the block devices in DescribeInstances, too, independently of DescribeVolumes."""
    snapshots_lag_s: float = 0.0
    modifications_lag_s: float = 0.0

    # --- quotas
    throttling: bool = True
    """Whether the token buckets refuse calls (RequestLimitExceeded)."""
    bucket_scale: float = 1.0
    """Multiplies size and refill of all buckets."""
    buckets: dict[str, tuple[float, float]] = {}
    """Size and refill per second for these actions, in place of EC2's."""
    ids_are_filters: bool = False
    """Whether a describe that names ids uses the larger bucket of filtered calls. EC2's documents leave it
    open."""
    volume_limit: int = 0
    """Most volumes of the account (VolumeLimitExceeded); 0: no limit."""
    iops_limit: int = 0
    """Most provisioned IOPS (io1, io2, gp3) of the account (MaxIOPSLimitExceeded); 0: no limit."""
    snapshot_limit: int = 0
    """Most snapshots of the account (SnapshotLimitExceeded); 0: no limit."""
    snapshots_per_volume: int = 5
    """Most pending snapshots of one volume (ConcurrentSnapshotLimitExceeded)."""
    snapshot_interval_s: float = 15.0
    """Least time between two snapshots of a volume (SnapshotCreationPerVolumeRateExceeded)."""
    modifications_per_day: int = 4
    """Most modifications of a volume in any 24 hours (VolumeModificationRateExceeded)."""
    token_life_s: float = 12 * 3600.0
    """How long a client token is remembered."""
    over_limit: Literal["refuse", "attaching"] = "refuse"
    """The effect of an attach beyond the instance type's limit: AttachmentLimitExceeded, or "attaching" for
    ever."""

    # --- what differs between accounts, images and guests
    instance_type: str = "m5.large"
    """The type of instances that are launched without one."""
    root_device: str = "/dev/xvda"
    root_size: int = 8
    hidden_devices: tuple[str, ...] = ()
    """Device names that every instance's image has taken, though no describe shows them."""
    burned_devices: tuple[str, ...] = ()
    """Device names, or "i-...:/dev/xvdf", that the guest does not release: attachments with them stay
    "attaching"."""
    unavailable_types: tuple[str, ...] = ()
    """Volume types, or "us-east-1b:io2", that are not available (VolumeTypeNotAvailableInZone)."""
    bad_kms_keys: tuple[str, ...] = ()
    """Key ids that cannot be used: a volume with one is created, and vanishes when its creation would end."""
    public_snapshots: int = 0
    """How many snapshots of other accounts a list without owner shows."""

    # --- faults
    stuck_attach_share: float = 0.0
    """The share of attachments, 0 to 1, whose "attaching" lasts `stuck_s`."""
    stuck_detach_share: float = 0.0
    """The share of detaches, 0 to 1, whose "busy" lasts `stuck_s`."""
    stuck_attach: tuple[str, ...] = ()
    """Ids of volumes whose attachments are stuck."""
    stuck_detach: tuple[str, ...] = ()
    """Ids of volumes whose detaches are stuck."""
    stuck_s: float = 0.0
    """How long stuck attachments and detaches last; 0: for ever (until a detach, or a force detach)."""
    faults: tuple[Fault, ...] = ()
    latency_s: dict[str, Delay] = {}
    """By action ("*": all others): the delay of the answer after the request was carried out."""

    def __post_init__(self) -> None:
        if wrong := _wrong(self):
            raise ValueError("; ".join(wrong))

    def as_json(self) -> dict[str, Any]:
        """All settings in JSON's types."""
        return to_json(self)

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """These settings with `changes` (in JSON's types). Raises ValueError that names what is wrong."""
        return from_json({**to_json(self), **changes})


def to_json(settings: Settings) -> dict[str, Any]:
    """All settings in JSON's types."""
    return msgspec.to_builtins(settings)


def from_json(values: Mapping[str, Any]) -> Settings:
    """Settings from JSON's types; what is not named has its default. Raises ValueError that names what is
    wrong."""
    try:
        return msgspec.convert(dict(values), Settings)
    except msgspec.ValidationError as error:
        raise ValueError(f"the settings are not possible: {error}") from error


def _wrong(settings: Settings) -> list[str]:
    return [
        *(
            each
            for name in settings.__struct_fields__
            for each in _wrong_number(name, getattr(settings, name))
        ),
        *_wrong_by_action(settings),
        *_wrong_places(settings),
    ]


def _wrong_number(name: str, value: Any) -> list[str]:
    wrong: list[str] = []
    if isinstance(value, (int, float)) and value < 0:
        wrong.append(f"{name} is negative")
    if name.endswith("_share") and value > 1:
        wrong.append(f"{name} is more than 1")
    if name.endswith("_s") and isinstance(value, tuple) and not 0 <= value[0] <= value[1]:
        wrong.append(f"{name} is not [least, most]")
    if name == "busy_retry_s" and value == 0:
        wrong.append(f"{name} is 0")
    return wrong


def _wrong_by_action(settings: Settings) -> list[str]:
    latencies, buckets = settings.latency_s.items(), settings.buckets.items()
    return [
        *(
            f"latency_s of {action} is not [least, most]"
            for action, of in latencies
            if not 0 <= of[0] <= of[1]
        ),
        *(
            f"the bucket of {action} holds less than one call"
            for action, of in buckets
            if of[0] < 1 or of[1] < 0
        ),
        *(
            f"the share of the fault of {each.action} is not 0 to 1"
            for each in settings.faults
            if not 0 <= each.share <= 1
        ),
    ]


def _wrong_places(settings: Settings) -> list[str]:
    region = settings.region
    wrong = [
        f"zone {zone} is not of region {region}" for zone in settings.zones if not zone.startswith(region)
    ]
    if not settings.zones or len(set(settings.zones)) < len(settings.zones):
        wrong.append("zones is empty or names one twice")
    if not (len(settings.account) == 12 and settings.account.isdigit()):
        wrong.append("account is not twelve digits")
    if settings.region.count("-") < 2:
        wrong.append(f"region {region} is not like us-east-1")
    return wrong
