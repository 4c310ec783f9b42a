"""What was tried in vain rests, and is tried at once when something else was decided, or there is nothing
more to try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from decided_controller import RECORD, VOLUME, controller, decided, decision

from mooring.controllers.attachdetach.state import Action, VolumeDecision
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, Forbidden, NotFound, ServerError, Unreachable
from mooring.kube.objects import VolumeAttachment

Run = Callable[[Any], Any]
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize(("action", "rests"), [(Action.WAIT, False), (Action.REPORT, True)])
def test_what_was_in_vain_rests_no_longer_when_something_else_is_decided(
    run: Run, now: Any, monkeypatch: Patch, action: Action, rests: bool
):
    async def story() -> None:
        made = controller(now)
        decided(made, monkeypatch, decision(action))

        async def carry_out(*given: Any) -> None:
            """As if nothing had come of it."""

        monkeypatch.setattr(made, "_carry_out", carry_out)
        for _ in range(2):
            made._note_in_vain(VOLUME, decision(Action.REPORT))
        assert made._rest_s(VOLUME, decision(Action.REPORT)) == 1.0
        await made.reconcile(VOLUME)
        assert (made._rest_s(VOLUME, decision(Action.REPORT)) > 0) is rests
        assert (made._in_vain != {}) is rests

    run(story())


def test_what_is_woken_too_early_is_looked_at_again_when_it_has_rested(run: Run, now: Any):
    """Whatever had woken it has ended the wait that was set before."""

    async def story() -> None:
        made = controller(now)
        assert not made._is_too_early(VOLUME, decision(Action.REPORT))
        for _ in range(2):
            made._note_in_vain(VOLUME, decision(Action.REPORT))
        assert made._is_too_early(VOLUME, decision(Action.REPORT))
        await asyncio.sleep(0.9)
        assert made.queue.is_delayed(VOLUME)
        await asyncio.sleep(0.1)
        assert VOLUME in made.queue and not made.queue.is_delayed(VOLUME)
        assert not made._is_too_early(VOLUME, decision(Action.REPORT))

    run(story())


def test_what_was_in_vain_is_forgotten_with_its_record(run: Run, now: Any):
    async def story() -> None:
        made = controller(now)
        made.cache(VolumeAttachment).accept(RECORD)
        for volume in (VOLUME, "another"):
            made._note_in_vain(volume, decision(Action.REPORT))
        made.cache(VolumeAttachment).apply(WatchEvent("DELETED", RECORD, "9"))
        assert [*made._in_vain] == ["another"]

    run(story())


def test_what_was_in_vain_is_forgotten_with_what_asked_for_it(run: Run, now: Any, monkeypatch: Patch):
    async def story() -> None:
        made = controller(now)
        made._note_in_vain(VOLUME, decision(Action.ATTACH))
        decided(made, monkeypatch)
        await made.reconcile(VOLUME)
        assert made._in_vain == {}

    run(story())


SEVERAL = [Action.ATTACH, Action.GRANT, Action.RESTAMP, Action.DETACH]


def tries(
    run: Run, now: Any, monkeypatch: Patch, error: Exception, *others: VolumeDecision
) -> list[tuple[float, Action]]:
    """When what is carried out in a minute, if each try wakes the volume by a write and then fails so."""
    found: list[tuple[float, Action]] = []

    async def story() -> None:
        made, began = controller(now), asyncio.get_running_loop().time()
        decided(made, monkeypatch, *others)

        async def carry_out(volume: str, tried: VolumeDecision, state: Any) -> None:
            found.append((asyncio.get_running_loop().time() - began, tried.action))
            await asyncio.sleep(0.001)
            made.queue.add(volume)
            raise error

        monkeypatch.setattr(made, "_carry_out", carry_out)
        running = asyncio.create_task(made.queue.run(1, made._reconcile))
        made.queue.add(VOLUME)
        await asyncio.sleep(60)
        running.cancel()

    run(story())
    return found


@pytest.mark.parametrize("action", SEVERAL)
@pytest.mark.parametrize("error", [ServerError("", status=500), Forbidden("", status=403), Unreachable("")])
def test_what_fails_after_a_write_of_its_own_rests_ever_longer(
    run: Run, now: Any, monkeypatch: Patch, action: Action, error: Exception
):
    """An admission webhook of another kind is down, say: the first write succeeds, and wakes the volume."""
    when = [round(at) for at, _ in tries(run, now, monkeypatch, error, decision(action))]
    assert when == [0, 0, 1, 3, 7, 15, 25, 35, 45, 55]


@pytest.mark.parametrize("error", [Conflict("", status=409), NotFound("", status=404)])
def test_what_was_decided_on_something_old_does_not_rest(
    run: Run, now: Any, monkeypatch: Patch, error: Exception
):
    assert len(tries(run, now, monkeypatch, error, decision(Action.DETACH))) > 20


@pytest.mark.parametrize("error", [ServerError("", status=500), Forbidden("", status=403)])
def test_what_is_refused_about_one_node_keeps_no_other_waiting(
    run: Run, now: Any, monkeypatch: Patch, error: Exception
):
    """Its backoff and its rest end at the same times: it would be tried, and fail, before the other for
    ever."""

    async def story() -> None:
        made, done = controller(now), list[str]()
        decided(made, monkeypatch, decision(Action.DETACH), decision(Action.ATTACH, "n1"))

        async def carry_out(volume: str, tried: VolumeDecision, state: Any) -> None:
            if tried.node == "n0":
                raise error
            done.append(tried.node)

        monkeypatch.setattr(made, "_carry_out", carry_out)
        with pytest.raises(type(error)):
            await made.reconcile(VOLUME)
        assert done == ["n1"]

    run(story())


def granting(run: Run, now: Any, monkeypatch: Patch, *others: VolumeDecision) -> list[float]:
    """When the lock is granted in a minute in which that and the others are decided all the time."""
    given: list[float] = []

    async def story() -> None:
        made = controller(now)
        decided(made, monkeypatch, decision(Action.GRANT), *others)

        async def grant(*args: Any) -> None:
            given.append(asyncio.get_running_loop().time())

        monkeypatch.setattr(made, "_record", lambda volume, name: RECORD)
        monkeypatch.setattr(made, "_node", lambda name: None)
        monkeypatch.setattr(made._handshake, "grant", grant)
        await asyncio.sleep(128)
        running = asyncio.create_task(made.queue.run(1, made._reconcile))
        made.queue.add(VOLUME)
        await asyncio.sleep(60)
        running.cancel()

    run(story())
    return given


@pytest.mark.parametrize("others", [(), (decision(Action.BLOCKED, "n1"),)], ids=["alone", "others wait"])
def test_an_epoch_is_raised_between_one_and_two_seconds_after_it_was_seen(
    run: Run, now: Any, monkeypatch: Patch, others: tuple[VolumeDecision, ...]
):
    """Another controller may write it to the VolumeAttachment until then."""
    (when,) = granting(run, now, monkeypatch, *others)
    assert 1.0 < when - 128 < 2.0


def test_an_epoch_that_was_seen_is_forgotten_when_it_is_written(run: Run, now: Any, monkeypatch: Patch):
    async def story() -> None:
        made = controller(now)
        decided(made, monkeypatch, decision(Action.GRANT))
        await made.reconcile(VOLUME)
        assert [*made._settling] == [VOLUME]
        decided(made, monkeypatch, decision(Action.SETTLED))
        await made.reconcile(VOLUME)
        assert made._settling == {}

    run(story())
