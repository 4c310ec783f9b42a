"""What is taken off others' objects, and what stands in the way of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.controllers.provisioning.decide import BEGUN
from mooring.install.remains import Remains, refusals, unmarked
from mooring.install.uninstall import planned
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.kube.objects.fencing import NodeFence

DRIVER = ("DaemonSet", "kube-system", "ebs-csi-node", "uid")


def made(
    kind: Any,
    name: str = "a",
    *,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> Any:
    body = {"metadata": {"name": name, **metadata}, "spec": spec or {}, "status": status or {}}
    return msgspec.convert(body, kind)


def test_only_our_marks_are_taken_off():
    volume = made(
        PersistentVolume,
        annotations={
            "mooring.dev/attached-to": "x",
            "pv.kubernetes.io/provisioned-by": "y",
            "notmooring.dev/z": "z",
        },
        finalizers=["kubernetes.io/pv-protection", "external-attacher/ebs-csi-aws-com"],
    )
    assert unmarked(volume) == {"metadata": {"annotations": {"mooring.dev/attached-to": None}}}


def test_a_finalizer_of_ours_goes_and_others_stay():
    node = made(Node, finalizers=["fencing.mooring.dev/node", "example.com/keep"])
    assert unmarked(node) == {"metadata": {"finalizers": ["example.com/keep"]}}


def test_what_has_no_mark_is_not_written():
    assert unmarked(made(Node, annotations={"a/b": "c"}, finalizers=["x/y"])) is None


@pytest.mark.parametrize(("phase", "refused"), [
    ("", True), ("Pending", True), ("Fencing", True), ("AwaitingPerson", True), ("Fenced", True),
    ("Unfenced", False), ("Cancelled", False), ("Refused", False),
])  # fmt: skip
def test_a_fence_that_is_not_over_stands_in_the_way(phase: str, refused: bool):
    fence = made(NodeFence, spec={"nodeName": "worker"}, status={"phase": phase})
    said = refusals(Remains((), (), [fence]))
    assert bool(said) is refused
    assert all("mooring fence release worker" in each for each in said)


@pytest.mark.parametrize(("value", "refused"), [("fenced", True), ("nodeshutdown", False)])
def test_a_node_that_a_fence_took_out_of_service_stands_in_the_way(value: str, refused: bool):
    taint = {"key": "node.kubernetes.io/out-of-service", "value": value, "effect": "NoExecute"}
    assert bool(refusals(Remains((), [made(Node, spec={"taints": [taint]})]))) is refused


def test_volumes_that_only_our_driver_would_detach_stand_in_its_way():
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "pv-1"}}
    attached = made(VolumeAttachment, spec=spec)
    (said,) = refusals(Remains([DRIVER], [attached]))
    assert "pv-1 on n" in said
    assert refusals(Remains([], [attached])) == []
    other = made(VolumeAttachment, spec={**spec, "attacher": "other"})
    assert refusals(Remains([DRIVER], [other])) == []


def test_a_claim_for_which_a_disk_is_being_made_stands_in_the_way():
    begun = {"finalizers": [BEGUN], "namespace": "default"}
    assert refusals(Remains([DRIVER], [made(PersistentVolumeClaim, **begun)]))
    assert not refusals(Remains([DRIVER], [made(PersistentVolumeClaim, spec={"volumeName": "pv"}, **begun)]))


def test_the_plan_says_each_deletion_and_how_many_marks():
    marked = made(PersistentVolume, annotations={"mooring.dev/attached-to": "x"})
    assert planned(Remains([DRIVER], [marked, made(Node)])) == [
        "delete daemonsets/ebs-csi-node in kube-system",
        "take our marks off 1 object (persistentvolumes)",
    ]


def test_marks_without_an_installation_are_of_a_controller_that_may_run():
    marked = made(PersistentVolume, annotations={"mooring.dev/attached-to": "x"})
    assert "mooring up" in refusals(Remains([], [marked]))[0]
    assert refusals(Remains([], [marked]), nothing_runs=True) == []
    assert refusals(Remains([("Role", "kube-system", "mooring-attach-detach", "uid")], [marked])) == []
