"""A node's watchdog is fed by acknowledged renewals, and by nothing else."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import Event, Lease
from mooring.kube.transport import Request
from mooring.node.node_lease import HOLDER, NAMESPACE
from mooring.node.self_fence import linux, supervised
from mooring.node.self_fence.keeper import LeaseLost, SelfFence
from mooring.node.self_fence.linux import CAN_SET_TIME, MAGIC_CLOSE, LinuxWatchdog, Said, refusal
from mooring.node.self_fence.watchdog import Armed, NoWatchdog, WatchdogRefused
from mooring.node.self_fence.which import watchdog_at
from mooring.volumes.self_fence import ANNOUNCEMENT, Announcement, announcement_of

NODE = "node-1"
LIMIT_S = 20.0


class PlayedWatchdog:
    """Notes what is done to it. `problem`: why it cannot be armed."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.done: list[str] = []
        self.before_disarm: Callable[[], None] = lambda: None

    async def arm(self, seconds: float) -> Armed:
        if self.problem:
            raise WatchdogRefused(self.problem)
        self.done.append("arm")
        return Armed("played", seconds, fed_by_close=True)

    async def feed(self) -> None:
        self.done.append("feed")

    async def disarm(self) -> None:
        self.before_disarm()
        self.done.append("disarm")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def kept(problem: str = "") -> tuple[SelfFence, PlayedWatchdog, Clock, list[str]]:
    watchdog, clock, refused = PlayedWatchdog(problem), Clock(), list[str]()
    fence = SelfFence(watchdog, "boot-1", LIMIT_S, clock=clock, refused=refused.append)
    return fence, watchdog, clock, refused


async def renewed(fence: SelfFence, clock: Clock, takes: float = 0.0) -> None:
    sent = fence.sending()
    clock.now += takes
    await fence.acknowledged(sent)


def announced(fence: SelfFence, stamp: str = "now") -> Announcement | None:
    text = fence.announcement(stamp)
    return msgspec.json.decode(text, type=Announcement) if text else None


async def test_it_is_armed_by_the_first_acknowledged_renewal_and_announced_by_the_next():
    fence, watchdog, clock, _ = kept()
    assert announced(fence) is None
    await renewed(fence, clock)
    assert watchdog.done == ["arm"]
    assert announced(fence, "then") == Announcement("boot-1", "then", "played", 25.0, True, LIMIT_S)


async def test_it_is_fed_by_each_acknowledged_renewal_and_not_by_one_that_is_sent():
    fence, watchdog, clock, _ = kept()
    await renewed(fence, clock)
    fence.sending()
    assert watchdog.done == ["arm"]
    await renewed(fence, clock)
    assert watchdog.done == ["arm", "feed"]


async def test_an_answer_that_comes_later_than_the_limit_after_the_sending_feeds_nothing():
    fence, watchdog, clock, _ = kept()
    await renewed(fence, clock)
    await renewed(fence, clock, takes=LIMIT_S)
    assert watchdog.done == ["arm"]


async def test_the_limit_is_counted_from_sending_and_not_from_the_answer():
    fence, _, clock, _ = kept()
    await renewed(fence, clock, takes=LIMIT_S - 1)
    clock.now += 0.9
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fence.run()
    clock.now += 0.1
    with pytest.raises(LeaseLost):
        await fence.run()


async def test_a_watchdog_that_is_refused_is_announced_as_such_and_never_fed():
    fence, watchdog, clock, refused = kept("it is played")
    await renewed(fence, clock)
    await renewed(fence, clock)
    assert watchdog.done == []
    assert refused == ["it is played"]
    told = announced(fence)
    assert told is not None
    assert (told.problem, told.timeout_seconds) == ("it is played", 0.0)
    clock.now += 10 * LIMIT_S
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await fence.run()


async def test_it_is_not_disarmed_before_the_announcement_is_withdrawn():
    fence, watchdog, clock, _ = kept()
    await renewed(fence, clock)
    with pytest.raises(AssertionError):
        await fence.disarm()
    fence.withdraw()
    assert announced(fence) is None
    await renewed(fence, clock)
    assert watchdog.done == ["arm"]
    await fence.disarm()
    assert watchdog.done == ["arm", "disarm"]


# --- with the whole agent


async def lease(stage: Any) -> Lease:
    return await stage.api.get(Lease, NODE, NAMESPACE)


