"""What is said of a bound claim that asks for more than its volume has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.kube.objects import (
    Condition,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeResourceRequirements,
)
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain import explain
from mooring.why.snapshot import Snapshot


def explained(*conditions: Condition) -> Cause:
    """Of the claim c of volume pv, with these conditions."""
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="c", namespace="default", uid="u", annotations={"pv.kubernetes.io/bind-completed": "yes"}
        ),
        spec=PersistentVolumeClaimSpec(
            volume_name="pv", resources=VolumeResourceRequirements(requests={"storage": "2Gi"})
        ),
        status=PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "1Gi"}, conditions=conditions),
    )
    pv = PersistentVolume(
        metadata=ObjectMeta(name="pv", uid="v"),
        spec=PersistentVolumeSpec(claim_ref=ObjectReference(namespace="default", name="c", uid="u")),
        status=PersistentVolumeStatus(phase="Bound"),
    )
    plugins = PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC)))
    others = (
        "pods",
        "classes",
        "nodes",
        "namespaces",
        "attachments",
        "drivers",
        "csi_nodes",
        "fences",
        "events",
    )
    rest: dict[str, Any] = {kind: {} for kind in others}
    known = Snapshot(plugins, claims={"default/c": claim}, volumes={"pv": pv}, **rest)
    return explain("pvc/c", "default", known)


def holds(type_: str, message: str = "") -> Condition:
    return Condition(type=type_, status="True", message=message, last_transition_time="2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("conditions", "code", "said"),
    [
        ((holds("Resizing"),), "Resizing", "grows in the storage"),
        ((holds("FileSystemResizePending"),), "FileSystemResizePending", "where it is mounted"),
        (
            (holds("Resizing"), holds("ControllerResizeError", "at most 1 GiB")),
            "ControllerResizeError",
            "asks for 2Gi: its volume cannot grow: at most 1 GiB",
        ),
        (
            (holds("FileSystemResizePending"), holds("NodeResizeError", "at most 1 GiB")),
            "NodeResizeError",
            "its file system cannot grow: at most 1 GiB",
        ),
    ],
)
def test_the_step_that_it_waits_at_is_named_with_what_to_do(
    conditions: tuple[Condition, ...], code: str, said: str
):
    cause = explained(*conditions)
    assert not cause.ok and cause.reason.code == code
    assert said in cause.reason.message and cause.next_step


def test_a_claim_that_does_not_grow_is_well():
    other = Condition(type="ControllerResizeError", status="False")
    assert explained().ok and explained(other).ok
