"""Second opinions about how EC2's answers are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections
from tests.conftest import run_in_virtual_time

from mooring.ebs.controller_service import attaching
from mooring.ebs.ec2 import describe
from mooring.ebs.ec2.describe import Describe
from mooring.ebs.ec2.records import Attachment, BlockDevice, Instance, Volume
from mooring.ebs.errors import Ec2Error
from mooring.simulation.checks.second_opinions import ebs_descriptions
from mooring.simulation.checks.second_opinions.ebs_descriptions import (
    CALLS,
    before_a_batch,
    of_a_batch,
    of_a_name,
    of_a_pause,
    of_an_attachment,
    of_ids,
    of_names,
    of_one,
    of_reading,
    of_what_is_unknown,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]
BEGAN, LATER = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
ATTACHED = {
    "InstanceId": "i-0123456789abcdef0",
    "Device": "/dev/xvdaa",
    "State": "attached",
    "AttachTime": BEGAN,
}
VOLUME: Mapping[str, Any] = {
    "VolumeId": "vol-0123456789abcdef0", "State": "in-use", "Size": 10, "VolumeType": "io2",
    "AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az1", "Iops": 300, "Throughput": 125,
    "SnapshotId": "snap-1", "SourceVolumeId": "vol-9", "Encrypted": True, "KmsKeyId": "key", "CreateTime": BEGAN,
    "MultiAttachEnabled": True, "Tags": [{"Key": "CSIVolumeName", "Value": "pvc-1"}],
    "Attachments": [ATTACHED | {"EbsCardIndex": 1}, {"InstanceId": "i-2", "State": "detached"}],
}  # fmt: skip
LEAST: Mapping[str, Any] = {
    name: VOLUME[name] for name in ("VolumeId", "State", "Size", "VolumeType", "AvailabilityZone")
}
RECORD = Volume(
    id="vol-0123456789abcdef0", state="in-use", size=10, type="io2", zone="us-east-1a", zone_id="use1-az1",
    iops=300, throughput=125, snapshot_id="snap-1", source_id="vol-9", encrypted=True, kms_key_id="key",
    created=BEGAN, multi_attach=True, tags={"CSIVolumeName": "pvc-1"},
    attachments=(Attachment("i-0123456789abcdef0", "/dev/xvdaa", "attached", BEGAN, 1),),
)  # fmt: skip
INSTANCE: Mapping[str, Any] = {
    "InstanceId": "i-0123456789abcdef0", "State": {"Name": "running"}, "InstanceType": "m5.large",
    "RootDeviceName": "/dev/xvda",
    "BlockDeviceMappings": [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeId": "vol-1"}},
        {"DeviceName": "/dev/xvdaa", "Ebs": {"VolumeId": "vol-2", "EbsCardIndex": 1}},
        {"DeviceName": "/dev/xvdb"},
    ],
}  # fmt: skip
MACHINE = Instance(
    "i-0123456789abcdef0",
    "running",
    "m5.large",
    (BlockDevice("/dev/xvda", "vol-1"), BlockDevice("/dev/xvdaa", "vol-2", 1), BlockDevice("/dev/xvdb")),
    "/dev/xvda",
)
TYPES = [
    {"InstanceType": "m5.large"},
    {"InstanceType": "p6", "EbsInfo": {"MaximumEbsCards": 2}},
    {"InstanceType": "t3", "EbsInfo": {"MaximumEbsCards": 0}},
]


class Api:
    """Answers each action with what it is given."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self._answers[action]
        if isinstance(answer, Exception):
            raise answer
        return answer


optional = st.sets(st.sampled_from(sorted(VOLUME.keys() - LEAST.keys()))).map(lambda names: names | {"Tags"})


