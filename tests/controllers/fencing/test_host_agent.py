"""The host agent: evidence is a silence after a renewal that says that a watchdog was armed in this boot."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from fencing_stage import FencingStage

from mooring.controllers.fencing.host_agent import HostAgent, Judged, Silent, judge
from mooring.controllers.fencing.silence import LEASES, Observed
from mooring.fence.interface import Order, Target
from mooring.kube.objects import Lease
from mooring.kube.objects.coordination import LeaseSpec
from mooring.kube.objects.fencing import FencePolicy
from mooring.kube.objects.meta import ObjectMeta
from mooring.volumes.self_fence import ANNOUNCEMENT, Announcement, encoded, silence_needed

STAMP = "2026-01-01T00:00:00.000001Z"
TOLD = Announcement("boot-1", STAMP, "iTCO_wdt", 10.0)
NEEDED = silence_needed(TOLD)
TARGET = Target("a", "uid-a", "boot-1")


def lease(told: Announcement | None = TOLD, renewed: str = STAMP, text: str = "") -> Lease:
    said = text or (encoded(told) if told is not None else "")
    metadata = ObjectMeta(name="a", namespace=LEASES, annotations={ANNOUNCEMENT: said} if said else {})
    return Lease(metadata=metadata, spec=LeaseSpec(renew_time=renewed, lease_duration_seconds=40))


def judged(
    live: Lease | None,
    silent: float = NEEDED,
    seen: str = STAMP,
    deadline: float = 300.0,
    target: Target = TARGET,
) -> Judged:
    return judge(target, Observed(seen, silent), live, deadline)


def changed(**fields: Any) -> Announcement:
    return msgspec.structs.replace(TOLD, **fields)


def test_a_silence_that_is_long_enough_is_evidence_and_a_shorter_one_is_not():
    assert judged(lease()).silent is Silent.OVER
    shorter = judged(lease(), NEEDED - 0.1)
    assert (shorter.silent, shorter.reason.code) == (Silent.WAITS, "WaitsForReset")
    assert shorter.left == pytest.approx(0.1)


def test_a_renewal_that_was_not_observed_is_a_sign_of_life_however_long_the_one_before_is_ago():
    """A watch that lags, or a controller that was paused."""
    assert judged(lease(changed(renewed="later"), "later"), 10_000).silent is Silent.RENEWS


def test_nothing_counts_before_this_process_has_observed_a_renewal():
    assert judged(lease(), 10_000, seen="").silent is Silent.RENEWS


@pytest.mark.parametrize(("live", "code"), [
    (None, "NoSelfFence"),
    (lease(None), "NoSelfFence"),
    (lease(text="{not JSON"), "NoSelfFence"),
    (lease(text="{" + " " * 5000 + "}"), "NoSelfFence"),
    (lease(changed(timeout_seconds=0.0)), "NoSelfFence"),
    (lease(changed(timeout_seconds=-1.0)), "NoSelfFence"),
    (lease(changed(boot_id="boot-0")), "AnotherBoot"),
    (lease(changed(boot_id="")), "AnotherBoot"),
    (lease(changed(renewed="the one before")), "NoSelfFence"),
    (lease(changed(problem="there is no watchdog")), "SelfFenceRefused"),
    (lease(changed(device="Software Watchdog")), "SelfFenceRefused"),
    (lease(changed(timeout_seconds=100.0)), "TimeoutTooShort"),
])  # fmt: skip
def test_what_proves_nothing_is_refused_with_its_reason(live: Lease | None, code: str):
    found = judged(live, 10_000)
    assert (found.silent, found.reason.code) == (Silent.REFUSED, code)


def test_a_target_whose_boot_is_not_known_is_refused():
    found = judged(lease(changed(boot_id="")), 10_000, target=Target("a", "uid-a", ""))
    assert found.silent is Silent.REFUSED


def test_a_device_that_is_fed_by_its_closing_needs_a_longer_silence():
    assert silence_needed(TOLD) - silence_needed(changed(fed_by_close=False)) >= TOLD.timeout_seconds


def test_what_a_node_says_is_shown_on_one_line_and_cut():
    found = judged(lease(changed(problem="\x1b[2J\n" + "x" * 1000)))
    assert "\x1b" not in found.reason.message
    assert "\n" not in found.reason.message
    assert len(found.reason.message) < 500


async def renew(stage: FencingStage, name: str, told: Announcement | None, renewed: str) -> None:
    """The agent of the node renews its Lease."""
    said = None if told is None else encoded(msgspec.structs.replace(told, renewed=renewed))
    body = {
        "metadata": {"annotations": {ANNOUNCEMENT: said}},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 40, "holderIdentity": name},
    }
    if await stage.api.find(Lease, name, LEASES) is None:
        body["metadata"] = {"name": name, **({"annotations": {ANNOUNCEMENT: said}} if said else {})}
        await stage.api.create(Lease, body, LEASES)
    else:
        await stage.api.patch(Lease, name, body, LEASES)


def stamp(number: int) -> str:
    return f"2026-01-01T00:00:{number:02}.000000Z"


async def set_up(stage: FencingStage, told: Announcement | None = TOLD, timeout: float = 300) -> None:
    await stage.node("a")
    await stage.node("b")
    await stage.mechanism("host-agent", "host-agent", timeoutSeconds=timeout)
    await stage.policy("host-agent", worth={"onlyExclusive": False})
    await renew(stage, "a", told, stamp(0))


def test_a_silent_node_is_fenced_when_its_watchdog_has_certainly_reset_it(fencing: Any):
    async def story(stage: FencingStage):
        await set_up(stage)
        async with stage.running():
            await asyncio.sleep(2)
            began = asyncio.get_running_loop().time()
            await renew(stage, "a", TOLD, stamp(1))
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            assert asyncio.get_running_loop().time() - began >= NEEDED
        (attempt,) = fence.status.attempts
        assert (attempt.scope, attempt.reason) == ("Power", "SelfReset")
        assert attempt.evidence["lastRenewal"] == stamp(1)
        assert attempt.evidence["bootID"] == "boot-1"

    fencing(story)


def test_a_controller_that_starts_anew_counts_anew(fencing: Any):
    async def story(stage: FencingStage):
        await set_up(stage)
        async with stage.running():
            await stage.silent("a")
            await asyncio.sleep(NEEDED - 3)
        began = asyncio.get_running_loop().time()
        async with stage.running():
            await stage.until_phase("a", "Fenced")
        assert asyncio.get_running_loop().time() - began >= NEEDED

    fencing(story)


def test_a_node_that_renews_while_it_is_waited_for_was_not_fenced(fencing: Any):
    async def story(stage: FencingStage):
        await set_up(stage)
        async with stage.running():
            await stage.silent("a")
            await asyncio.sleep(NEEDED / 2)
            await renew(stage, "a", TOLD, stamp(1))
            fence = await stage.fence("a")
            await stage.until(lambda: answered(stage, 1))
            fence = await stage.fence("a")
            assert fence is not None
            assert (fence.status.attempts[0].outcome, fence.status.attempts[0].reason) == (
                "NotFenced",
                "StillRenews",
            )

    async def answered(stage: FencingStage, count: int) -> bool:
        fence = await stage.fence("a")
        return fence is not None and sum(bool(each.outcome) for each in fence.status.attempts) >= count

    fencing(story)


@pytest.mark.parametrize(("told", "timeout", "reason"), [
    (None, 300, "NoSelfFence"),
    (changed(problem="this is a virtual machine"), 300, "SelfFenceRefused"),
    (changed(boot_id="boot-0"), 300, "AnotherBoot"),
    (TOLD, 20, "TimeoutTooShort"),
])  # fmt: skip
def test_a_node_without_a_watchdog_that_counts_waits_for_a_person(
    fencing: Any, told: Announcement | None, timeout: float, reason: str
):
    async def story(stage: FencingStage):
        await set_up(stage, told, timeout)
        async with stage.running():
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
        assert {each.outcome for each in fence.status.attempts} == {"NotFenced"}
        assert fence.status.reason == reason

    fencing(story)


def test_an_announcement_that_is_withdrawn_while_it_is_waited_for_is_no_evidence(fencing: Any):
    async def story(stage: FencingStage):
        await set_up(stage)
        async with stage.running():
            await stage.silent("a")
            await asyncio.sleep(NEEDED / 2)
            await renew(stage, "a", None, stamp(1))
            fence = await stage.until_phase("a", "AwaitingPerson")
        assert fence.status.reason == "NoSelfFence"

    fencing(story)


def test_a_policy_that_asks_another_device_whether_a_machine_that_resets_itself_is_off_says_so(fencing: Any):
    async def story(stage: FencingStage):
        await stage.node("a")
        await stage.mechanism("host-agent", "host-agent")
        await stage.mechanism("bmc")
        await stage.policy({"mechanism": "host-agent", "confirmWith": ["bmc"]})

        async def refused() -> str:
            policy = await stage.api.get(FencePolicy, "policy")
            wrong = [each for each in policy.status.conditions if each.status == "False"]
            return wrong[0].message if wrong else ""

        async with stage.running():
            assert "is on again" in await stage.until(refused)

    fencing(story)


def test_a_command_that_has_watched_nothing_says_whether_a_watchdog_is_armed(fencing: Any):
    async def story(stage: FencingStage):
        await set_up(stage)
        look = await HostAgent(stage.api).look(Order(TARGET, deadline=300))
        assert (str(look.state), look.code) == ("Open", "Armed")
        assert "iTCO_wdt" in look.message
        await renew(stage, "a", None, stamp(1))
        look = await HostAgent(stage.api).look(Order(TARGET, deadline=300))
        assert (str(look.state), look.code) == ("Unknown", "NoSelfFence")

    fencing(story)
