"""What a person is advised to do about a pod that no node will do for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.kube.objects import (
    Condition,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    LabelSelectorRequirement,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
    VolumeNodeAffinity,
)
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.matching import BIND_COMPLETED
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain_pods import explain_pod
from mooring.why.snapshot import Snapshot

NODE = Node(
    metadata=ObjectMeta(name="a", labels={"host": "a"}),
    status=NodeStatus(conditions=(Condition(type="Ready", status="True"),)),
)
ELSEWHERE = NodeSelectorTerm(
    match_expressions=(LabelSelectorRequirement(key="host", operator="In", values=("b",)),)
)
ON_B = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(ELSEWHERE,)))
PV = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(node_affinity=ON_B))
CLAIM = PersistentVolumeClaim(
    metadata=ObjectMeta(name="c", namespace="default", annotations={BIND_COMPLETED: "yes"}),
    spec=PersistentVolumeClaimSpec(volume_name="pv"),
    status=PersistentVolumeClaimStatus(phase="Bound"),
)
SOURCE = PersistentVolumeClaimVolumeSource(claim_name="c")


def pod(**spec: object) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"), spec=PodSpec(**spec))  # type: ignore[arg-type]


def explained(unscheduled: Pod) -> Cause:
    plugins = PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC)))
    known = Snapshot(
        plugins,
        pods={unscheduled.key: unscheduled},
        claims={CLAIM.key: CLAIM},
        volumes={"pv": PV},
        classes={},
        nodes={"a": NODE},
        attachments={},
        drivers={},
        csi_nodes={},
        namespaces={},
        fences={},
        events={},
    )
    return explain_pod(unscheduled, known)


def advice(unscheduled: Pod) -> str:
    return explained(unscheduled).next_step


@pytest.mark.parametrize(
    ("unscheduled", "words"),
    [
        (pod(node_selector={"zone": "x"}), "node selector or affinity"),
        (
            pod(volumes=(Volume(name="data", persistent_volume_claim=SOURCE),)),
            "the volume can be used on other nodes",
        ),
    ],
)
def test_the_advice_follows_from_the_obstacle_and_not_from_words_of_its_message(unscheduled: Pod, words: str):
    """Both messages speak of affinity: one of the pod's, the other of the volume's."""
    assert words in advice(unscheduled)


@pytest.mark.parametrize("problem", ["container main: there is no image", "there is no image"])
def test_a_container_is_named_once(problem: str):
    """The agent's message may begin with the container's name, or with nothing."""
    state = ContainerState(waiting=ContainerStateWaiting(reason="ErrImageNeverPull", message=problem))
    held_up = Pod(
        metadata=ObjectMeta(name="p", namespace="default"),
        spec=PodSpec(node_name="a"),
        status=PodStatus(phase="Pending", container_statuses=(ContainerStatus(name="main", state=state),)),
    )
    assert explained(held_up).reason.message == "container main: there is no image"