@given(optional, st.sampled_from(["attached", "detached", "busy"]), st.booleans())
def test_what_is_read_is_not_objected_to(names: set[str], state: str, batching: bool) -> None:
    volume = {**LEAST, "Attachments": [ATTACHED | {"State": state}], **{name: VOLUME[name] for name in names}}
    api: Any = Api(
        DescribeVolumes={"Volumes": [volume]},
        DescribeInstances={"Reservations": [{"Instances": [INSTANCE]}]},
        DescribeInstanceTypes={"InstanceTypes": TYPES},
        DescribeAvailabilityZones={"AvailabilityZones": [{"ZoneName": "us-east-1a"}]},
    )

    async def story() -> None:
        asked = Describe(api, batching)
        assert (await asked.volume(RECORD.id)) is not None
        assert (await asked.instance(MACHINE.id)) is not None
        assert await asyncio.gather(*map(asked.cards, ("p6", "t3", "m5.large"))) == [2, 0, 0]
        assert await asked.zones() == ("us-east-1a",)
        await asked.volumes_named("pvc-1")

    with objections(ebs_descriptions.QUESTIONS) as found:
        run_in_virtual_time(story())
    assert found == []


def read(name: str, answer: Sequence[Any], reply: Sequence[Any]) -> list[str]:
    return [*of_reading(answer, {name: reply}, "Describe", name, None)]


