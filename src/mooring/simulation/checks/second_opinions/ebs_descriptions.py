"""How EC2's answers are read, and how it is asked: by its API reference (DescribeVolumes, DescribeInstances,
DescribeInstanceTypes, DescribeAvailabilityZones) and docs/ebs.md.

What is compared with an answer is the answer itself, field by field, as EC2 names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mooring.ebs.controller_service import attaching
from mooring.ebs.ec2 import batches, describe
from mooring.ebs.ec2.describe import Describe
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.ec2.records import Attachment, Instance, Volume
from mooring.ebs.errors import EbsError, Ec2Error
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question

EVERY_S = 1.0

Fields = Mapping[str, tuple[str, Any]]
"""By the field of a record: EC2's name, and what it is where EC2 names none."""

VOLUME: Fields = {
    "id": ("VolumeId", None), "state": ("State", None), "size": ("Size", None), "type": ("VolumeType", None),
    "zone": ("AvailabilityZone", None), "zone_id": ("AvailabilityZoneId", ""), "iops": ("Iops", 0),
    "throughput": ("Throughput", 0), "snapshot_id": ("SnapshotId", ""), "source_id": ("SourceVolumeId", ""),
    "encrypted": ("Encrypted", False), "kms_key_id": ("KmsKeyId", ""), "created": ("CreateTime", None),
    "multi_attach": ("MultiAttachEnabled", False),
}  # fmt: skip
ATTACHMENT: Fields = {
    "instance_id": ("InstanceId", ""), "device": ("Device", ""), "state": ("State", None),
    "since": ("AttachTime", None), "card": ("EbsCardIndex", 0),
}  # fmt: skip
INSTANCE: Fields = {
    "id": ("InstanceId", None), "type": ("InstanceType", ""), "root_device": ("RootDeviceName", "")
}  # fmt: skip
DISK: Fields = {"volume_id": ("VolumeId", ""), "card": ("EbsCardIndex", 0)}


def of_reading(
    answer: Sequence[Any], reply: Mapping[str, Any], action: str, name: str, read: object
) -> Iterator[str]:
    """All that EC2 lists is read, each as it is, in its order."""
    if len(answer) != len(reply[name]):
        yield f"{action}: of {len(reply[name])} in {name} {len(answer)} are read"
    judge = _JUDGES.get(name)
    for record, given in zip(answer, reply[name], strict=False) if judge else ():
        for what in judge(record, given) if judge else ():
            yield f"{action}: {what} is not read as EC2 gives it"


def _unlike(record: Any, given: Mapping[str, Any], fields: Fields) -> Iterator[str]:
    for field, (name, otherwise) in fields.items():
        expected = given.get(name)
        if getattr(record, field) != (otherwise if expected is None else expected):
            yield name


def _volume(record: Volume, given: Mapping[str, Any]) -> Iterator[str]:
    yield from _unlike(record, given, VOLUME)
    if dict(record.tags) != {each["Key"]: each["Value"] for each in given.get("Tags", ())}:
        yield "Tags"
    there = [each for each in given["Attachments"] if each["State"] != "detached"]
    yield from _each("Attachments", record.attachments, there, ATTACHMENT)


def _each(what: str, records: Sequence[Any], given: Sequence[Any], fields: Fields) -> Iterator[str]:
    if len(records) != len(given):
        yield what
    for record, one in zip(records, given, strict=False):
        yield from _unlike(record, one, fields)


def _reservation(record: Sequence[Instance], given: Mapping[str, Any]) -> Iterator[str]:
    if len(record) != len(given["Instances"]):
        yield "Instances"
    for instance, one in zip(record, given["Instances"], strict=False):
        yield from _unlike(instance, one, INSTANCE)
        if instance.state != one["State"]["Name"]:
            yield "State"
        disks = one.get("BlockDeviceMappings", ())
        if [each.device for each in instance.devices] != [each["DeviceName"] for each in disks]:
            yield "BlockDeviceMappings"
        yield from _each(
            "BlockDeviceMappings", instance.devices, [each.get("Ebs", {}) for each in disks], DISK
        )


def _type(record: tuple[str, int], given: Mapping[str, Any]) -> Iterator[str]:
    cards = given.get("EbsInfo", {}).get("MaximumEbsCards", 0)
    if record != (given["InstanceType"], cards):
        yield "MaximumEbsCards"


def _zone(record: str, given: Mapping[str, Any]) -> Iterator[str]:
    if record != given["ZoneName"]:
        yield "ZoneName"


_JUDGES: Mapping[str, Callable[[Any, Any], Iterator[str]]] = {
    "Volumes": _volume, "Reservations": _reservation, "InstanceTypes": _type, "AvailabilityZones": _zone,
}  # fmt: skip


def of_one(answer: Any, asker: Describe, id: str) -> Iterator[str]:
    """What is described is what was asked for; an instance that is terminated does not count."""
    if answer is not None and (answer.id != id or answer.state == "terminated"):
        yield f"asked for {id}, {answer.id} is given, which is {answer.state}"


NAMED: Memories[dict[str, Sequence[Volume]]] = Memories(dict)
"""Of who describes: what was shown last of each name."""