async def told(stage: Any) -> Announcement | None:
    found = await stage.api.find(Lease, NODE, NAMESPACE)
    return announcement_of(found) if found is not None else None


def cut_off(stage: Any) -> None:
    def gate(request: Request) -> None:
        raise Unreachable("cut off")

    stage.gate = gate


def test_a_node_whose_lease_is_lost_ends_its_pods_and_unmounts_and_its_agent_ends(play: Any):
    async def story(stage: Any) -> None:
        stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await stage.until(stage.phase)
        await stage.until(lambda: told(stage))
        await stage.until(lambda: [1 for each in stage.runtime.sandboxes().values() if each.running])
        cut_off(stage)
        fed = len(stage.watchdog.done)
        with pytest.raises(LeaseLost):
            await stage.ended()
        assert not [each for each in stage.runtime.sandboxes().values() if each.running]
        assert not stage.machine.mounts
        assert stage.watchdog.done[fed:] == []

    play(story)


def test_an_agent_that_is_stopped_withdraws_its_announcement_before_it_disarms(play: Any):
    async def story(stage: Any) -> None:
        watchdog = stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.until(lambda: told(stage))
        answered = stage.requests
        before: list[int] = []
        watchdog.before_disarm = lambda: before.append(len(answered))
        await stage.kill()
        assert watchdog.done[-1] == "disarm"
        assert await told(stage) is None
        assert "/leases/" in answered[before[0] - 1], "the last request before it was a renewal"

    play(story)


def test_a_node_that_is_shut_down_disarms_and_gives_its_lease_back(play: Any):
    async def story(stage: Any) -> None:
        watchdog = stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.until(lambda: told(stage))
        stage.shutdown.set()
        await stage.ended()
        assert watchdog.done[-1] == "disarm"
        left = (await lease(stage)).metadata.annotations
        assert ANNOUNCEMENT not in left
        assert json.loads(left[HOLDER])["over"] is True

    play(story)


def test_a_renewal_that_hangs_is_given_up_and_sent_anew_while_there_is_time(play: Any):
    async def story(stage: Any) -> None:
        stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.until(lambda: told(stage))
        hung: list[str] = []

        async def gate(request: Request) -> None:
            if "/leases/" in request.path and not hung:
                hung.append(request.path)
                await asyncio.sleep(25)

        stage.gate = gate
        fed = len(stage.watchdog.done)
        await stage.until(lambda: hung)
        await asyncio.sleep(20)
        assert len(stage.watchdog.done) > fed, "it waited for the answer to the first one"

    play(story)


def test_an_agent_that_cannot_withdraw_leaves_it_armed(play: Any):
    async def story(stage: Any) -> None:
        stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.until(lambda: told(stage))
        cut_off(stage)
        await stage.kill()
        assert "disarm" not in stage.watchdog.done
        assert await told(stage) is not None

    play(story)


def test_an_agent_that_is_started_without_a_watchdog_withdraws_what_another_announced(play: Any):
    async def story(stage: Any) -> None:
        stage.watchdog = PlayedWatchdog()
        await stage.start()
        await stage.until(lambda: told(stage))
        cut_off(stage)
        await stage.kill()
        stage.gate, stage.watchdog = lambda request: None, None
        await stage.start()

        async def gone() -> bool:
            return ANNOUNCEMENT not in (await lease(stage)).metadata.annotations

        await stage.until(gone)

    play(story)


def test_a_refused_watchdog_is_told_as_an_event_of_the_node(play: Any):
    async def story(stage: Any) -> None:
        stage.watchdog = NoWatchdog("there is none here")
        await stage.start()

        async def said() -> bool:
            events = (await stage.api.list(Event, "default")).items
            return any(each.reason == "SelfFenceRefused" and "none here" in each.message for each in events)

        await stage.until(said)
        found = await stage.until(lambda: told(stage))
        assert found.problem == "there is none here"

    play(story)


# --- which watchdogs count


@pytest.mark.parametrize(("said", "words"), [
    (Said("iTCO_wdt", CAN_SET_TIME | MAGIC_CLOSE, False, False), ""),
    (Said("iTCO_wdt", CAN_SET_TIME, True, False), ""),
    (Said("Software Watchdog", CAN_SET_TIME | MAGIC_CLOSE, True, False), "own kernel"),
    (Said("", CAN_SET_TIME | MAGIC_CLOSE, True, False), "does not tell"),
    (Said("i6300ESB timer", CAN_SET_TIME | MAGIC_CLOSE, True, True), "virtual machine"),
    (Said("some", CAN_SET_TIME, False, False), "nowayout=1"),
    (Said("some", MAGIC_CLOSE, False, False), "cannot be set"),
])  # fmt: skip
def test_a_watchdog_counts_only_if_it_is_outside_and_goes_on_without_its_agent(said: Said, words: str):
    assert words in refusal(said)
    assert bool(refusal(said)) == bool(words)


