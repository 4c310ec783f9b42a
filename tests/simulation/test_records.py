"""What is wrong in the end with the records of volumes (L19): found on records that say it, on no others."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.simulation.checks.records import OVER, of_claims, of_nodes, of_records, of_volumes
from mooring.volumes.matching import PRE_RESIZE_CAPACITY

PROTECTED = ["kubernetes.io/pvc-protection"]
ERROR = {"time": "2026-01-01T00:00:00Z", "message": "no"}


def record(*, attached: bool = True, node: str = "n1", status: Any = None, **notes: str) -> VolumeAttachment:
    annotations = {"mooring.dev/plugin": "disk", "mooring.dev/volume-name": "v", "mooring.dev/node-uid": "u"}
    body = {
        "metadata": {"name": "a", "uid": "a", "annotations": annotations | notes},
        "spec": {"attacher": "x", "nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": attached} | (status or {}),
    }
    return msgspec.convert(body, VolumeAttachment)


def node(has: tuple[str, ...], uses: tuple[str, ...], uid: str = "u") -> Node:
    listed = [{"name": each, "devicePath": ""} for each in has]
    status = {"volumesAttached": listed, "volumesInUse": uses}
    return msgspec.convert({"metadata": {"name": "n1", "uid": uid}, "status": status}, Node)


def claim(capacity: str = "1Gi", **more: Any) -> PersistentVolumeClaim:
    metadata = {"name": "c", "namespace": "default", "uid": "c", "finalizers": PROTECTED}
    metadata |= {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} | more
    spec, status = {"volumeName": "v"}, {"phase": "Bound", "accessModes": ["ReadWriteOnce"]}
    status |= {"capacity": {"storage": capacity} if capacity else {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, PersistentVolumeClaim)


def volume(uid: str = "c", phase: str = "Bound", modes: tuple[str, ...] = ("ReadWriteOnce",)) -> Any:
    spec = {"claimRef": {"namespace": "default", "name": "c", "uid": uid}, "accessModes": modes}
    spec |= {"capacity": {"storage": "1Gi"}}
    body = {"metadata": {"name": "v", "uid": "v"}, "spec": spec, "status": {"phase": phase}}
    return {"v": msgspec.convert(body, PersistentVolume)}


def test_what_is_attached_says_nothing_of_a_detach_and_no_error():
    there = {"n1": node(("disk/v",), ("disk/v",))}
    assert [*of_records([record()], there)] == []
    for name in OVER:
        assert [*of_records([record(**{name: "t"})], there)] == [f"VolumeAttachment a still has {name}"]
        assert [*of_records([record(attached=False, **{name: "t"})], there)] == [], "it is under way"
    (wrong,) = of_records([record(status={"attachError": ERROR})], there)
    assert wrong.endswith("still has an error")


def test_what_is_attached_is_of_the_node_that_there_is():
    assert [*of_records([record()], {"n1": node((), (), uid="another")})] != []
    assert [*of_records([record()], {})] == [], "its Node is gone: other invariants judge that"


def test_both_lists_of_a_node_name_what_is_attached_to_it():
    own, none = ("disk/v",), ()
    assert [*of_nodes([record()], [node(own, own)])] == []
    assert [*of_nodes([record(node="n2")], [node(none, none)])] == []
    assert len([*of_nodes([record()], [node(none, own)])]) == 1
    assert len([*of_nodes([record()], [node(own, none)])]) == 1
    assert len([*of_nodes([record(attached=False)], [node(own, own)])]) == 1
    assert [*of_nodes([record(attached=False)], [node(none, own)])] == [], "a pod waits for it there"


def test_a_claim_that_is_bound_and_its_volume_say_the_same_of_each_other():
    assert [*of_claims([claim()], volume())] == []
    for other in (volume(uid="d"), volume(phase="Released"), volume(modes=("ReadWriteMany",))):
        assert len([*of_claims([claim()], other)]) == 1
    assert len([*of_claims([claim(annotations={})], volume())]) == 1


def test_a_claim_has_what_its_volume_has_or_less_while_its_file_system_grows():
    assert len([*of_claims([claim("")], volume())]) == 1
    assert len([*of_claims([claim("512Mi")], volume())]) == 1
    growing = msgspec.structs.replace(
        volume()["v"],
        metadata=msgspec.structs.replace(volume()["v"].metadata, annotations={PRE_RESIZE_CAPACITY: "512Mi"}),
    )
    assert [*of_claims([claim("512Mi")], {"v": growing})] == []
    assert len([*of_claims([claim("2Gi")], {"v": growing})]) == 1


def test_a_claim_that_is_bound_is_protected_and_kept_by_nothing_else():
    assert len([*of_claims([claim(finalizers=[])], volume())]) == 1
    assert len([*of_claims([claim(finalizers=[*PROTECTED, "mooring.dev/provisioning"])], volume())]) == 1
    assert [*of_claims([claim(finalizers=[*PROTECTED, "example.com/hold"])], volume())] == []


def test_a_volume_whose_claim_is_gone_is_not_bound_any_more():
    assert [*of_volumes(volume().values(), [claim()])] == []
    assert len([*of_volumes(volume().values(), [])]) == 1
    assert [*of_volumes(volume(phase="Released").values(), [])] == []
