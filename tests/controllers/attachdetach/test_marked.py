"""Which volumes a change marks, and which objects of a volume are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from decided_controller import controller

from mooring.controllers.attachdetach.adoption import is_unknown
from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.kube.objects import (
    CSIDriver,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
    VolumeAttachmentSource,
)
from mooring.volumes.names import CSI_PLUGIN, NODE_UID, volume_attachment_name

Run = Callable[[Any], Any]
DRIVER = "csi.example.com"
V, W = (f"{CSI_PLUGIN}/{DRIVER}^{handle}" for handle in "vw")
FLEX = {"driver": "example.com/disk", "options": {"disk": "d1"}}
DISK = "example.com/disk/d1"
CLAIM = {"persistentVolumeClaim": {"claimName": "v"}}


def of(kind: Any, version: int = 1, name: str = "v", **body: Any) -> Any:
    metadata = {
        "name": name,
        "uid": f"{kind.__name__}-{name}",
        "resourceVersion": str(version),
        **body.pop("metadata", {}),
    }
    if kind in (Pod, PersistentVolumeClaim):
        metadata["namespace"] = "default"
    return msgspec.convert({"metadata": metadata, **body}, kind)


def pv(handle: str = "v", version: int = 1, *, name: str = "v", bound: bool = True, **metadata: Any) -> Any:
    spec: dict[str, Any] = {
        "csi": {"driver": DRIVER, "volumeHandle": handle},
        "accessModes": ["ReadWriteOnce"],
    }
    if bound:
        spec["claimRef"] = {"namespace": "default", "name": "v", "uid": "PersistentVolumeClaim-v"}
    return of(PersistentVolume, version, name, spec=spec, metadata=metadata)


def claim(version: int = 1, volume: str = "v") -> Any:
    return of(PersistentVolumeClaim, version, spec={"volumeName": volume}, status={"phase": "Bound"})


def pod(version: int = 1, name: str = "p", node: str = "n0", phase: str = "Running", **source: Any) -> Any:
    volumes = [{"name": "data", **(source or CLAIM)}]
    return of(Pod, version, name, spec={"nodeName": node, "volumes": volumes}, status={"phase": phase})


def upstreams(version: int = 1, *, attached: bool = False) -> Any:
    name = volume_attachment_name(CSI_PLUGIN, f"{DRIVER}^v", "n0")
    spec = {"attacher": DRIVER, "nodeName": "n0", "source": {"persistentVolumeName": "v"}}
    return of(VolumeAttachment, version, name, spec=spec, status={"attached": attached})


def node(version: int = 1, ready: str = "True", heartbeat: str = "1") -> Any:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]
    return of(Node, version, "n0", status={"conditions": conditions})


def driver(version: int = 1, *, needed: bool = True) -> Any:
    return of(CSIDriver, version, DRIVER, spec={"attachRequired": needed})


BOUND = (driver(), node(), claim(), pv())


async def marked(made: AttachDetachController) -> list[str]:
    """What is to be decided about, which it is not any more."""
    found: list[str] = []
    while len(made.queue):
        found.append(str(await made.queue.get()))
        made.queue.done(found[-1])
    return sorted(found)


def marks(run: Run, now: Any, known: tuple[Any, ...], *changes: Any) -> list[list[str]]:
    """What each of the changes marks, where those objects are known."""

    async def story() -> list[list[str]]:
        made = controller(now)
        for each in known:
            made.cache(type(each)).accept(each)
        await marked(made)
        found: list[list[str]] = []
        for change in changes:
            made.cache(type(change)).accept(change)
            found.append(await marked(made))
        return found

    return run(story())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (pod(), [V]),
        (pod(node=""), []),
        (pod(flexVolume=FLEX), [DISK]),
        (pod(emptyDir={}), []),
        (claim(2), [V]),
        (claim(2, volume=""), [V]),
        (pv("w", 2), [V, W]),
        (upstreams(), [V]),
        (driver(2, needed=False), [V]),
        (driver(2), []),
        (node(2, heartbeat="2"), []),
        (node(2, ready="Unknown"), []),
    ],
)
def test_a_change_marks_the_volumes_that_it_touches(run: Run, now: Any, change: Any, found: list[str]):
    assert marks(run, now, BOUND, change) == [found]


@pytest.mark.parametrize("uses", [pod(), upstreams()], ids=["a pod wants it there", "it is attached there"])
def test_a_node_that_falls_silent_marks_its_volumes(run: Run, now: Any, uses: Any):
    silent = node(2, ready="Unknown")
    late = node(3, ready="Unknown", heartbeat="2")
    assert marks(run, now, (*BOUND, uses), silent, late) == [[V], [V]]


def test_a_persistent_volume_marks_the_volume_of_each_record_that_names_it(run: Run, now: Any):
    """Of a record whose volume was unknown it may tell which that is, also if it is for another disk."""
    (found,) = marks(run, now, (driver(), node(), upstreams()), pv("w"))
    assert [is_unknown(each) for each in found] == [True, False]
    assert found[1] == W


def test_a_pod_that_has_ended_marks_its_volume_and_what_else_it_says_does_not(run: Run, now: Any):
    assert marks(run, now, (*BOUND, pod()), pod(2), pod(3, phase="Succeeded")) == [[], [V]]


def test_what_a_record_says_marks_its_volume_and_who_keeps_it_does_not(run: Run, now: Any):
    kept = upstreams(2, attached=False)
    kept = msgspec.structs.replace(
        kept, metadata=msgspec.structs.replace(kept.metadata, finalizers=("example.com/attacher",))
    )
    assert marks(run, now, (*BOUND, upstreams()), kept, upstreams(3, attached=True)) == [[], [V]]


async def filled(now: Any, *known: Any) -> AttachDetachController:
    made = controller(now)
    for each in known:
        made.cache(type(each)).accept(each)
    return made


def test_of_several_persistent_volumes_of_a_disk_the_bound_one_defines_it(run: Run, now: Any):
    async def story() -> None:
        other = pv(name="a", bound=False)
        made = await filled(now, other, pv())
        found = made._index.persistent_volume_of(V)
        assert found is not None and found.name == "v"
        made = await filled(now, other, pv(name="b", bound=False))
        found = made._index.persistent_volume_of(V)
        assert found is not None and found.name == "a"
        assert made._index.persistent_volume_of(W) is None

    run(story())


def test_a_volume_is_defined_by_its_persistent_volume_or_else_by_a_pod(run: Run, now: Any):
    async def story() -> None:
        made = await filled(now, *BOUND, pod(flexVolume=FLEX))
        defined, inline = made._index.spec_of(V), made._index.spec_of(DISK)
        assert defined is not None and defined.persistent_volume is not None
        assert inline is not None and inline.volume is not None and inline.volume.name == "data"
        assert made._index.spec_of(W) is None

    run(story())


@pytest.mark.parametrize(
    ("known", "users"),
    [
        ((*BOUND, pod()), ["p"]),
        ((*BOUND, pod(node="")), []),
        ((driver(needed=False), *BOUND[1:], pod()), []),
        ((driver(), node(), claim(volume="another"), pv(), pod()), []),
        ((driver(), node(), claim(), pv(bound=False), pod()), []),
    ],
    ids=["bound", "not scheduled", "needs no attach", "its claim is bound to another", "not bound"],
)
def test_the_users_of_a_volume_are_the_scheduled_pods_of_the_claim_that_it_is_bound_to(
    run: Run, now: Any, known: tuple[Any, ...], users: list[str]
):
    async def story() -> list[str]:
        made = await filled(now, *known)
        return [each.name for each in made._index.users(V)]

    assert run(story()) == users


def test_a_pod_that_defines_a_volume_itself_is_its_user(run: Run, now: Any):
    async def story() -> list[str]:
        made = await filled(now, *BOUND, pod(flexVolume=FLEX))
        return [each.name for each in made._index.users(DISK)]

    assert run(story()) == ["p"]


def test_an_adopted_record_is_one_of_its_volume_until_it_is_gone(run: Run, now: Any):
    async def story() -> None:
        made, record = await filled(now, *BOUND, upstreams()), upstreams()
        assert [each.name for each in made._index.records_of(V)] == [record.name]
        assert made._index.records_of(W) == []

    run(story())


def test_a_text_that_another_cache_has_is_kept_once(run: Run, now: Any):
    async def story() -> None:
        record, again = upstreams(), "".join(("vol", "ume"))
        metadata = msgspec.structs.replace(record.metadata, annotations={NODE_UID: "Node-n0"})
        spec = msgspec.structs.replace(record.spec, source=VolumeAttachmentSource(again))
        record = msgspec.structs.replace(record, metadata=metadata, spec=spec)
        made = await filled(now, pv(name="volume"), node(), record)
        (kept,) = made.cache(VolumeAttachment).items()
        (volume,), (there,) = made.cache(PersistentVolume).items(), made.cache(Node).items()
        assert kept.spec.source.persistent_volume_name is volume.name
        assert kept.metadata.annotations[NODE_UID] is there.uid

    run(story())