def other(value: Any) -> Any:
    """Another value of that type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (str, int)):
        return value * 2
    return LATER if isinstance(value, datetime) else type(value)()


@pytest.mark.parametrize("field", [*ebs_descriptions.VOLUME, "attachments", "tags"])
def test_each_field_of_a_volume_that_is_read_wrongly_is_objected_to(field: str) -> None:
    assert read("Volumes", [RECORD], [VOLUME]) == []
    assert read("Volumes", [replace(RECORD, **{field: other(getattr(RECORD, field))})], [VOLUME])


@pytest.mark.parametrize(
    "field", ["iops", "throughput", "encrypted", "multi_attach", "snapshot_id", "zone_id"]
)
def test_what_is_read_where_ec2_gives_nothing_is_objected_to(field: str) -> None:
    least = Volume(RECORD.id, "in-use", 10, "io2", "us-east-1a")
    given_by_ec2 = LEAST | {"Attachments": []}
    assert read("Volumes", [least], [given_by_ec2]) == []
    wrong = replace(least, **{field: {str: "x", int: -1, bool: True}[type(getattr(least, field))]})
    assert read("Volumes", [wrong], [given_by_ec2])


@pytest.mark.parametrize("field", [*ebs_descriptions.ATTACHMENT])
def test_each_field_of_an_attachment_that_is_read_wrongly_is_objected_to(field: str) -> None:
    one = RECORD.attachments[0]
    wrong = replace(one, **{field: other(getattr(one, field))})
    assert read("Volumes", [replace(RECORD, attachments=(wrong,))], [VOLUME])


@pytest.mark.parametrize("field", ["id", "state", "type", "root_device", "devices"])
def test_each_field_of_an_instance_that_is_read_wrongly_is_objected_to(field: str) -> None:
    reservation = {"Instances": [INSTANCE]}
    assert read("Reservations", [(MACHINE,)], [reservation]) == []
    wrong = replace(MACHINE, **{field: other(getattr(MACHINE, field))})
    assert read("Reservations", [(wrong,)], [reservation])


@pytest.mark.parametrize(("number", "card"), [(0, 1), (0, -1), (1, 0)])
def test_another_card_of_an_instance_is_objected_to(number: int, card: int) -> None:
    devices = [*MACHINE.devices]
    devices[number] = replace(devices[number], card=card)
    assert read("Reservations", [(replace(MACHINE, devices=tuple(devices)),)], [{"Instances": [INSTANCE]}])


def test_what_is_left_out_is_objected_to() -> None:
    assert read("Volumes", [], [VOLUME])
    assert read("Reservations", [()], [{"Instances": [INSTANCE]}])
    assert read("InstanceTypes", [("m5.large", 1), ("p6", 1)], TYPES[:2])
    assert read("AvailabilityZones", ["us-east-1b"], [{"ZoneName": "us-east-1a"}])


OLDER = replace(RECORD, id="vol-2", created=BEGAN)
YOUNGER = replace(RECORD, id="vol-1", created=LATER)


def test_another_volume_than_was_asked_for_is_objected_to() -> None:
    asker: Any = None
    assert not [*of_one(None, asker, "vol-2"), *of_one(OLDER, asker, "vol-2")]
    assert [*of_one(OLDER, asker, "vol-1")]
    assert [*of_one(replace(MACHINE, state="terminated"), asker, MACHINE.id)]


def test_volumes_of_another_name_or_the_younger_first_are_objected_to() -> None:
    asker: Any = ANY
    assert not [*of_a_name((OLDER, YOUNGER), asker, "pvc-1")]
    assert [*of_a_name((YOUNGER, OLDER), asker, "pvc-1")]
    assert [*of_a_name((OLDER,), asker, "pvc-2")]


def test_records_that_cannot_be_found_are_objected_to() -> None:
    assert not [*of_ids({"vol-2": OLDER}, [OLDER, OLDER])]
    assert [*of_ids({}, [OLDER])]
    assert [*of_ids({"vol-2": YOUNGER}, [OLDER])]
    assert not [*of_names({"pvc-1": (OLDER, YOUNGER)}, [OLDER, YOUNGER])]
    assert [*of_names({"pvc-1": (YOUNGER,)}, [OLDER, YOUNGER])]


def test_an_attachment_elsewhere_or_none_is_objected_to() -> None:
    one = RECORD.attachments[0]
    assert not [*of_an_attachment(one, RECORD, one.instance_id), *of_an_attachment(None, RECORD, "i-2")]
    assert [*of_an_attachment(None, RECORD, one.instance_id)]
    assert [*of_an_attachment(one, RECORD, "i-2")]


LONG = float("inf")
API: Any = None
ASK: Any = Describe(API)._ask_volumes


@pytest.mark.parametrize(
    ("answer", "passed", "right"),
    [
        ({"vol-1": OLDER, "vol-2": OLDER}, 1.0, True),
        (Ec2Error("UnauthorizedOperation", ""), LONG, True),
        (Ec2Error("InvalidVolume.NotFound", ""), LONG, False),
        ({"vol-3": OLDER}, LONG, False),
        ({"vol-1": OLDER, "vol-2": OLDER}, 0.9, False),
    ],
)
def test_a_batch_that_is_early_or_that_one_id_spoils_is_objected_to(
    answer: Any, passed: float, right: bool
) -> None:
    async def story() -> list[str]:
        return [*of_a_batch(answer, passed, ["vol-1", "vol-2"], ASK)]

    assert (not run_in_virtual_time(story())) is right


def left_out(*unknown: tuple[Any, list[str]]) -> list[str]:
    """What is objected to when two of three volumes are left out, after these answers to calls for some."""

    async def story() -> list[str]:
        for answer, ids in unknown:
            assert not [*of_what_is_unknown(answer, API, "DescribeVolumes", {"VolumeIds": ids})]
        return [*of_a_batch({"vol-2": OLDER}, LONG, ["vol-1", "vol-2", "vol-3"], ASK)]

    return run_in_virtual_time(story())


def test_a_volume_is_unknown_only_if_ec2_has_said_so() -> None:
    said = Ec2Error("InvalidVolume.NotFound", "The volume 'vol-1' does not exist.")
    all_three, alone = (
        (said, ["vol-1", "vol-2", "vol-3"]),
        (Ec2Error("InvalidVolume.NotFound", ""), ["vol-3"]),
    )
    assert left_out() == ["vol-1, vol-3 is told as unknown, and EC2 has not said so"]
    assert left_out(all_three) == ["vol-3 is told as unknown, and EC2 has not said so"]
    assert left_out(all_three, alone) == []
    assert left_out(({"Volumes": [{"VolumeId": "vol-2"}]}, ["vol-1", "vol-2", "vol-3"])) == []


def test_calls_of_a_kind_are_as_far_apart_as_they_are_but_for_those_within_another() -> None:
    async def story() -> list[float]:
        found = [before_a_batch(["vol-1", "vol-2"], ASK), before_a_batch(["vol-1"], ASK)]
        for _ in range(2):
            assert not [*of_a_batch({}, LONG, [], ASK)]
        await asyncio.sleep(2)
        return [*found, before_a_batch(["vol-1"], ASK)]

    CALLS.of(ASK.__self__).clear()
    assert run_in_virtual_time(story()) == [LONG, LONG, 2.0]


@given(st.booleans(), st.integers(0, 40))
def test_pauses_are_not_objected_to_and_other_ones_are(batching: bool, polls: int) -> None:
    with objections(ebs_descriptions.QUESTIONS) as found:
        pause = attaching.poll_pause_s(batching, polls)
    assert found == []
    assert pause == describe.poll_pause_s(batching, polls)
    assert [*of_a_pause(pause + 1, batching, polls)]
