"""The controller's events, and what it remembers. Its actions are in the stories of
tests/cluster/in_process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mooring.controllers.attachdetach.controller import SETTLES_S, AttachDetachController
from mooring.controllers.attachdetach.handshake import Released
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Action, Attachment, Demand, VolumeDecision, VolumeState
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.objects import Node
from mooring.kube.reason import Reason
from mooring.simulation.parts.array_plugin import Array, ArrayPlugin
from mooring.volumes.attachment_lock import Lock, lock_of
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

Play = Callable[[Any], Any]


async def worked_for_a_minute(
    controller: AttachDetachController,
    volume: str,
    state: VolumeState,
    decision: VolumeDecision,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The volume stays as it is, and what is decided about it stays the same."""
    monkeypatch.setattr(controller, "_state", lambda volume: state)
    monkeypatch.setattr("mooring.controllers.attachdetach.controller.decide", lambda state: (decision,))
    running = asyncio.create_task(controller.queue.run(1, controller._reconcile))
    controller.queue.add(volume)
    await asyncio.sleep(60)
    running.cancel()


def test_what_has_gone_since_it_was_decided_about_is_decided_again(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        with pytest.raises(NotFound, match="no VolumeAttachment on node n0 any more"):
            controller._record("example.com/disk/d1", "n0")
        with pytest.raises(NotFound, match="node n0 does not exist any more"):
            controller._node("n0")

    play(schedule)


def test_a_grant_is_in_the_cache_at_once_so_that_it_is_not_made_again(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        record, node = await stage.attached(a), await stage.api.get(Node, "n0")
        await controller._handshake.grant(record, node, "default/db-0")  # its watches have brought nothing
        granted = controller._index.persistent_volumes.get("pv-d1")
        assert granted is not None
        assert lock_of(granted).epoch > 0

    play(schedule)


@pytest.mark.parametrize(("raised", "grants"), [(False, 1), (True, 0)])
def test_an_epoch_that_the_node_has_got_has_its_time_to_be_written_before_it_is_raised(
    play: Play, raised: bool, grants: int, monkeypatch: pytest.MonkeyPatch
):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        record, node = await stage.attached(a), await stage.api.get(Node, "n0")
        given: list[str] = []

        async def grant(record: Any, node: Node, pod: str) -> None:
            given.append(pod)

        monkeypatch.setattr(controller, "_record", lambda volume, name: record)
        monkeypatch.setattr(controller, "_node", lambda name: node)
        monkeypatch.setattr(controller._handshake, "grant", grant)
        volume, decision = (
            "example.com/disk/d1",
            VolumeDecision(Action.GRANT, Reason("G", "g"), "n0", ("default/db-0",)),
        )
        held = Lock(epoch=3, node="n0")
        await controller._grant(volume, decision, held)
        await asyncio.sleep(SETTLES_S / 2)
        await controller._grant(volume, decision, held)
        assert given == [], "it has not stood for long enough"
        await asyncio.sleep(2 * SETTLES_S)
        await controller._grant(volume, decision, Lock(epoch=4, node="n0") if raised else held)
        assert len(given) == grants
        await controller._grant(volume, decision, Lock(epoch=5, node="n1"))
        assert len(given) == grants + 1, "another node's is not waited for"

    play(schedule)


@pytest.mark.parametrize(("is_reported", "again"), [(False, True), (True, False)])
def test_a_report_that_a_look_refuses_is_decided_about_again_soon(
    play: Play, is_reported: bool, again: bool, monkeypatch: pytest.MonkeyPatch
):
    async def schedule(stage: Any, a: Any, b: Any):
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        record = await stage.attached(a)
        monkeypatch.setattr(controller, "_record", lambda volume, node: record)

        async def report(record: Any, *, locked: bool) -> bool:
            return is_reported

        monkeypatch.setattr(controller._handshake, "report", report)
        volume, wanted = "example.com/disk/d1", (Demand("n0", ("default/db-0",), "1", True),)
        state = VolumeState(volume, False, wanted, (Attachment.of(record),), {})
        decision = VolumeDecision(Action.REPORT, Reason("Attached", "attached"), "n0", ("default/db-0",))
        await controller._carry_out(volume, decision, state)
        assert controller.queue.is_delayed(volume) is again
        await asyncio.sleep(0.05)
        assert not controller.queue.is_delayed(volume)
        assert (volume in controller.queue) is again

    play(schedule)


def test_a_report_that_looks_refuse_while_no_watch_tells_is_tried_ever_more_seldom(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    """Seed 4000047 of `fencing.yaml`: a Node that is gone, and a watch that is cut off."""

    async def schedule(stage: Any, a: Any, b: Any):
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        record, asked = await stage.attached(a), 0

        async def report(record: Any, *, locked: bool) -> bool:
            nonlocal asked
            asked += 1
            return False

        monkeypatch.setattr(controller, "_record", lambda volume, node: record)
        monkeypatch.setattr(controller._handshake, "report", report)
        volume, wanted = "example.com/disk/d1", (Demand("n0", ("default/db-0",), "1", True),)
        state = VolumeState(volume, False, wanted, (Attachment.of(record),), {})
        decision = VolumeDecision(Action.REPORT, Reason("Attached", "attached"), "n0", ("default/db-0",))
        await worked_for_a_minute(controller, volume, state, decision, monkeypatch)
        assert asked == 10

    play(schedule)


def test_an_attachment_that_only_a_late_cache_takes_for_gone_is_created_anew_ever_more_seldom(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    """9100681 of `fencing.yaml`: each try raised the epoch of the lock, which woke the volume at once."""

    async def schedule(stage: Any, a: Any, b: Any):
        await stage.persistent_volume()
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        node, volume, tried = await stage.api.get(Node, "n0"), "example.com/disk/d1", 0

        async def attach(*args: Any, **options: Any) -> None:
            nonlocal tried
            tried += 1
            controller.queue.add(volume)  # its lock was written
            raise AlreadyExists("an older one is being deleted", status=409)

        decision = VolumeDecision(Action.ATTACH, Reason("W", "w"), "n0", ("default/db-0",))
        wanted = (Demand("n0", ("default/db-0",), "1", True),)
        state = VolumeState(volume, False, wanted, (), {}, locked=True)
        monkeypatch.setattr(controller, "_node", lambda name: node)
        monkeypatch.setattr(controller._index, "spec_of", lambda volume: object())
        monkeypatch.setattr(controller._handshake, "attach", attach)
        await worked_for_a_minute(controller, volume, state, decision, monkeypatch)
        assert tried == 10

    play(schedule)


def test_a_detach_that_the_node_does_not_allow_while_no_watch_tells_why_is_tried_ever_more_seldom(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    """Found by the simulation: the Node was gone; to mark the VolumeAttachment, and to unmark it, woke
    the volume at once."""

    async def schedule(stage: Any, a: Any, b: Any):
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        record, volume, tried = await stage.attached(a), "example.com/disk/d1", 0
        kept = Released(ReleaseDecision(Release.KEEP, Reason("NodeAbsent", "the node is gone")), record)

        async def detach(*args: Any, **options: Any) -> Released:
            nonlocal tried
            tried += 1
            controller.queue.add(volume)  # its VolumeAttachment was written
            return kept

        decision = VolumeDecision(Action.DETACH, Reason("D", "d"), "n0")
        state = VolumeState(volume, False, (), (Attachment.of(record),), {})
        monkeypatch.setattr(controller, "_record", lambda volume, node: record)
        monkeypatch.setattr(controller._handshake, "detach", detach)
        await worked_for_a_minute(controller, volume, state, decision, monkeypatch)
        assert tried == 10

    play(schedule)