def told_by_kernel(tmp_path: Path, **files: str) -> LinuxWatchdog:
    """A device (/dev/null, which takes no time) of which /sys tells so."""
    number = os.stat("/dev/null").st_rdev
    folder = tmp_path / "dev" / "char" / f"{os.major(number)}:{os.minor(number)}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    cpus = tmp_path / "cpuinfo"
    cpus.write_text("flags\t\t: fpu vme de\n")
    return LinuxWatchdog(Path("/dev/null"), tmp_path, cpus)


def test_what_the_kernel_tells_of_a_watchdog_is_read_without_opening_it(tmp_path: Path):
    found = told_by_kernel(tmp_path, identity="iTCO_wdt", options="0x8180", nowayout="1").said()
    assert found == Said("iTCO_wdt", 0x8180, True, False)


async def test_a_device_whose_time_cannot_be_set_is_given_back(tmp_path: Path):
    with pytest.raises(WatchdogRefused, match="takes no time"):
        await told_by_kernel(tmp_path, identity="x", options="0x8180", nowayout="0").arm(10)


async def test_a_device_is_armed_with_the_time_that_it_says_it_has(tmp_path: Path, monkeypatch: Any):
    calls: list[int] = []

    def ioctl(descriptor: int, request: int, given: bytes) -> bytes:
        calls.append(request)
        return (17).to_bytes(4, "little")

    monkeypatch.setattr(linux.fcntl, "ioctl", ioctl)
    watchdog = told_by_kernel(tmp_path, identity="iTCO_wdt", options="0x8180", nowayout="0")
    assert await watchdog.arm(12.5) == Armed("iTCO_wdt", 17.0, fed_by_close=True)
    await watchdog.feed()
    assert calls == [linux.SETTIMEOUT, linux.GETTIMEOUT, linux.KEEPALIVE, linux.KEEPALIVE]
    await watchdog.disarm()


async def test_what_is_neither_a_device_nor_a_socket_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(WatchdogRefused):
            await watchdog_at(path).arm(10)


# --- the watchdog that a supervisor plays


async def test_a_machines_lines_reach_the_supervisor_and_its_answers_come_back(tmp_path: Path):
    from mooring.cluster.machines.guest.watchdog import Door
    from mooring.cluster.machines.watchdog import PlayedWatchdog as Hardware

    bitten = asyncio.Event()
    hardware, path = Hardware(bitten.set), tmp_path / "watchdog"
    door, loop = Door(str(path)), asyncio.get_running_loop()

    def come() -> None:
        descriptor = door.accept()

        def read() -> None:
            lines = door.read(descriptor)
            if lines is None:
                loop.remove_reader(descriptor)
                door.close(descriptor)
            for line in lines or ():
                door.answer({"from": line["from"], "answer": hardware.asked(json.loads(json.dumps(line)))})

        loop.add_reader(descriptor, read)

    loop.add_reader(door.fileno, come)
    watchdog = watchdog_at(path)
    assert isinstance(watchdog, supervised.SupervisedWatchdog)
    with pytest.raises(OSError, match="armed"):
        await watchdog.feed()
    assert await watchdog.arm(29.5) == Armed(supervised.DEVICE, 30.0, fed_by_close=False)
    await watchdog.feed()
    assert hardware.seconds == 30.0
    await watchdog.disarm()
    assert hardware.seconds == 0.0
    with pytest.raises(WatchdogRefused, match="does not know"):
        await watchdog_at(path).arm(100_000)
    last = watchdog_at(path)
    assert await last.arm(1) == Armed(supervised.DEVICE, 1.0, fed_by_close=False)
    await asyncio.wait_for(bitten.wait(), 10)
    assert hardware.seconds == 0.0
    with pytest.raises(WatchdogRefused, match="not armed"):
        await last.feed()
    await last.disarm()
    await asyncio.sleep(0.1)
    loop.remove_reader(door.fileno)
    door.socket.close()
