"""To which node the lock of a volume is granted, and what is written on its PersistentVolume."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.controllers.attachdetach.locks import Locks
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment, VolumeAttachmentSource
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.attachment_lock import Closed, Lock, annotation, lock_of
from mooring.volumes.names import ATTACH_EPOCH, DETACHED, volume_of
from mooring.volumes.spec import VolumeSpec

Play = Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]
VOLUME = "example.com/disk/d1"


async def held(stage: Any, lock: Lock) -> PersistentVolume:
    """The PersistentVolume, with that lock."""
    await stage.persistent_volume()
    return await stage.api.patch(PersistentVolume, "pv-d1", {"metadata": {"annotations": annotation(lock)}})


async def lock_now(stage: Any) -> Lock:
    return lock_of(await stage.api.get(PersistentVolume, "pv-d1"))


def locks_of(stage: Any) -> Locks:
    return Locks(stage.api, lambda record, node: volume_of(record))


async def asked(stage: Any, *, locked: bool = True) -> int:
    """The epoch with which the volume is attached to n0 for pod p."""
    spec = VolumeSpec.of_persistent_volume(await stage.api.get(PersistentVolume, "pv-d1"))
    node = await stage.api.get(Node, "n0")
    return await locks_of(stage).for_attach(VOLUME, node, spec, locked=locked, pod="default/p")


async def record_on(stage: Any, leader: Any, how: str) -> VolumeAttachment:
    """A VolumeAttachment on n1: wanted, attached, or detached while its node's detach may come late."""
    await stage.n1.register()
    if how == "wanted":
        spec = VolumeSpec.of_persistent_volume(await stage.api.get(PersistentVolume, "pv-d1"))
        return await leader.handshake.attach(
            VOLUME, await stage.api.get(Node, "n1"), spec, locked=False, pod=""
        )
    record = await stage.attached(leader, node="n1")
    if how == "detached":
        late = {"metadata": {"annotations": {DETACHED: "t"}, "finalizers": ["example.com/attacher"]}}
        await stage.api.patch(VolumeAttachment, record.name, late)
        await stage.api.delete(VolumeAttachment, record.name)
    return record


@pytest.mark.parametrize(
    ("how", "for_attach", "for_grant"),
    [("wanted", False, True), ("attached", False, False), ("detached", True, True)],
)
def test_another_nodes_record_keeps_the_lock_from_a_node_unless_the_volume_is_not_there(
    play: Play, how: str, for_attach: bool, for_grant: bool
):
    """Of two VolumeAttachments that were never attached, the one that is granted it makes the other void."""

    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, Lock())
        await record_on(stage, a, how)
        granted: list[bool] = []
        own = await stage.attached(b)
        for work in (asked(stage), locks_of(stage).grant(own, await stage.api.get(Node, "n0"), "default/p")):
            try:
                await work
                granted.append(True)
            except Conflict:
                granted.append(False)
        assert granted == [for_attach, for_grant]

    play(schedule)


def test_a_grant_names_node_and_pod_and_passes_over_records_of_its_own_node_and_of_other_volumes(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        before = await held(stage, Lock())
        await stage.n1.register()
        await stage.persistent_volume("d2")
        await stage.attached(a, "d2", "n1")
        await stage.attached(a)
        epoch = await asked(stage)
        node = await stage.api.get(Node, "n0")
        assert epoch == int(before.metadata.resource_version)
        assert await lock_now(stage) == Lock(epoch, "n0", node.uid, "default/p")
        assert await asked(stage) == epoch + 1

    play(schedule)


@pytest.mark.parametrize("lock", [Lock(), Lock(5, "n1", "u", "default/q")], ids=["never", "once"])
def test_where_no_lock_is_needed_an_attach_is_of_the_epoch_that_there_is(play: Play, lock: Lock):
    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, lock)
        assert await asked(stage, locked=False) == lock.epoch
        assert await lock_now(stage) == lock

    play(schedule)


