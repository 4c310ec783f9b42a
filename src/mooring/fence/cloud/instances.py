"""What EC2's description of an instance is worth. Pure.

`stopped` is of one launch: EC2 gives an instance a new LaunchTime at each start. So `stopped` with the launch
time that was known while the node lived means that this boot has ended, however old the description is; with
another one it is of another boot. A hibernated instance is "stopped", and its boot goes on when it is
started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from mooring.fence.interface import State, Target

_PROVIDER_ID = re.compile(r"aws:///([a-z0-9-]{1,40})/(i-[0-9a-f]{8,17})", re.ASCII)
_ZONE = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9])[a-z]", re.ASCII)


class BadTarget(Exception):
    """The target names no instance, or not its launch."""


@dataclass(frozen=True)
class Instance:
    """The target's. `region` is "" if its zone does not tell it (local zones). `launched` is None before a
    look has told it: then nothing is ordered."""

    id: str
    region: str
    launched: datetime | None


@dataclass(frozen=True)
class Described:
    """One instance, as far as it matters here. `lost`: volumes beside the root that go with it if it is
    terminated."""

    id: str
    state: str
    launched: datetime | None = None
    reason: str = ""
    lost: tuple[str, ...] = ()


def instance_of(target: Target) -> Instance:
    """Raises BadTarget."""
    found = _PROVIDER_ID.fullmatch(target.provider_id)
    if found is None:
        raise BadTarget(f"{target.node} is no instance of EC2: its provider id is {target.provider_id!r}")
    launched = moment(target.launched)
    if target.launched and launched is None:
        raise BadTarget(f"{target.launched!r} is no time at which {found[2]} could have been launched")
    zone = _ZONE.fullmatch(found[1])
    return Instance(found[2], zone[1] if zone else "", launched)


def moment(value: Any) -> datetime | None:
    """A launch time, to the second; None for what is none."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time.astimezone(UTC).replace(microsecond=0) if time.tzinfo else None


def described(answer: Mapping[str, Any], id: str) -> Described | None:
    """The instance in an answer of DescribeInstances; None if it is not there."""
    for reservation in _list(answer.get("Reservations")):
        for each in _list(reservation.get("Instances")):
            if each.get("InstanceId") == id:
                return _described(each)
    return None


def _described(instance: Mapping[str, Any]) -> Described:
    root, lost = instance.get("RootDeviceName"), list[str]()
    for mapping in _list(instance.get("BlockDeviceMappings")):
        ebs = _mapping(mapping.get("Ebs"))
        if ebs.get("DeleteOnTermination") and mapping.get("DeviceName") != root:
            lost.append(str(ebs.get("VolumeId")))
    return Described(
        str(instance.get("InstanceId")),
        str(_mapping(instance.get("State")).get("Name")),
        moment(instance.get("LaunchTime")),
        str(_mapping(instance.get("StateReason")).get("Code") or ""),
        tuple(lost),
    )


def judged(instance: Instance, found: Described | None) -> tuple[State, str]:
    """State of the boot that is meant, and a code."""
    if found is None:
        return State.UNKNOWN, "NotFound"
    if instance.launched is not None and found.launched != instance.launched:
        return State.UNKNOWN, "AnotherLaunch"
    if "Hibernate" in found.reason:
        return State.UNKNOWN, "Hibernated"
    match found.state:
        case "stopped" | "terminated":
            return State.SHUT, found.state.capitalize()
        case "running":
            return State.OPEN, "Running"
        case other:
            return State.UNKNOWN, "".join(word.capitalize() for word in other.split("-"))


def _list(value: Any) -> list[Mapping[str, Any]]:
    every = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", each) for each in every if isinstance(each, Mapping)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
