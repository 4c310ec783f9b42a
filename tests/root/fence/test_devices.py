"""BMC, power strip and switch as mechanisms, against devices that speak their protocols: what is switched off
writes nothing any more."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from tests.fence import contract
from tests.root.fence.conftest import ALL, POWER, case, mechanism, mostly_soak, order
from tests.root.machines.bmc.conftest import Rack

from mooring.fence.interface import Outcome, State, Target

pytestmark = pytest.mark.root


@pytest.mark.parametrize("kind", ALL)
async def test_a_fence_stops_it_and_an_unfence_lets_it_go_on(rack: Rack, kind: str):
    await contract.a_fence_stops_it_and_an_unfence_lets_it_go_on(case(rack, kind))


@pytest.mark.parametrize("kind", mostly_soak(*ALL))
async def test_the_same_order_again_does_no_more(rack: Rack, kind: str):
    await contract.the_same_order_again_does_no_more(case(rack, kind))


@pytest.mark.parametrize("kind", mostly_soak("ipmi", "switch-port"))
async def test_a_fence_that_is_cut_short_can_be_ordered_again(rack: Rack, kind: str):
    await contract.a_fence_that_is_cut_short_can_be_ordered_again(case(rack, kind), (0.05, 0.3, 0.6))


@pytest.mark.parametrize("kind", ALL)
async def test_no_secret_is_in_a_command_line_or_a_message(rack: Rack, kind: str):
    await contract.no_secret_is_seen(case(rack, kind))


@pytest.mark.parametrize("kind", mostly_soak(*ALL))
async def test_a_look_changes_nothing(rack: Rack, kind: str):
    await contract.a_look_changes_nothing(case(rack, kind))


@pytest.mark.parametrize("kind", mostly_soak(*ALL))
async def test_a_device_that_does_not_answer_is_unknown_and_nothing_is_left(rack: Rack, kind: str):
    await rack.misbehave("silent")
    silent = case(rack, kind)
    quick = dict.fromkeys(("power_timeout", "login_timeout", "shell_timeout"), "1")
    silent.order = replace(silent.order, parameters={**silent.order.parameters, **quick, "power_wait": "0"})
    if kind != "ipmi":
        silent.order = replace(
            silent.order, parameters={k: v for k, v in silent.order.parameters.items() if k != "power_wait"}
        )
    await contract.a_deadline_is_unknown_and_leaves_nothing(silent, 7)
    assert await silent.works()


@pytest.mark.parametrize("kind", ["ipmi", "redfish"])
async def test_a_bmc_of_another_machine_is_left_alone(rack: Rack, kind: str):
    wrong = case(rack, kind)
    wrong.order = replace(wrong.order, target=Target("node-1", "uid", "boot", system_uuid=str(uuid4())))
    await contract.another_target_is_left_alone(wrong)


@pytest.mark.parametrize("kind", ["ipmi", "redfish"])
async def test_the_machine_is_known_in_either_byte_order(rack: Rack, kind: str):
    uuid = UUID(rack.reach()["systemUUID"])
    target = Target("node-1", "uid", "boot", bmc_guid=str(UUID(bytes_le=uuid.bytes)))
    answer = await mechanism(kind).fence(order(rack, kind, target=target))
    assert answer.outcome is Outcome.FENCED
    told = answer.evidence.get("guid") or answer.evidence["systemUUID"]
    assert UUID(told) == uuid


async def test_a_look_tells_the_bmcs_identity_and_that_a_power_strip_has_none(rack: Rack):
    uuid = rack.reach()["systemUUID"]
    assert (await mechanism("ipmi").look(order(rack, "ipmi"))).identity == {"guid": uuid}
    assert (await mechanism("redfish").look(order(rack, "redfish"))).identity == {"systemUUID": uuid}
    look = await mechanism("power-strip").look(order(rack, "power-strip"))
    assert look.identity == {} and "no identity" in look.message


@pytest.mark.parametrize("kind", mostly_soak(*POWER))
async def test_what_was_off_before_is_told_to_be_so(rack: Rack, kind: str):
    await rack.machines["node-1"].lose_power()
    answer = await mechanism(kind).fence(order(rack, kind))
    assert (answer.outcome, answer.before) == (Outcome.FENCED, State.SHUT)


@pytest.mark.parametrize("kind", mostly_soak(*ALL))
async def test_a_device_that_refuses_fences_nothing(rack: Rack, kind: str):
    await rack.misbehave("refuse")
    refusing = case(rack, kind)
    assert (await refusing.mechanism.fence(refusing.order)).outcome is Outcome.UNKNOWN
    assert await refusing.works()


@pytest.mark.parametrize("kind", mostly_soak(*ALL))
async def test_a_wrong_password_fences_nothing_and_is_said(rack: Rack, kind: str):
    wrong = case(rack, kind)
    wrong.order = replace(
        wrong.order, secrets=dict.fromkeys(wrong.order.secrets, "wrong-password"), deadline=40
    )
    look = await wrong.mechanism.look(wrong.order)
    assert look.state is State.UNKNOWN and look.message
    assert (await wrong.mechanism.fence(wrong.order)).outcome is Outcome.UNKNOWN
    assert await wrong.works()


async def test_a_late_device_ends_as_fenced_or_unknown_and_never_before_it_is_off(rack: Rack):
    await rack.misbehave("late=1s")
    late = case(rack, "power-strip")
    answer = await late.mechanism.fence(late.order)
    assert answer.outcome is Outcome.FENCED
    assert not await late.works()


async def test_a_device_that_lies_is_believed_so_its_word_needs_a_second_source(rack: Rack):
    await rack.misbehave("lie", "bmc")
    lying = case(rack, "redfish")
    assert (await lying.mechanism.fence(lying.order)).outcome is Outcome.FENCED
    assert await lying.works()
    second = mechanism("power-strip")
    assert (await second.look(order(rack, "power-strip"))).state is State.OPEN


async def test_any_agent_is_run_by_its_own_parameters(rack: Rack):
    given = order(rack, "ipmi")
    any_agent = replace(given, parameters={**given.parameters, "agent": "fence_ipmilan", "lanplus": "1"})
    answer = await mechanism("agent").fence(any_agent)
    assert answer.outcome is Outcome.FENCED
    assert not await rack.machines["node-1"].writes()