@pytest.mark.parametrize("why", ["in use", "gone", "registered anew"])
def test_a_node_that_is_closed_is_granted_nothing_until_it_shows_that_nothing_is_left(play: Play, why: str):
    """It is looked at live: the cache may show what was so before the force detach."""

    async def schedule(stage: Any, a: Any, b: Any):
        closed = Lock(5, closed={"n0": Closed(5), "n9": Closed(4)})
        await held(stage, closed)
        node = await stage.api.get(Node, "n0")
        if why == "in use":
            await stage.n0.report(in_use=(VOLUME,))
        else:
            await stage.api.delete(Node, "n0")
        if why == "registered anew":
            await stage.n0.register()
        spec = VolumeSpec.of_persistent_volume(await stage.api.get(PersistentVolume, "pv-d1"))

        async def attach(node: Node) -> int:
            return await locks_of(stage).for_attach(VOLUME, node, spec, locked=False, pod="default/p")

        with pytest.raises(Conflict, match=f"node n0 is closed for volume {VOLUME}"):
            await attach(node)
        assert await lock_now(stage) == closed
        if why == "gone":
            await stage.n0.register()
        await stage.n0.report(in_use=())
        assert await attach(await stage.api.get(Node, "n0")) == 6
        assert (await lock_now(stage)).closed == {"n9": Closed(4)}

    play(schedule)


@pytest.mark.parametrize(("node", "anew"), [("n0", True), ("n1", False)])
def test_a_lock_knows_its_node_under_the_uid_of_now(play: Play, node: str, anew: bool):
    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, Lock(5, node, "former", "default/p"))
        record, now = await stage.attached(a), await stage.api.get(Node, "n0")
        locks = Locks(a.client, lambda record, node: volume_of(record))
        for _ in range(2):
            await locks.restamp(record, now)
        assert await lock_now(stage) == Lock(5, node, now.uid if anew else "former", "default/p")
        written = [each for each in a.wire.sent if each.startswith("PATCH") and "persistentvolumes" in each]
        assert len(written) == anew

    play(schedule)


def test_a_lock_that_cannot_be_written_is_an_error(play: Play):
    """The VolumeAttachment must not say what the lock does not."""

    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, Lock(5, "n0", "former", "default/p"))
        record, node = await stage.attached(a), await stage.api.get(Node, "n0")
        locks = Locks(a.client, lambda record, node: volume_of(record))
        for work in (locks.restamp(record, node), locks.grant(record, node, "default/p")):
            a.wire.lose(request("PATCH", "persistentvolumes"))
            with pytest.raises(Unreachable):
                await work
        for work in (a.handshake.restamp(a.record(), node), a.handshake.grant(a.record(), node, "p")):
            a.wire.lose(request("PATCH", "persistentvolumes"))
            with pytest.raises(Unreachable):
                await work
        assert ATTACH_EPOCH not in (await stage.find()).metadata.annotations

    play(schedule)


@pytest.mark.parametrize(("exclusive", "epoch"), [(True, 6), (False, 5)])
@pytest.mark.parametrize("there", [True, False])
def test_a_force_detach_closes_the_node_for_the_boot_that_it_had(
    play: Play, exclusive: bool, epoch: int, there: bool
):
    """What several nodes may have loses no other of them: its epoch stays."""

    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, Lock(5, "n0"))
        record = await stage.attached(a)
        boot = {"status": {"nodeInfo": {"bootID": "b1"}}}
        node = await stage.api.patch(Node, "n0", boot, subresource="status")
        await locks_of(stage).release(record, node if there else None, exclusive=exclusive)
        assert await lock_now(stage) == Lock(epoch, "n0", closed={"n0": Closed(epoch, "b1" if there else "")})

    play(schedule)


@pytest.mark.parametrize("defined", [True, False], ids=["it is gone", "a pod defines the volume"])
def test_without_a_persistent_volume_there_is_no_lock_to_write(play: Play, defined: bool):
    async def schedule(stage: Any, a: Any, b: Any):
        record, node = await stage.attached(a), await stage.api.get(Node, "n0")
        if not defined:
            inline = VolumeAttachmentSource(inline_volume_spec={"csi": {}})
            record = replace(record, spec=replace(record.spec, source=inline))
        await locks_of(stage).release(record, node, exclusive=True)
        await locks_of(stage).restamp(record, node)
        assert await locks_of(stage).is_current(record)
        assert (await stage.api.list(PersistentVolume)).items == []

    play(schedule)


@pytest.mark.parametrize(("epoch", "current"), [(None, False), ("4", False), ("5", True)])
def test_a_record_is_of_the_locks_epoch_or_void(play: Play, epoch: str | None, current: bool):
    async def schedule(stage: Any, a: Any, b: Any):
        await held(stage, Lock(5, "n0"))
        record = await stage.attached(a)
        stamped = await stage.api.patch(
            VolumeAttachment, record.name, {"metadata": {"annotations": {ATTACH_EPOCH: epoch}}}
        )
        assert await locks_of(stage).is_current(stamped) is current

    play(schedule)
