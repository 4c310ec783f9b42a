"""What is written for a decision, and what is known of it before the caches show it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from decided_controller import RECORD, STATE, VOLUME, controller, decision
from msgspec.structs import replace

from mooring.controllers.attachdetach.handshake import Released
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Action, NodeState
from mooring.kube.client import WatchEvent
from mooring.kube.errors import NotFound
from mooring.kube.objects import Node, ObjectMeta, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.attachment_lock import Lock

Run = Callable[[Any], Any]
Patch = pytest.MonkeyPatch


def record(uid: str = "u", version: str = "5", *finalizers: str) -> VolumeAttachment:
    metadata = replace(RECORD.metadata, uid=uid, resource_version=version, finalizers=finalizers)
    return replace(RECORD, metadata=metadata)


@pytest.mark.parametrize(
    ("needed", "epoch", "locked"),
    [({}, 0, False), ({}, 3, True), ({"locked": True}, 0, True), ({"locked": True}, 3, True)],
)
def test_a_report_compares_the_lock_where_there_is_one_though_the_storage_needs_none_any_more(
    run: Run, now: Any, monkeypatch: Patch, needed: dict[str, bool], epoch: int, locked: bool
):
    async def story() -> None:
        made, asked = controller(now), list[bool]()

        async def report(record: Any, *, locked: bool) -> bool:
            asked.append(locked)
            return True

        monkeypatch.setattr(made, "_record", lambda volume, node: RECORD)
        monkeypatch.setattr(made._handshake, "report", report)
        state = replace(STATE, lock=Lock(epoch=epoch), **needed)
        await made._carry_out(VOLUME, decision(Action.REPORT), state)
        assert asked == [locked]

    run(story())


def test_the_lock_tells_which_pod_was_first(run: Run, now: Any, monkeypatch: Patch):
    async def story() -> None:
        made, told = controller(now), list[str]()

        async def grant(record: Any, node: Any, pod: str) -> None:
            told.append(pod)

        monkeypatch.setattr(made, "_record", lambda volume, node: RECORD)
        monkeypatch.setattr(made, "_node", lambda name: None)
        monkeypatch.setattr(made._handshake, "grant", grant)
        two = replace(decision(Action.GRANT), pods=("default/first", "default/second"))
        await made._carry_out(VOLUME, two, replace(STATE, lock=None))
        assert told == ["default/first"]

    run(story())


@pytest.mark.parametrize(
    ("finalizers", "deleting"), [((), []), (("example.com/attacher",), [True])], ids=["gone", "going"]
)
def test_a_record_that_was_deleted_is_gone_or_being_deleted_whatever_the_cache_shows(
    run: Run, now: Any, finalizers: tuple[str, ...], deleting: list[bool]
):
    """By whether a finalizer keeps it. Else it would be detached again, or keep the volume from others."""

    async def story() -> None:
        made = controller(now)
        made.cache(VolumeAttachment).accept(record("u", "5", *finalizers))
        assert [each.deleting for each in made._state(VOLUME).attachments] == [False]
        made._deleted["va"] = "u"
        assert [each.deleting for each in made._state(VOLUME).attachments] == deleting
        made.cache(VolumeAttachment).accept(record("anew", "9", *finalizers))
        assert [each.deleting for each in made._state(VOLUME).attachments] == [False]

    run(story())


def test_a_deletion_is_not_remembered_any_more_when_the_cache_shows_it(run: Run, now: Any):
    async def story() -> None:
        made = controller(now)
        made._deleted["va"] = "u"
        deleting = record("u", "7", "example.com/attacher")
        metadata = replace(deleting.metadata, deletion_timestamp="2030-01-01T00:00:00Z")
        made.cache(VolumeAttachment).accept(replace(deleting, metadata=metadata))
        assert [each.deleting for each in made._state(VOLUME).attachments] == [True]
        assert made._deleted == {}

    run(story())


def test_of_a_deletion_nothing_is_kept_when_another_record_is_in_its_place_already(
    run: Run, now: Any, monkeypatch: Patch
):
    async def story() -> None:
        made = controller(now)
        made.cache(VolumeAttachment).accept(record("u"))

        async def detach(*given: Any, **options: Any) -> Released:
            made.cache(VolumeAttachment).accept(record("anew", "9"))
            return Released(ReleaseDecision(Release.ALLOW, Reason("NotInUse", "not used")), record("u"))

        monkeypatch.setattr(made._handshake, "detach", detach)
        await made._carry_out(VOLUME, decision(Action.DETACH), STATE)
        assert made._deleted == {}

    run(story())


def test_what_was_detached_is_looked_at_again_soon(run: Run, now: Any, monkeypatch: Patch):
    """The watch may be late, and the next node waits."""

    async def story() -> None:
        made = controller(now)
        made.cache(VolumeAttachment).accept(record("u"))
        made.queue.done(await made.queue.get())

        async def detach(*given: Any, **options: Any) -> Released:
            return Released(ReleaseDecision(Release.ALLOW, Reason("NotInUse", "not used")), record("u"))

        monkeypatch.setattr(made._handshake, "detach", detach)
        await made._carry_out(VOLUME, decision(Action.DETACH), STATE)
        assert made._deleted == {"va": "u"}
        await asyncio.sleep(0.05)
        assert VOLUME in made.queue
        assert not made.queue.is_delayed(VOLUME)

    run(story())


def test_five_hundred_and_twelve_volumes_are_worked_on_at_once(run: Run, now: Any, monkeypatch: Patch):
    """Nearly all of them wait: for answers, and for the common write of their node."""

    async def story() -> int:
        made = controller(now)
        busy = busiest = 0

        async def reconcile(key: Any) -> None:
            nonlocal busy, busiest
            busy += 1
            busiest = max(busy, busiest)
            await asyncio.sleep(1)
            busy -= 1

        monkeypatch.setattr(made, "reconcile", reconcile)
        monkeypatch.setattr(made, "_informers", [])
        monkeypatch.setattr(made, "started", lambda: asyncio.sleep(0))
        for number in range(600):
            made.queue.add(f"{VOLUME}-{number}")
        working = asyncio.create_task(made.lead())
        await asyncio.sleep(5)
        working.cancel()
        return busiest

    assert run(story()) == 512


@pytest.mark.parametrize("action", [Action.RESTAMP, Action.GRANT, Action.ATTACH])
@pytest.mark.parametrize("uid", ["u3", None])
def test_what_was_decided_about_a_node_is_not_written_down_for_the_next_of_its_name(
    run: Run, now: Any, monkeypatch: Patch, action: Action, uid: str | None
):
    """It was registered anew while a decision about another node was carried out. Else its uid would stand
    for an agent that has not looked at its mounts yet."""

    async def story() -> None:
        made, written = controller(now), list[str]()
        nodes = {
            uid: Node(metadata=ObjectMeta(name="n1", uid=uid, resource_version=uid[1:]))
            for uid in ("u2", "u3")
        }
        made.cache(Node).accept(nodes["u2"])
        state = replace(STATE, nodes={"n1": NodeState.of(nodes["u2"], VOLUME)})

        async def carry_out(volume: str, decision: Any, state: Any) -> None:
            written.append(decision.node)
            made.cache(Node).apply(WatchEvent("DELETED", nodes["u2"], "3"))
            if uid is not None:
                made.cache(Node).apply(WatchEvent("ADDED", nodes[uid], "3"))

        monkeypatch.setattr(made, "_carry_out", carry_out)
        await made._try(VOLUME, decision(Action.ATTACH, "n0"), state)
        with pytest.raises(NotFound):
            await made._try(VOLUME, decision(action, "n1"), state)
        assert written == ["n0"]

    run(story())
