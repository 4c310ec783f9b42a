"""Making and deleting volumes before an EC2 that shows and answers what a story says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import pytest
from cloud_api import capability
from played_ec2 import Answer, Looks, PlayedEc2
from structlog.testing import capture_logs

from mooring.csi.driver.progress import due_in
from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.parameters import VolumeParameters
from mooring.ebs.controller_service.presence import volume_there
from mooring.ebs.controller_service.provisioning import Provisioner, client_token
from mooring.ebs.controller_service.tags import TagPolicy
from mooring.ebs.controller_service.volume_requests import Wanted, wanted_volume
from mooring.ebs.ec2.records import Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer
from mooring.ebs.topology import Place

ID, OTHER = "vol-0123456789abcdef0", "vol-0123456789abcdef1"
Run = Callable[[Coroutine[Any, Any, Any]], Any]
MADE: dict[str, Any] = {"VolumeId": ID, "State": "creating", "AvailabilityZone": "zone-a"}
SPENT = Ec2Error("IdempotentParameterMismatch", "the volume of this token is deleted")
TAGS = [{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "b"}]}]


def volume(state: str = "available", id: str = ID, **more: Any) -> Volume:
    return Volume(id, state, **{"size": 10, "type": "gp3", "zone": "zone-a"} | more)


def wanted(name: str = "pvc-1", **more: Any) -> Wanted:
    given: dict[str, Any] = {
        "size": 10,
        "capacity": csi.CapacityRange(),
        "parameters": VolumeParameters(),
        "iops": 0,
        "multi_attach": False,
        "topology": csi.TopologyRequirement(),
        "places": (),
        "tags": {"a": "b"},
    }
    return Wanted(name=name, **given | more)


def ec2_that(looks: Looks = lambda at: volume(), **answers: list[Answer]) -> PlayedEc2:
    return PlayedEc2(looks, **{"CreateVolume": [MADE], "CopyVolumes": [{"Volumes": [MADE]}]} | answers)


def provisioner(ec2: PlayedEc2) -> Provisioner:
    played: Any = ec2
    return Provisioner(played, played, Settling())


def tokens(ec2: PlayedEc2) -> list[str]:
    return [request["ClientToken"] for _, _, request in ec2.calls]


async def refusal(call: Awaitable[object]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


PLAIN = {"Size": 10, "VolumeType": "gp3", "TagSpecifications": TAGS, "ClientToken": client_token("pvc-1")}
RATE = VolumeParameters(initialization_rate=100)
ALL = VolumeParameters(type="io2", throughput=200, encrypted=True, kms_key_id="alias/k")


@pytest.mark.parametrize(
    ("more", "action", "request_"),
    [
        ({}, "CreateVolume", PLAIN | {"AvailabilityZone": "zone-a"}),
        ({"places": [Place("zone-b", "id-b")]}, "CreateVolume", PLAIN | {"AvailabilityZone": "zone-b"}),
        ({"places": [Place("", "id-b")]}, "CreateVolume", PLAIN | {"AvailabilityZoneId": "id-b"}),
        (
            {"snapshot": "snap-1", "parameters": RATE},
            "CreateVolume",
            PLAIN | {"AvailabilityZone": "zone-a", "SnapshotId": "snap-1", "VolumeInitializationRate": 100},
        ),
        ({"source_volume": OTHER, "parameters": RATE}, "CopyVolumes", PLAIN | {"SourceVolumeId": OTHER}),
        (
            {"parameters": ALL, "iops": 4000, "multi_attach": True},
            "CreateVolume",
            PLAIN
            | {"AvailabilityZone": "zone-a", "VolumeType": "io2", "Iops": 4000, "Throughput": 200}
            | {"Encrypted": True, "KmsKeyId": "alias/k", "MultiAttachEnabled": True},
        ),
    ],
    ids=["plain", "zone", "zone id", "snapshot", "copy", "all"],
)
def test_a_volume_is_asked_for_as_it_is_wanted(
    run: Run, more: dict[str, Any], action: str, request_: dict[str, Any]
) -> None:
    async def story() -> None:
        ask = wanted(**more)
        there = volume(
            type=ask.parameters.type, snapshot_id=ask.snapshot, source_id=ask.source_volume,
            throughput=ask.parameters.throughput, encrypted=ask.parameters.encrypted, kms_key_id="key",
            multi_attach=ask.multi_attach,
        )  # fmt: skip
        ec2 = ec2_that(lambda at: there)
        assert await provisioner(ec2).create(ask) == there
        assert [(name, request) for _, name, request in ec2.calls] == [(action, request_)]

    run(story())


def test_the_zones_are_asked_for_once(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = provisioner(ec2)
        for number in range(2):
            await at_work.create(wanted(f"pvc-{number}"))
        assert ec2.zones_asked == 1

    run(story())


def test_a_region_without_zones_is_none_of_ec2s(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        ec2.zones_there = ()
        with pytest.raises(
            MalformedAnswer, match="DescribeAvailabilityZones: there is no zone in this region"
        ):
            await provisioner(ec2).create(wanted())

    run(story())


@pytest.mark.parametrize("number", [0, 2])
def test_a_copy_is_one_volume(run: Run, number: int) -> None:
    async def story() -> None:
        ec2 = ec2_that(CopyVolumes=[{"Volumes": [MADE] * number}])
        with pytest.raises(MalformedAnswer, match=f"CopyVolumes: {number} volumes are made instead of one"):
            await provisioner(ec2).create(wanted(source_volume=OTHER))

    run(story())


def test_a_request_without_an_answer_is_sent_three_times_with_the_same_token(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[Ec2Unreachable("no answer")])
        with pytest.raises(Ec2Unreachable):
            await provisioner(ec2).create(wanted())
        first, second, third = (moment for moment, _, _ in ec2.calls)
        assert (second - first, third - second) == (1, 2)
        assert tokens(ec2) == [client_token("pvc-1")] * 3

    run(story())


def test_a_token_whose_volume_was_deleted_is_followed_by_the_next_one_which_is_remembered(run: Run) -> None:
    async def story() -> None:
        no = Ec2Error("UnauthorizedOperation", "no")
        ec2 = ec2_that(CreateVolume=[SPENT, SPENT, no, MADE, MADE])
        at_work = provisioner(ec2)
        with pytest.raises(Ec2Error, match="UnauthorizedOperation"):
            await at_work.create(wanted())
        await at_work.create(wanted())
        await at_work.create(wanted())
        assert tokens(ec2) == [client_token("pvc-1", number) for number in (1, 2, 3, 3, 1)]
        assert ec2.calls[0][0] == ec2.calls[2][0]  # EC2 says itself that it is deleted

    run(story())


def test_two_hundred_tokens_of_a_name_are_tried(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[SPENT])
        error = await refusal(provisioner(ec2).create(wanted()))
        assert error.code is Code.INTERNAL
        assert "volume pvc-1: EC2 has used up 200 client tokens for this name" in error.message
        assert tokens(ec2) == [client_token("pvc-1", number) for number in range(1, 201)]

    run(story())


def test_a_caller_that_has_gone_gets_no_other_token(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[SPENT])
        with due_in(0.0):
            error = await refusal(provisioner(ec2).create(wanted()))
        assert (error.code, error.message) == (
            Code.UNAVAILABLE, "volume pvc-1 was deleted while it was being made: try again"
        )  # fmt: skip
        assert len(ec2.calls) == 1

    run(story())


class Throttled:
    """Further tokens wait in a queue, as with a throttled account."""

    def __init__(self, ec2: PlayedEc2, wait_s: float) -> None:
        self._ec2, self._wait_s = ec2, wait_s

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["ClientToken"] != client_token("pvc-1"):
            await asyncio.sleep(self._wait_s)
        return await self._ec2.call(action, request)


@pytest.mark.parametrize(("wait_s", "sent"), [(9.0, 2), (20.0, 1)])
def test_another_token_that_waits_in_a_queue_is_not_sent_when_its_caller_has_gone(
    run: Run, wait_s: float, sent: int
) -> None:
    """The claim may have gone with the volume of the first one (190 with attributes)."""

    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[SPENT, MADE])
        api: Any = Throttled(ec2, wait_s)
        played: Any = ec2
        with due_in(15.0):
            making = Provisioner(api, played, Settling()).create(wanted())
            if sent == 2:
                assert (await making).id == ID
            else:
                assert (await refusal(making)).code is Code.UNAVAILABLE
        await asyncio.sleep(100)
        assert len(ec2.calls) == sent

    run(story())


def test_a_call_begins_with_the_token_for_which_the_one_before_did_not_wait(run: Run) -> None:
    """Or none would come so far while EC2 throttles."""

    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[SPENT, MADE])
        played: Any = ec2
        api: Any = Throttled(ec2, 20.0)
        at_work = Provisioner(api, played, Settling())
        for _ in range(2):
            with suppress(CsiError), due_in(15.0):
                await at_work.create(wanted())
        assert tokens(ec2) == [client_token("pvc-1", number) for number in (1, 2)]

    run(story())


def test_a_token_that_was_used_for_another_request_is_that_of_the_volume_of_the_name(run: Run) -> None:
    async def story() -> None:
        other = Ec2Error("IdempotentParameterMismatch", "the parameters differ")
        ec2 = ec2_that(CreateVolume=[other])
        ec2.named = lambda at: [volume()] if at >= 10 else []
        assert (await provisioner(ec2).create(wanted())).id == ID
        assert len(ec2.calls) == 1
        assert ec2.calls[0][0] >= 5

    run(story())


def test_a_token_that_was_used_for_another_request_of_which_no_volume_is_left_is_spent(run: Run) -> None:
    async def story() -> None:
        other = Ec2Error("IdempotentParameterMismatch", "the parameters differ")
        ec2 = ec2_that(CreateVolume=[other, MADE])
        await provisioner(ec2).create(wanted())
        assert tokens(ec2) == [client_token("pvc-1", number) for number in (1, 2)]

    run(story())


@pytest.mark.parametrize("code", ["VolumeLimitExceeded", "MaxIOPSLimitExceeded"])
def test_a_full_account_is_told_unless_the_volume_is_there(run: Run, code: str) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[Ec2Error(code, "full")])
        with pytest.raises(Ec2Error, match="full"):
            await provisioner(ec2).create(wanted())
        ec2.named = lambda at: [volume()] if len(ec2.calls) == 2 else []
        assert (await provisioner(ec2).create(wanted())).id == ID

    run(story())


@pytest.mark.parametrize("code", ["VolumeLimitExceeded", "UnauthorizedOperation"])
def test_a_refusal_after_a_request_without_an_answer_is_none(run: Run, code: str) -> None:
    """The volume that made the account full may be this one, which EC2 does not show yet."""

    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[Ec2Unreachable("no answer"), Ec2Error(code, "full")])
        made = provisioner(ec2)
        with pytest.raises(Ec2Unreachable, match="full"):
            await made.create(wanted())
        ec2.named = lambda at: [volume()]
        assert (await made.create(wanted())).id == ID

    run(story())


@pytest.mark.parametrize("answer", ["VolumeLimitExceeded", "IdempotentParameterMismatch"])
def test_another_volume_of_the_name_is_refused_whenever_it_shows(run: Run, answer: str) -> None:
    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[Ec2Error(answer, "no")])
        ec2.named = lambda at: [volume(type="io2")] if ec2.calls else []
        error = await refusal(provisioner(ec2).create(wanted()))
        assert error.code is Code.ALREADY_EXISTS
        assert error.message == (
            f"there is a volume {ID} of the name pvc-1, but its type is io2, not gp3: take another name"
        )

    run(story())


def test_a_volume_that_is_there_is_taken_if_it_is_the_wanted_one(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume("creating" if at < 20 else "available"))
        ec2.named = lambda at: [volume("creating")]
        assert (await provisioner(ec2).create(wanted())).state == "available"
        assert ec2.calls == []
        ec2.named = lambda at: [volume(type="io2")]
        assert (await refusal(provisioner(ec2).create(wanted()))).code is Code.ALREADY_EXISTS

    run(story())


def test_what_was_made_and_is_another_volume_than_wanted_is_refused(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume(type="io2"))
        assert (await refusal(provisioner(ec2).create(wanted()))).code is Code.ALREADY_EXISTS

    run(story())


def test_of_several_volumes_of_one_name_the_oldest_is_taken_and_people_are_told(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        ec2.named = lambda at: [volume(id=OTHER), volume()] if ec2.calls else []
        with capture_logs() as lines:
            assert (await provisioner(ec2).create(wanted())).id == OTHER
        assert {(line["log_level"], *line["volumes"]) for line in lines} == {("error", OTHER, ID)}
        ec2.named = lambda at: [volume(id=OTHER, type="io2"), volume()] if len(ec2.calls) > 1 else []
        assert (await refusal(provisioner(ec2).create(wanted()))).code is Code.ALREADY_EXISTS

    run(story())


@pytest.mark.parametrize("state", ["deleting", "deleted"])
def test_a_volume_that_goes_is_not_the_one_of_its_name(run: Run, state: str) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        ec2.named = lambda at: [volume(state, OTHER)]
        assert (await provisioner(ec2).create(wanted())).id == ID
        assert len(ec2.calls) == 1

    run(story())


def test_a_volume_that_was_deleted_here_a_moment_ago_is_not_the_one_of_its_name(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        at_work = provisioner(ec2)
        await asyncio.sleep(100)
        await at_work.delete(OTHER)
        ec2.named = lambda at: [volume(id=OTHER)]
        assert (await at_work.create(wanted())).id == ID
        await asyncio.sleep(10)
        ec2.named = lambda at: [volume(id=ID)]
        assert (await at_work.create(wanted())).id == ID
        assert [action for _, action, _ in ec2.calls] == ["DeleteVolume", "CreateVolume"]

    run(story())


def test_a_volume_that_was_made_here_is_waited_for_where_descriptions_do_not_show_it_yet(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: None if hidden < at < hidden + 4 else volume())
        hidden = float("inf")
        played: Any = ec2
        settling = Settling()
        at_work = Provisioner(played, played, settling)
        await asyncio.sleep(100)
        await at_work.create(wanted())
        hidden = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        assert (await volume_there(played, settling, ID)).id == ID

    run(story())


@pytest.mark.parametrize(
    ("answer", "shown", "gone"),
    [
        (None, "available", True),
        (Ec2Error("InvalidVolume.NotFound", "none"), "available", True),
        (Ec2Error("IncorrectState", "it is deleting"), "deleting", True),
        (Ec2Error("IncorrectState", "it is deleted"), "deleted", True),
        (Ec2Error("IncorrectState", "it is gone"), "", True),
        (Ec2Error("IncorrectState", "it is in-use"), "in-use", False),
        (Ec2Error("VolumeInUse", "it is in-use"), "deleting", False),
    ],
)
def test_a_volume_is_deleted_when_ec2_deletes_it_or_has_none(
    run: Run, answer: Answer, shown: str, gone: bool
) -> None:
    async def story() -> None:
        ec2 = ec2_that(lambda at: volume(shown) if shown else None, DeleteVolume=[answer])
        at_work = provisioner(ec2)
        if gone:
            await at_work.delete(ID)
        else:
            with pytest.raises(EbsError):
                await at_work.delete(ID)
        assert [request for _, _, request in ec2.calls] == [{"VolumeId": ID}]

    run(story())


def test_a_refused_deletion_is_told_only_by_a_look_that_is_younger_than_it(run: Run) -> None:
    async def story() -> None:
        refused = Ec2Error("IncorrectState", "it is deleting")
        ec2 = ec2_that(lambda at: volume("deleting" if at > 103 else "available"), DeleteVolume=[refused])
        at_work = provisioner(ec2)
        await asyncio.sleep(100)
        await at_work.delete(ID)
        assert ec2.at[-1] > 103

    run(story())


def test_what_cannot_be_ec2s_is_deleted_without_a_question(run: Run) -> None:
    async def story() -> None:
        ec2 = ec2_that()
        await provisioner(ec2).delete("a-disk")
        assert ec2.calls == []

    run(story())


def test_a_copy_of_an_encrypted_volume_has_its_key_and_that_of_another_one_any_key() -> None:
    request = csi.CreateVolumeRequest(name="pvc-1", volume_capabilities=[capability()])
    source = volume(encrypted=True, kms_key_id="arn:aws:kms:us-east-1:1:key/k")
    assert wanted_volume(request, TagPolicy(), source).source_volume == ID
    request.parameters["kmsKeyId"] = "k"
    assert wanted_volume(request, TagPolicy(), source).source_volume == ID
    request.parameters["kmsKeyId"] = "other"
    with pytest.raises(CsiError, match="has its KMS key, arn:aws:kms:us-east-1:1:key/k, not another"):
        wanted_volume(request, TagPolicy(), source)
    assert wanted_volume(request, TagPolicy(), volume()).parameters.kms_key_id == "other"


def test_several_nodes_are_for_volumes_of_type_io2() -> None:
    request = csi.CreateVolumeRequest(
        name="pvc-1", volume_capabilities=[capability(True, AccessMode.MULTI_NODE_MULTI_WRITER)]
    )
    for type in ("gp3", "io1", "of the future"):
        request.parameters["type"] = type
        with pytest.raises(CsiError, match=f"a {type} volume cannot be attached to several nodes") as caught:
            wanted_volume(request, TagPolicy(), None)
        assert caught.value.code is Code.INVALID_ARGUMENT
    request.parameters["type"] = "io2"
    assert wanted_volume(request, TagPolicy(), None).multi_attach


@pytest.mark.parametrize("answer", [MADE, Ec2Error("IdempotentParameterMismatch", "other parameters")])
def test_what_is_refused_of_a_question_after_a_volume_may_have_been_made_is_no_refusal_to_make_it(
    run: Run, answer: Any
) -> None:
    """The credentials have expired meanwhile: a volume that is given up now would be left behind."""

    async def story() -> None:
        ec2 = ec2_that(CreateVolume=[answer])

        def expired(at: float) -> Any:
            if ec2.calls:
                raise Ec2Error("RequestExpired", "the token has expired")
            return []

        ec2.named = ec2._looks = expired
        with pytest.raises(Ec2Unreachable, match="RequestExpired"):
            await provisioner(ec2).create(wanted())

    run(story())
