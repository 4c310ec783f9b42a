"""Instances that are stopped by EC2, at a cloud of this machine: what its word is worth, and what not."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cloud_server import CREDENTIALS, ServedCloud, served
from hypothesis import given
from hypothesis import strategies as st
from tests.fence import contract
from tests.fence.contract import Case

from mooring.fence.cloud.ec2 import Ec2
from mooring.fence.cloud.instances import BadTarget, Described, described, instance_of, judged, moment
from mooring.fence.interface import Answer, Order, Outcome, State, Target

LAUNCHED = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def cloud() -> Generator[ServedCloud]:
    with served(stopping_s=[0.3, 0.3], terminating_s=[0.3, 0.3]) as one:
        yield one


def settings(cloud: ServedCloud, **changes: Any) -> None:
    request = urllib.request.Request(
        f"{cloud.server.endpoint}/_cloud/settings", json.dumps(changes).encode(), method="PATCH"
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        reply.read()


def instance(cloud: ServedCloud, number: int = 0) -> dict[str, Any]:
    every = cloud.client().describe_instances()["Reservations"]
    return [each for reservation in every for each in reservation["Instances"]][number]


def order(cloud: ServedCloud, **changes: Any) -> Order:
    told = instance(cloud)
    target = Target(
        *("node-1", "uid", "boot"),
        provider_id=f"aws:///{told['Placement']['AvailabilityZone']}/{told['InstanceId']}",
        launched=told["LaunchTime"].isoformat(),
    )
    parameters = {"endpoint": cloud.server.endpoint, "access_key_id": CREDENTIALS.access_key}
    secrets = {"secret_access_key": "hush-hush-hush"}
    return replace(Order(target, "t", parameters, secrets, 15), **changes)


def case(cloud: ServedCloud) -> Case:
    async def running(number: int) -> bool:
        return (await asyncio.to_thread(instance, cloud, number))["State"]["Name"] == "running"

    return Case(Ec2(), order(cloud), lambda: running(0), lambda: running(1), ["hush-hush-hush"])


async def fence(cloud: ServedCloud, **changes: Any) -> Answer:
    return await Ec2().fence(order(cloud, **changes))


async def test_a_fence_stops_the_instance(cloud: ServedCloud):
    of = case(cloud)
    assert (await of.mechanism.look(of.order)).state is State.OPEN
    for before in (State.OPEN, State.SHUT):
        answer = await of.mechanism.fence(of.order)
        assert (answer.outcome, answer.before) == (Outcome.FENCED, before)
    assert answer.evidence["instanceState"] == "stopped"
    assert answer.evidence["instance"] == instance(cloud)["InstanceId"]
    assert not await of.works() and await of.elsewhere()
    assert (await of.mechanism.look(of.order)).state is State.SHUT


async def test_an_instance_that_was_started_again_is_another_target(cloud: ServedCloud):
    of = case(cloud)
    await of.mechanism.fence(of.order)
    await asyncio.sleep(1)  # launch times are told by the second
    assert (await of.mechanism.unfence(of.order)).outcome is Outcome.UNFENCED
    assert await of.works()
    await contract.another_target_is_left_alone(of)
    look = await of.mechanism.look(of.order)
    assert (look.state, look.code) == (State.UNKNOWN, "AnotherLaunch")


async def test_a_look_tells_the_launch_without_which_nothing_is_ordered(cloud: ServedCloud):
    whole = order(cloud)
    unknown = replace(whole, target=replace(whole.target, launched=""))
    look = await Ec2().look(unknown)
    assert look.state is State.OPEN
    answer = await Ec2().fence(unknown)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "LaunchUnknown")
    known = replace(whole, target=replace(whole.target, launched=look.identity["launched"]))
    assert (await Ec2().fence(known)).outcome is Outcome.FENCED


async def test_no_secret_is_seen(cloud: ServedCloud):
    await contract.no_secret_is_seen(case(cloud))


async def test_a_look_changes_nothing(cloud: ServedCloud):
    await contract.a_look_changes_nothing(case(cloud))


async def test_a_fence_that_is_cut_short_can_be_ordered_again(cloud: ServedCloud):
    of = case(cloud)
    for moment_ in (0.05, 0.5):
        task = asyncio.create_task(of.mechanism.fence(of.order))
        await asyncio.wait({task}, timeout=moment_)
        task.cancel()
        await asyncio.wait({task})
    assert (await of.mechanism.fence(of.order)).outcome is Outcome.FENCED


async def test_stopping_is_not_stopped(cloud: ServedCloud):
    settings(cloud, stopping_s=[60, 60])
    answer = await fence(cloud, deadline=4)
    assert (answer.outcome, answer.code, answer.before) == (Outcome.UNKNOWN, "Stopping", State.OPEN)


async def test_ec2_that_does_not_answer_in_time_is_unknown(cloud: ServedCloud):
    given = order(cloud, deadline=2)
    settings(cloud, latency_s={"*": [6, 6]})
    answer = await Ec2().fence(given)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "Silent")


async def test_an_answer_that_was_lost_is_asked_for_again(cloud: ServedCloud):
    settings(cloud, faults=[{"action": "StopInstances", "after": True, "times": 1}])
    assert (await fence(cloud)).outcome is Outcome.FENCED


async def test_throttled_it_orders_again(cloud: ServedCloud):
    settings(
        cloud, faults=[{"action": "StopInstances", "code": "RequestLimitExceeded", "status": 503, "times": 2}]
    )
    assert (await fence(cloud)).outcome is Outcome.FENCED


async def test_what_ec2_refuses_has_no_effect(cloud: ServedCloud):
    settings(cloud, faults=[{"action": "StopInstances", "code": "UnauthorizedOperation", "status": 403}])
    answer = await fence(cloud)
    assert (answer.outcome, answer.code) == (Outcome.NOT_FENCED, "Refused")
    assert "UnauthorizedOperation" in answer.message
    assert instance(cloud)["State"]["Name"] == "running"


async def test_what_ec2_refuses_after_an_order_that_it_did_not_answer_may_have_happened(cloud: ServedCloud):
    lost = {"action": "StopInstances", "after": True, "times": 1}
    refused = {"action": "StopInstances", "after": True, "code": "UnauthorizedOperation", "status": 403}
    settings(cloud, faults=[lost, refused])
    answer = await fence(cloud)
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "Refused")
    assert instance(cloud)["State"]["Name"] in ("stopping", "stopped")


@pytest.mark.parametrize("code", ["InternalFailure", "ServiceUnavailable", "InternalError"])
async def test_an_order_at_which_ec2_itself_fails_is_given_again(cloud: ServedCloud, code: str):
    settings(cloud, faults=[{"action": "StopInstances", "code": code, "status": 500, "times": 1}])
    assert (await fence(cloud)).outcome is Outcome.FENCED


async def test_an_instance_that_is_not_found_is_unknown(cloud: ServedCloud):
    given = order(cloud)
    target = replace(given.target, provider_id="aws:///us-east-1a/i-0123456789abcdef0")
    answer = await Ec2().fence(replace(given, target=target))
    assert (answer.outcome, answer.code) == (Outcome.UNKNOWN, "NotFound")


async def test_descriptions_that_lag_do_not_show_it_stopped_before_it_is(cloud: ServedCloud):
    settings(cloud, instances_lag_s=2)
    answer = await fence(cloud, deadline=30)
    assert answer.outcome is Outcome.FENCED
    settings(cloud, instances_lag_s=0)
    assert instance(cloud)["State"]["Name"] == "stopped"


async def test_termination_is_asked_for_and_is_refused_where_a_volume_would_go_with_it(cloud: ServedCloud):
    ec2, id = cloud.client(), instance(cloud)["InstanceId"]
    zone = instance(cloud)["Placement"]["AvailabilityZone"]
    volume = ec2.create_volume(AvailabilityZone=zone, Size=1)["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0.02})
    ec2.attach_volume(VolumeId=volume, InstanceId=id, Device="/dev/sdf")
    given = order(cloud)
    given = replace(given, parameters={**given.parameters, "action": "terminate"})
    answer = await Ec2().fence(given)
    assert (answer.outcome, answer.evidence["instanceState"]) == (Outcome.FENCED, "terminated")
    ec2.describe_volumes(VolumeIds=[volume])  # it is kept


def test_volumes_that_would_go_with_the_instance_are_found_and_the_root_is_none_of_them():
    def device(name: str, volume: str, goes: bool) -> dict[str, Any]:
        return {"DeviceName": name, "Ebs": {"VolumeId": volume, "DeleteOnTermination": goes}}

    mappings = [
        device("/dev/xvda", "vol-1", True),
        device("/dev/sdf", "vol-2", True),
        device("/dev/sdg", "v", False),
    ]
    told = {"InstanceId": "i-1", "RootDeviceName": "/dev/xvda", "BlockDeviceMappings": mappings}
    found = described({"Reservations": [{"Instances": [{"InstanceId": "i-0"}, told]}]}, "i-1")
    assert found is not None and found.lost == ("vol-2",)


@pytest.mark.parametrize(
    ("changes", "state", "code"),
    [
        ({"state": "running"}, State.OPEN, "Running"),
        ({"state": "stopped"}, State.SHUT, "Stopped"),
        ({"state": "terminated"}, State.SHUT, "Terminated"),
        ({"state": "stopping"}, State.UNKNOWN, "Stopping"),
        ({"state": "shutting-down"}, State.UNKNOWN, "ShuttingDown"),
        ({"state": "pending"}, State.UNKNOWN, "Pending"),
        ({"state": "paused"}, State.UNKNOWN, "Paused"),
        ({"state": "stopped", "reason": "Client.UserInitiatedHibernate"}, State.UNKNOWN, "Hibernated"),
        ({"state": "stopped", "launched": datetime(2026, 1, 2, tzinfo=UTC)}, State.UNKNOWN, "AnotherLaunch"),
        ({"state": "stopped", "launched": None}, State.UNKNOWN, "AnotherLaunch"),
    ],
)
def test_only_stopped_of_the_same_launch_is_shut(changes: dict[str, Any], state: State, code: str):
    target = Target("n", "u", "b", provider_id="aws:///us-east-1a/i-0123456789", launched=LAUNCHED)
    found = replace(Described("i-0123456789", "running", moment(LAUNCHED)), **changes)
    assert judged(instance_of(target), found) == (state, code)
    assert judged(instance_of(target), None) == (State.UNKNOWN, "NotFound")


@pytest.mark.parametrize(
    ("provider_id", "launched", "wrong"),
    [
        ("gce://x/y/z", LAUNCHED, "is no instance of EC2"),
        ("aws:///us-east-1a/i-0123456789", "yesterday", "is no time"),
        ("aws:///us-east-1a/i-0123456789", "2026-01-01T00:00:00", "is no time"),
        ("aws:///us-west-2-lax-1a/i-0123456789", LAUNCHED, "region is missing"),
    ],
)
async def test_a_target_that_names_no_boot_of_an_instance_is_refused(
    provider_id: str, launched: str, wrong: str
):
    given = Order(Target("n", "u", "b", provider_id=provider_id, launched=launched))
    assert any(wrong in each for each in Ec2().problems(given))
    assert (await Ec2().fence(given)).code == "BadParameter"


@pytest.mark.parametrize(
    ("parameters", "secrets", "wrong"),
    [
        ({"action": "reboot"}, {}, "stop or terminate"),
        ({"secret_access_key": "x"}, {}, "is given in the open"),
        ({"access_key_id": "x"}, {}, "go together"),
        ({"endpoint": "cloud"}, {}, "endpoint is no URL"),
        ({"zone": "x"}, {}, "zone is no parameter"),
    ],
)
def test_bad_input_is_said(parameters: dict[str, str], secrets: dict[str, str], wrong: str):
    target = Target("n", "u", "b", provider_id="aws:///us-east-1a/i-0123456789", launched=LAUNCHED)
    found = Ec2().problems(Order(target, "t", parameters, secrets))
    assert any(wrong in each for each in found), found


@given(st.text())
def test_any_provider_id_is_an_instance_or_refused(text: str):
    try:
        instance_of(Target("n", "u", "b", provider_id=text, launched=LAUNCHED))
    except BadTarget:
        return
    pytest.fail("no instance has such a provider id")


JSON = st.recursive(
    st.none() | st.booleans() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text()
            | st.sampled_from(["Reservations", "Instances", "InstanceId", "State", "BlockDeviceMappings"]),
            inner,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["Reservations"]), JSON))
def test_any_answer_is_read(answer: dict[str, Any]):
    described(answer, "i-1")