def of_a_name(answer: Sequence[Volume], asker: Describe, name: str) -> Iterator[str]:
    """What was made for that name, and the oldest is the first: it is the one that counts."""
    NAMED.of(asker)[name] = answer
    if any(each.tags["CSIVolumeName"] != name for each in answer):
        yield f"asked for {name}, a volume of another name is given"
    for one, other in pairwise(answer):
        if one.created is not None and other.created is not None and one.created > other.created:
            yield f"of the volumes named {name}, {one.id} comes first, and {other.id} is older"


def of_ids(answer: Mapping[str, Any], records: Sequence[Any], *_: object) -> Iterator[str]:
    """Each of the records can be found by its id."""
    if {*answer} != {each.id for each in records} or any(answer[each.id] != each for each in records):
        yield f"of {len(records)} records {sorted(answer)} are found"


def of_names(answer: Mapping[str, Sequence[Any]], found: Sequence[Any], *_: object) -> Iterator[str]:
    """Each of the records can be found by its name."""
    if sum(map(len, answer.values())) != len(found):
        yield f"of {len(found)} records those of {sorted(answer)} are found"


def of_an_attachment(answer: Attachment | None, volume: Volume, node: str) -> Iterator[str]:
    """A volume is attached to a node once, or not at all."""
    if [each for each in volume.attachments if each.instance_id == node] != ([answer] if answer else []):
        yield f"{volume.id} is {'' if answer else 'not '}attached to {node}, and it is said otherwise"


@dataclass
class Calls:
    """Of one kind of question: how many calls are within one another, and when the outermost began."""

    within: int = 0
    began: float = float("-inf")


CALLS: Memories[defaultdict[str, Calls]] = Memories(lambda: defaultdict(Calls))


BY_ID = ("_ask_volumes", "_ask_instances")
IDS = ("VolumeIds", "InstanceIds")
UNKNOWN: Memories[set[str]] = Memories(set[str])
"""Of one process: the ids of which EC2 has not described anything when they were asked for."""


def of_what_is_unknown(answer: Any, api: PacedApi, action: str, request: Mapping[str, Any]) -> Iterable[str]:
    ids = (
        {each for name in IDS for each in request.get(name, ())}
        if action.startswith("Describe")
        else set[str]()
    )
    if ids and isinstance(answer, Ec2Error):
        UNKNOWN.of_this_process().update(each for each in ids if each in answer.message or len(ids) == 1)
    elif ids:
        UNKNOWN.of_this_process().update(each for each in ids if each not in str(answer))
    return ()


def before_a_batch(names: Sequence[str], ask: Any, *_: object) -> float:
    """How many seconds have passed since the call before, or none if this is a part of it."""
    calls = CALLS.of(ask.__self__)[ask.__name__]
    calls.within += 1
    if calls.within > 1:
        return float("inf")
    passed, calls.began = now() - calls.began, now()
    return passed


def of_a_batch(
    answer: Mapping[str, Any] | EbsError, before: float, names: Sequence[str], ask: Any, *_: object
) -> Iterator[str]:
    """Of one kind of question there is one call a second. A bad id costs only the request that names it:
    nothing is answered that was not asked, and an error about an id is not one of all."""
    CALLS.of(ask.__self__)[ask.__name__].within -= 1
    if before < EVERY_S - 1e-6:
        yield f"questions of one kind are put {before:g} s after one another"
    if isinstance(answer, Ec2Error) and answer.code.endswith((".NotFound", ".Malformed")):
        yield f"{answer.code} about some of {len(names)} names is told to all who ask"
    if isinstance(answer, Mapping):
        left_out = {*names} - answer.keys() - UNKNOWN.of_this_process()
        if left_out and ask.__name__ in BY_ID:
            yield f"{', '.join(sorted(left_out))} is told as unknown, and EC2 has not said so"
        if not answer.keys() <= {*names}:
            yield f"{sorted(answer)} are described, and {sorted(names)} were asked for"


def of_a_pause(answer: float, batching: bool, polls: int) -> Iterator[str]:
    """In a batch twenty questions follow one another; then, as from the start where each is a call, the
    pauses grow from one second, each by four fifths, up to fifteen."""
    number, pause = polls - (20 if batching else 0), 1.0
    for _ in range(min(number, 8)):
        pause = min(pause * 1.8, 15.0)
    if abs(answer - (pause if number >= 0 else 0.0)) > 1e-9:
        yield f"after {polls} questions {answer:g} s are waited"


QUESTIONS = (
    Question(describe, "_read", of_reading),
    Question(describe, "by_id", of_ids),
    Question(describe, "_by_name", of_names),
    Question(Describe, "volume", of_one),
    Question(Describe, "instance", of_one),
    Question(Describe, "volumes_named", of_a_name),
    Question(Volume, "attachment", of_an_attachment),
    Question(PacedApi, "call", of_what_is_unknown, refusals=(Ec2Error,)),
    Question(batches, "isolated", of_a_batch, before=before_a_batch, refusals=(EbsError,)),
    Question(attaching, "poll_pause_s", of_a_pause),
)
