"""Second opinions about which volume is made for a request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections

from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service import controller, provisioning
from mooring.ebs.controller_service.provisioning import Provisioner
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.controller_service.volume_requests import Wanted, wanted_volume
from mooring.ebs.ec2.records import Attachment, Snapshot, Volume
from mooring.ebs.topology import Place
from mooring.simulation.checks.second_opinions import ebs_volumes
from mooring.simulation.checks.second_opinions.ebs_descriptions import of_a_name
from mooring.simulation.checks.second_opinions.ebs_settling import CHANGES
from mooring.simulation.checks.second_opinions.ebs_volumes import (
    GIB,
    before_a_look_up,
    of_a_conflict,
    of_a_look_up,
    of_a_message,
    of_an_entry,
    of_the_request,
    of_what_is_created,
    of_what_is_wanted,
)
from mooring.simulation.cluster.disk_classes import MISTAKES

NOBODY: Any = None
PARAMETERS = {
    "Type": ["gp2", "gp3", "io1", "io2", "st1", "standard", "newest"],
    "iops": ["300", "3000"],
    "iopsPerGB": ["2", "40", "900"],
    "allowAutoIOPSPerGBIncrease": ["true", "false"],
    "allowAutoIOPSIncreaseOnModify": ["true", "false"],
    "throughput": ["250"],
    "volumeInitializationRate": ["100"],
    "encrypted": ["true", "yes"],
    "kmsKeyId": ["key"],
    "blockSize": ["4096"],
    "ext4BigAlloc": ["true", "false"],
    "blockAttachUntilInitialized": ["true", "false"],
    "csi.storage.k8s.io/pvc/name": ["data"],
    "tagSpecification_1": ["team=storage", "cost=1=2"],
    "tagSpecification_2": ["cost=7"],
}
MUTABLE = {
    "type": ["io1"],
    "volumeType": ["gp2"],
    "iops": ["300"],
    "throughput": ["125"],
    "tagSpecification_9": ["a=b"],
}
KEYS = ("topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone-id")


def some(values: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(each) for key, each in values.items()})


segments = some({key: ["us-east-1a", "us-east-1b", ""] for key in KEYS})
topologies = st.lists(segments.map(lambda each: csi.Topology(segments=each)), max_size=2)
requirements = st.builds(
    lambda preferred, requisite: csi.TopologyRequirement(preferred=preferred, requisite=requisite),
    topologies,
    topologies,
)
sizes = st.sampled_from([0, 1, GIB - 1, GIB, GIB + 1, 4 * GIB, 150 * GIB, 2000 * GIB])
policies = st.sampled_from(
    [
        TagPolicy(),
        TagPolicy({"cost": "12", "Name": "mine"}, cluster_id="played"),
        TagPolicy(cluster_id="x" * 250),
    ]
)


def capability(mode: int = 1, block: bool = True) -> csi.VolumeCapability:
    made = csi.VolumeCapability(access_mode=csi.VolumeCapability.AccessMode(mode=mode))
    if block:
        made.block.SetInParent()
    else:
        made.mount.fs_type = "ext4"
    return made


def request(
    parameters: dict[str, str],
    mutable: dict[str, str],
    required: int,
    limit: int,
    block: bool,
    mode: int,
    where: Any,
) -> csi.CreateVolumeRequest:
    return csi.CreateVolumeRequest(
        name="pvc-1",
        parameters=parameters,
        mutable_parameters=mutable,
        capacity_range=csi.CapacityRange(required_bytes=required, limit_bytes=limit),
        volume_capabilities=[capability(mode, block)],
        accessibility_requirements=where,
    )


requests = st.builds(
    request,
    some(PARAMETERS),
    some(MUTABLE),
    sizes,
    sizes,
    st.booleans(),
    st.sampled_from([1, 5]),
    requirements,
)
SNAPSHOT: Any = Snapshot("snap-1", "vol-9", "completed", 2, NOBODY)
SOURCE = Volume("vol-9", "available", 2, "gp3", "us-east-1a")


@given(requests, policies, st.sampled_from([None, SNAPSHOT, SOURCE]))
def test_what_is_wanted_and_asked_for_is_not_objected_to(
    one: csi.CreateVolumeRequest, policy: TagPolicy, source: Any
) -> None:
    with objections(ebs_volumes.QUESTIONS) as found:
        try:
            wanted = controller.wanted_volume(one, policy, source)
        except CsiError:
            return
        provisioner = Provisioner(NOBODY, NOBODY, NOBODY)
        provisioner._zones = ("us-east-1a",)
        asyncio.run(provisioner._request(wanted))
    assert found == []


PLAIN = request({"type": "io1", "iopsPerGB": "40"}, {}, 5 * GIB, 0, False, 1, None)


def wanted(one: csi.CreateVolumeRequest = PLAIN, source: Any = None) -> Wanted:
    return controller.wanted_volume(one, TagPolicy(), source)


def told(answer: Wanted, one: csi.CreateVolumeRequest = PLAIN, source: Any = None) -> bool:
    return bool([*of_what_is_wanted(answer, one, TagPolicy(), source)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "pvc-2"},
        {"size": 6},
        {"size": 4},
        {"iops": 0},
        {"iops": 100},
        {"multi_attach": True},
        {"snapshot": "snap-1"},
        {"source_volume": "vol-1"},
        {"context": {"blocksize": "4096"}},
        {"places": [Place("us-east-1a")]},
        {"tags": {"CSIVolumeName": "pvc-1"}},
        {"tags": {}},
    ],
)
def test_another_volume_than_is_asked_for_is_objected_to(wrong: dict[str, Any]) -> None:
    assert not told(wanted())
    assert told(replace(wanted(), **wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "io2"},
        {"iops": 1},
        {"throughput": 1},
        {"initialization_rate": -1},
        {"encrypted": True},
        {"kms_key_id": "key"},
        {"wait_initialized": True},
    ],
)
def test_other_parameters_than_are_given_are_objected_to(wrong: dict[str, Any]) -> None:
    assert told(replace(wanted(), parameters=replace(wanted().parameters, **wrong)))


@pytest.mark.parametrize(
    ("parameters", "required", "limit", "source", "size"),
    [
        ({}, 0, 0, None, 100),
        ({}, 0, 5 * GIB, None, 1),
        ({}, 1, 0, None, 1),
        ({}, 0, 0, SNAPSHOT, 2),
        ({"type": "io2"}, GIB, 0, None, 4),
        ({"type": "st1"}, GIB, 0, None, 125),
        ({"type": "standard"}, 1024 * GIB, 0, None, 1024),
    ],
)
def test_a_gib_more_or_less_is_objected_to(
    parameters: dict[str, str], required: int, limit: int, source: Any, size: int
) -> None:
    one = request(parameters, {}, required, limit, False, 1, None)
    answer = wanted(one, source)
    assert answer.size == size
    assert [told(replace(answer, size=each), one, source) for each in (size - 1, size, size + 1)] == [
        True,
        False,
        True,
    ]


def test_too_much_for_the_type_or_the_limit_is_objected_to() -> None:
    largest = request({"type": "standard"}, {}, 1025 * GIB, 0, False, 1, None)
    limited = request({"type": "st1"}, {}, GIB, 100 * GIB, False, 1, None)
    for one, size in ((largest, 1025), (limited, 125)):
        assert told(replace(wanted(), size=size), one)


@pytest.mark.parametrize(
    ("parameters", "iops"),
    [
        ({"type": "io1", "iopsPerGB": "900"}, 250),
        ({"type": "io2", "iopsPerGB": "2", "allowAutoIOPSPerGBIncrease": "true"}, 100),
        ({"type": "gp2", "iopsPerGB": "2"}, 0),
        ({"type": "io2", "iops": "300"}, 300),
    ],
)
def test_other_iops_than_follow_from_the_size_are_objected_to(parameters: dict[str, str], iops: int) -> None:
    one = request(parameters, {}, 5 * GIB, 0, False, 1, None)
    answer = wanted(one)
    assert answer.iops == iops
    assert told(replace(answer, iops=iops + 1), one)


@pytest.mark.parametrize(
    ("wrong", "without"),
    [
        ({"Size": 6}, ""),
        ({"Iops": 100}, ""),
        ({"Encrypted": True}, ""),
        ({"SnapshotId": "snap-1"}, ""),
        ({"AvailabilityZone": "us-east-1b"}, ""),
        ({"AvailabilityZoneId": "use1-az1"}, ""),
        ({"TagSpecifications": []}, ""),
        ({}, "VolumeType"),
        ({}, "AvailabilityZone"),
    ],
)
def test_another_request_to_ec2_is_objected_to(wrong: dict[str, Any], without: str) -> None:
    one = replace(wanted(), places=[Place("us-east-1a", "use1-az2"), Place("us-east-1b")])
    action, right = asyncio.run(Provisioner(NOBODY, NOBODY, NOBODY)._request(one))
    assert not [*of_the_request((action, right), NOBODY, one)]
    assert [*of_the_request(("CopyVolumes", right), NOBODY, one)]
    left = {key: value for key, value in right.items() if key != without}
    assert [*of_the_request((action, left | wrong), NOBODY, one)]


MADE = Volume(
    "vol-1", "available", 5, "io1", "us-east-1a", iops=200, encrypted=True, kms_key_id="arn:aws:kms:1:key/k",
    tags={"CSIVolumeName": "pvc-1"},
)  # fmt: skip
volumes = st.builds(
    replace,
    st.just(MADE),
    size=st.sampled_from([4, 5, 6]),
    type=st.sampled_from(["io1", "io1", "io2"]),
    zone=st.sampled_from(["us-east-1a", "us-east-1b"]),
    zone_id=st.sampled_from(["", "us-east-1a", "us-east-1b"]),
    iops=st.sampled_from([200, 300]),
    throughput=st.sampled_from([0, 250]),
    encrypted=st.booleans(),
    kms_key_id=st.sampled_from(["", "arn:aws:kms:1:key/key"]),
    snapshot_id=st.sampled_from(["", "snap-1"]),
    multi_attach=st.booleans(),
)
OF_A_KEY = {"type": ["io1", "io2"], "kmsKeyId": ["key", "alias/a", "arn:aws:kms:1:key/key"], "iops": ["200"]}


@given(some(OF_A_KEY), requirements, st.sampled_from([None, SNAPSHOT]), volumes)
def test_what_is_and_is_not_the_wanted_volume_is_not_objected_to(
    parameters: dict[str, str], where: Any, source: Any, one: Volume
) -> None:
    asked = wanted(request(parameters, {}, 5 * GIB, 5 * GIB, False, 1, where), source)
    with objections(ebs_volumes.QUESTIONS) as found:
        problem = provisioning.conflict(one, asked)
    assert found == []
    assert [*of_a_conflict("" if problem else "it is another", one, asked)]


ZONED = request({"type": "io1", "iops": "200"}, {}, 5 * GIB, 5 * GIB, False, 1, csi.TopologyRequirement(
    preferred=[csi.Topology(segments={KEYS[0]: "us-east-1b"})],
    requisite=[csi.Topology(segments={KEYS[0]: "us-east-1a"}), csi.Topology(segments={KEYS[1]: "us-east-1b"})],
))  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 4},
        {"size": 6},
        {"zone": "us-east-1c"},
        {"type": "io2"},
        {"iops": 100},
        {"snapshot_id": "snap-1"},
        {"source_id": "vol-2"},
        {"multi_attach": True},
    ],
)
def test_a_volume_that_is_another_one_and_is_taken_is_objected_to(wrong: dict[str, Any]) -> None:
    asked = wanted(ZONED)
    assert not [*of_a_conflict("", MADE, asked)]
    assert [*of_a_conflict("", replace(MADE, **wrong), asked)]


def test_an_answer_that_cannot_be_used_or_has_another_name_is_objected_to() -> None:
    asked = wanted()
    assert not [*of_what_is_created(MADE, NOBODY, asked)]
    assert [*of_what_is_created(replace(MADE, state="creating"), NOBODY, asked)]
    assert [*of_what_is_created(replace(MADE, tags={}), NOBODY, asked)]


class Described:
    """Who describes volumes, and can be remembered."""


def looked_up(answer: Volume | None, *shown: Volume, name: str = "pvc-1") -> list[str]:
    """What is said of what a look finds, where EC2 shows these."""
    asker: Any = SimpleNamespace(_describe=Described())
    before_a_look_up(asker, name)
    assert not [*of_a_name(shown, asker._describe, name)]
    return [*of_a_look_up(answer, None, asker, name)]


async def test_a_volume_that_ec2_shows_is_found_unless_it_was_deleted_just_now() -> None:
    assert not looked_up(None)
    assert looked_up(None, MADE)
    assert not looked_up(None, replace(MADE, state="deleted"))
    known = CHANGES.of_this_process()
    known.settle_s, known.noted[f"delete {MADE.id}"] = 5.0, asyncio.get_running_loop().time()
    assert not looked_up(None, MADE)
    known.noted[f"delete {MADE.id}"] -= 6.0
    assert looked_up(None, MADE)


def test_a_volume_that_is_deleted_or_has_another_name_is_not_found() -> None:
    assert not looked_up(MADE, MADE)
    gone = replace(MADE, state="deleting")
    assert looked_up(gone, gone)
    assert looked_up(MADE, name="pvc-2")


def test_ec2_is_asked_for_a_volume_of_a_name_each_time() -> None:
    asker: Any = SimpleNamespace(_describe=Described())
    assert not [*of_a_name((), asker._describe, "pvc-1")]
    before_a_look_up(asker, "pvc-1")
    assert [*of_a_look_up(None, None, asker, "pvc-1")]


attached = st.lists(
    st.builds(Attachment, st.sampled_from(["i-1", "i-2", ""]), st.just("x"), st.just("busy")), max_size=3
)


@given(attached, st.integers(1, 9))
def test_messages_are_not_objected_to(attachments: list[Attachment], size: int) -> None:
    with objections(ebs_volumes.QUESTIONS) as found:
        controller.entry(replace(MADE, attachments=tuple(attachments), size=size))
        controller.volume_message(replace(MADE, size=size), {"blocksize": "4096"})
    assert found == []


def test_another_message_is_objected_to() -> None:
    one = replace(MADE, attachments=(Attachment("i-1", "x", "detaching"),))
    right = controller.volume_message(one)
    for wrong in (replace(MADE, id="vol-2"), replace(MADE, size=6), replace(MADE, zone="us-east-1b")):
        assert [*of_a_message(right, wrong)]
    assert [*of_a_message(right, one, {"blocksize": "4096"})]
    assert [*of_an_entry(controller.entry(MADE), one)]
    assert [*of_an_entry(controller.entry(replace(one, id="vol-2")), one)]


def test_a_volume_that_is_made_in_spite_of_a_mistake_in_its_classes_is_objected_to():
    for parameters, attributes in MISTAKES:
        if parameters.get("type") == "gp9":  # of types EC2 has the last word
            continue
        fs_type = parameters.get("csi.storage.k8s.io/fstype", "")
        capability = csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(fs_type=fs_type))
        asked = csi.CreateVolumeRequest(
            name="pvc-1",
            parameters=parameters,
            mutable_parameters=attributes,
            volume_capabilities=[capability],
        )
        assert len([*of_what_is_wanted(NOBODY, asked, NOBODY, None)]) == 1, (parameters, attributes)
        with pytest.raises(CsiError):
            wanted_volume(asked, TagPolicy(), None)
