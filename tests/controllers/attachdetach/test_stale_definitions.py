"""What is done while a definition is not in the cache yet; and what an attach under a lock warns of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from decided_controller import RECORD, STATE, VOLUME, controller, decision
from msgspec.structs import replace

from mooring.controllers.attachdetach.adoption import UNKNOWN
from mooring.controllers.attachdetach.handshake import Released
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Action
from mooring.kube.objects import (
    CSIPersistentVolumeSource,
    FlexVolumeSource,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
    VolumeAttachmentSource,
)
from mooring.kube.reason import Reason
from mooring.volumes.names import CSI_PLUGIN, RECONSTRUCTED, volume_attachment_name
from mooring.volumes.spec import VolumeSpec

Run = Callable[[Any], Any]
Patch = pytest.MonkeyPatch

UNDEFINED = f"kubernetes.io/csi/csi.example.com{UNKNOWN}va"
PV = PersistentVolume(
    metadata=ObjectMeta(name="pv"),
    spec=PersistentVolumeSpec(flex_volume=FlexVolumeSource("example.com/disk")),
)


ANOTHER_DISK = PersistentVolume(
    metadata=ObjectMeta(name="pv"),
    spec=PersistentVolumeSpec(
        csi=CSIPersistentVolumeSource(driver="csi.example.com", volume_handle="another")
    ),
)


@pytest.mark.parametrize(
    ("found", "detached"),
    [(PV, False), (None, True), (ANOTHER_DISK, True)],
    ids=["it is defined", "it is gone", "it was made anew for another disk"],
)
def test_what_only_a_late_cache_does_not_know_is_not_detached_and_is_looked_at_after_a_second(
    run: Run, now: Any, monkeypatch: Patch, found: PersistentVolume | None, detached: bool
):
    """The cache will tell which volume it is, and whether a pod wants it."""

    async def story() -> None:
        made, asked, walked = controller(now), list[str](), list[Any]()
        source = VolumeAttachmentSource(persistent_volume_name="pv")
        name = volume_attachment_name(CSI_PLUGIN, "csi.example.com^former", "n0")
        record = replace(
            RECORD,
            metadata=ObjectMeta(name=name),
            spec=replace(RECORD.spec, attacher="csi.example.com", source=source),
        )

        async def find(kind: Any, name: str) -> PersistentVolume | None:
            asked.append(name)
            return found

        async def detach(*given: Any, **options: Any) -> Released:
            walked.append(given)
            return Released(ReleaseDecision(Release.ALLOW, Reason("NotInUse", "not used")), record)

        monkeypatch.setattr(made.client, "find", find)
        monkeypatch.setattr(made, "_record", lambda volume, node: record)
        monkeypatch.setattr(made._handshake, "detach", detach)
        await made._carry_out(UNDEFINED, decision(Action.DETACH), replace(STATE, volume=UNDEFINED))
        assert (asked, bool(walked)) == (["pv"], detached)
        if not detached:
            await asyncio.sleep(0.9)
            assert made.queue.is_delayed(UNDEFINED)
            await asyncio.sleep(0.1)
            assert not made.queue.is_delayed(UNDEFINED)

    run(story())


def test_what_was_written_during_that_look_is_known_when_it_is_detached(
    run: Run, now: Any, monkeypatch: Patch
):
    """62889 of the swarm: its volume had been known a moment ago; a detach under that name was under way."""

    async def story() -> None:
        made, known, walked = controller(now), [RECORD], list[Any]()
        marked = replace(RECORD, metadata=replace(RECORD.metadata, resource_version="402"))

        async def is_defined(record: Any) -> bool:
            known.append(marked)
            return False

        async def detach(record: Any, *given: Any, **options: Any) -> Released:
            walked.append(record)
            return Released(ReleaseDecision(Release.ALLOW, Reason("NotInUse", "not used")), record)

        monkeypatch.setattr(made, "_is_defined", is_defined)
        monkeypatch.setattr(made, "_record", lambda volume, node: known[-1])
        monkeypatch.setattr(made._handshake, "detach", detach)
        await made._carry_out(UNDEFINED, decision(Action.DETACH), replace(STATE, volume=UNDEFINED))
        assert walked == [marked]

    run(story())


OF_PV = VolumeSpec.of_persistent_volume(PV)
OF_POD = VolumeSpec.of_volume(Volume(name="data", flex_volume=FlexVolumeSource("example.com/disk")))


@pytest.mark.parametrize(
    ("locked", "compares", "spec", "warned"),
    [
        (True, False, OF_PV, True),
        (True, True, OF_PV, False),
        (False, False, OF_PV, False),
        (True, False, OF_POD, False),
    ],
    ids=["it does not", "it does", "there is no lock", "there is nothing to lock"],
)
def test_it_is_told_on_the_volume_when_the_nodes_kubelet_does_not_compare_its_lock(
    run: Run, now: Any, monkeypatch: Patch, locked: bool, compares: bool, spec: VolumeSpec, warned: bool
):
    async def story() -> None:
        made, told = controller(now), list[tuple[Any, ...]]()
        notes = {RECONSTRUCTED: "b1"} if compares else {}
        node = Node(metadata=ObjectMeta(name="n0", annotations=notes))

        async def attach(*given: Any, **options: Any) -> None:
            """It is created."""

        monkeypatch.setattr(made, "_node", lambda name: node)
        monkeypatch.setattr(made._index, "spec_of", lambda volume: spec)
        monkeypatch.setattr(made._handshake, "attach", attach)
        monkeypatch.setattr(made.recorder, "event", lambda *given: told.append(given[:3]))
        await made._carry_out(VOLUME, decision(Action.ATTACH), replace(STATE, locked=locked))
        assert told == ([(PV, "Warning", "LockIsAdvisory")] if warned else [])

    run(story())
