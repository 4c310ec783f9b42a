"""Which node a pod goes to, or why none will do."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.controllers.scheduling.decide import Action, Load, Obstacle, PodVolume, choose
from mooring.kube.objects import (
    Affinity,
    Condition,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    FlexVolumeSource,
    LabelSelectorRequirement,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    StorageClass,
    Taint,
    Toleration,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.limits import Attachable, limit_resource
from mooring.volumes.matching import BIND_COMPLETED


def node(name: str = "n", *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=NodeSpec(**spec),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
    )


def pod(**spec: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=PodSpec(**spec))


def decide(
    given_pod: Pod, *nodes: Node, volumes: tuple[PodVolume, ...] = (), free: tuple[PersistentVolume, ...] = (),
    load: dict[str, int] | None = None, has: frozenset[Attachable] = frozenset(), csi_node: CSINode | None = None,
) -> tuple[str | None, str]:  # fmt: skip
    choice = choose(
        given_pod,
        volumes,
        nodes,
        FreeVolumes(free),
        lambda name: Load((load or {}).get(name, 0), lambda: has, csi_node),
    )
    return (choice.node.name if choice.node else None), choice.reason.message


def test_the_node_with_the_fewest_pods_then_the_first_name():
    assert decide(pod(), node("b"), node("a"), node("c"), load={"a": 2, "b": 1, "c": 1})[0] == "b"


TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("given_pod", "there", "why"),
    [
        (pod(), node(unschedulable=True), "were unschedulable"),
        (pod(), node(ready="False"), "were not ready"),
        (pod(), node(ready="Unknown"), "were not ready"),
        (pod(), node(taints=(TAINT,)), "untolerated taint {k: v}"),
        (pod(node_selector={"zone": "a"}), node(labels={"zone": "b"}), "node affinity/selector"),
    ],
)
def test_why_a_node_will_not_do(given_pod: Pod, there: Node, why: str):
    found, message = decide(given_pod, there)
    assert found is None
    assert message.startswith("0/1 nodes are available: 1 node(s) ")
    assert why in message


@pytest.mark.parametrize(
    ("given_pod", "there", "obstacles"),
    [
        (
            pod(),
            (node("a", unschedulable=True), node("b", ready="False")),
            {"NodeUnschedulable", "NodeNotReady"},
        ),
        (pod(), (node(taints=(TAINT,)),), {"UntoleratedTaint"}),
        (pod(node_selector={"zone": "a"}), (node(),), {"NodeAffinity"}),
    ],
)
def test_each_obstacle_has_a_code_of_its_own(given_pod: Pod, there: tuple[Node, ...], obstacles: set[str]):
    choice = choose(given_pod, (), there, FreeVolumes(), lambda name: Load(0))
    assert (choice.action, choice.reason.code) == (Action.WAIT, "FailedScheduling")
    assert choice.obstacles == {Obstacle(each) for each in obstacles}


def test_equal_reasons_are_counted():
    message = decide(
        pod(), node("a", ready="False"), node("b", ready="False"), node("c", unschedulable=True)
    )[1]
    assert message == "0/3 nodes are available: 2 node(s) were not ready, 1 node(s) were unschedulable."


def test_without_nodes_the_message_is_whole():
    assert decide(pod()) == (None, "0/0 nodes are available.")


def test_a_toleration_opens_a_tainted_node_and_a_preference_closes_none():
    tolerant = pod(tolerations=(Toleration(key="k", operator="Exists"),))
    assert decide(tolerant, node(taints=(TAINT,)))[0] == "n"
    assert decide(pod(), node(taints=(Taint(key="k", effect="PreferNoSchedule"),)))[0] == "n"


def test_required_node_affinity_is_obeyed():
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    picky = pod(affinity=Affinity(node_affinity={"requiredDuringSchedulingIgnoredDuringExecution": required}))
    assert decide(picky, node("x", labels={"zone": "b"}), node("y", labels={"zone": "a"}))[0] == "y"


# --- volumes


def pv(name: str = "pv", *, hostname: str = "", **spec: Any) -> PersistentVolume:
    requirement = LabelSelectorRequirement(key="host", operator="In", values=(hostname,))
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))
    affinity = VolumeNodeAffinity(required=selector) if hostname else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(storage_class_name="disk", node_affinity=affinity, **spec),
    )


def pod_volume(
    *, bound: PersistentVolume | None = None, mode: str = "Immediate", provisioner: str = "example.com/disk",
    selected: str = "", deleting: bool = False, modes: tuple[str, ...] = (), others: tuple[str, ...] = (),
) -> PodVolume:  # fmt: skip
    annotations = {"volume.kubernetes.io/selected-node": selected} if selected else {}
    annotations |= {BIND_COMPLETED: "yes"} if bound else {}
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="c",
            namespace="default",
            annotations=annotations,
            deletion_timestamp="t" if deleting else None,
        ),
        spec=PersistentVolumeClaimSpec(
            storage_class_name="disk", access_modes=modes, volume_name=bound.name if bound else None
        ),
        status=PersistentVolumeClaimStatus(phase="Bound" if bound else "Pending"),
    )
    return PodVolume(claim, bound, StorageClass(provisioner=provisioner, volume_binding_mode=mode), others)


LATE = "WaitForFirstConsumer"
A, B = node("a", labels={"host": "a"}), node("b", labels={"host": "b"})


def test_a_pod_goes_where_its_volume_can_be_used():
    assert decide(pod(), A, B, volumes=(pod_volume(bound=pv(hostname="b")),))[0] == "b"
    assert (
        "didn't match PersistentVolume's node affinity"
        in decide(pod(), A, volumes=(pod_volume(bound=pv(hostname="b")),))[1]
    )


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        (pod_volume(), "unbound immediate PersistentVolumeClaims: c"),
        (pod_volume(bound=pv(), deleting=True), '"c" is being deleted'),
        (pod_volume(bound=pv(), modes=("ReadWriteOncePod",), others=("default/q",)), "in use by default/q"),
        (
            pod_volume(bound=pv(), modes=("ReadWriteOncePod",), others=("default/q",)),
            "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
            "access mode already in-use by another pod",
        ),
    ],
)
def test_what_keeps_a_pod_from_every_node(volume: PodVolume, words: str):
    found, message = decide(pod(), A, B, volumes=(volume,))
    assert found is None
    assert words in message


def test_a_claim_that_waits_for_its_consumer_does_not_hinder_where_a_volume_can_be_made():
    assert decide(pod(), A, volumes=(pod_volume(mode=LATE),))[0] == "a"


def test_where_nothing_is_made_a_volume_must_be_there_already():
    waits = pod_volume(mode=LATE, provisioner="kubernetes.io/no-provisioner")
    assert "didn't find available" in decide(pod(), A, B, volumes=(waits,))[1]
    there = PersistentVolume(
        metadata=ObjectMeta(name="local"),
        spec=pv(hostname="b").spec,
        status=PersistentVolumeStatus(phase="Available"),
    )
    assert decide(pod(), A, B, volumes=(waits,), free=(there,))[0] == "b"


def limited(count: int) -> CSINode:
    drivers = (CSINodeDriver(name="example.com/disk", allocatable=VolumeNodeResources(count=count)),)
    return CSINode(spec=CSINodeSpec(drivers=drivers))


@pytest.mark.parametrize(("limit", "fits"), [(1, False), (2, True)])
def test_a_node_takes_no_more_volumes_of_a_driver_than_it_says(limit: int, fits: bool):
    has = frozenset({Attachable("example.com/disk", "other"), Attachable("another", "x")})
    ours = pod_volume(bound=pv("mine", flex_volume=FlexVolumeSource(driver="example.com/disk")))
    to_be_made = pod_volume(mode=LATE)
    for volume in (ours, to_be_made):
        found, message = decide(pod(), A, volumes=(volume,), has=has, csi_node=limited(limit))
        assert (found == "a") == fits
        assert fits or "node(s) exceed max volume count" in message


def test_a_volume_that_the_node_has_already_takes_no_further_place():
    mine = pv("mine", flex_volume=FlexVolumeSource(driver="example.com/disk"))
    has = frozenset({Attachable("example.com/disk", "mine")})
    assert decide(pod(), A, volumes=(pod_volume(bound=mine),), has=has, csi_node=limited(1))[0] == "a"


def test_a_plugins_limit_is_a_resource_of_the_node():
    status = NodeStatus(
        conditions=(Condition(type="Ready", status="True"),),
        allocatable={limit_resource("example.com/disk"): "0"},
    )
    assert limit_resource("example.com/disk") == "attachable-volumes-example.com-disk"
    full = Node(metadata=ObjectMeta(name="full"), status=status)
    volume = pod_volume(bound=pv("mine", flex_volume=FlexVolumeSource(driver="example.com/disk")))
    assert decide(pod(), full, A, volumes=(volume,))[0] == "a"


@pytest.mark.parametrize(("said", "fits"), [("1k", True), ("1500m", False), (1, False)])
def test_a_plugins_limit_may_be_written_as_any_quantity(said: str | int, fits: bool):
    """An API server writes 1000 as 1k."""
    status = NodeStatus(
        conditions=(Condition(type="Ready", status="True"),),
        allocatable={limit_resource("example.com/disk"): said},
    )
    node = Node(metadata=ObjectMeta(name="a"), status=status)
    has = frozenset({Attachable("example.com/disk", "other")})
    volume = pod_volume(bound=pv("mine", flex_volume=FlexVolumeSource(driver="example.com/disk")))
    assert (decide(pod(), node, volumes=(volume,), has=has)[0] == "a") == fits


def to_be_made(**storage_class: Any) -> PodVolume:
    made = StorageClass(
        provisioner="a.example.com", volume_binding_mode="WaitForFirstConsumer", **storage_class
    )
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="default"),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )
    return PodVolume(claim, None, made)


def test_a_volume_is_made_only_where_its_class_allows_it():
    term = TopologySelectorTerm(match_label_expressions=({"key": "zone", "values": ["a", "b"]},))
    nodes = (node("n1", labels={"zone": "c"}), node("n2"), node("n3", labels={"zone": "b"}))
    volume = to_be_made(allowed_topologies=(term,))
    assert decide(pod(), *nodes, volumes=(volume,))[0] == "n3"
    assert (
        "2 node(s) were not where the claim's class allows volumes"
        in decide(pod(), *nodes[:2], volumes=(volume,))[1]
    )


def test_a_volume_of_a_csi_driver_is_made_where_the_driver_is_if_it_is_anywhere():
    there = CSINode(spec=CSINodeSpec(drivers=(CSINodeDriver(name="a.example.com", node_id="n2"),)))

    def chosen(drivers: set[str], *names: str) -> tuple[str | None, str]:
        choice = choose(
            pod(),
            (to_be_made(),),
            [node(name) for name in names],
            FreeVolumes(()),
            lambda name: Load(0, csi_node=there if name == "n2" else None),
            drivers,
        )
        return (choice.node.name if choice.node else None), choice.reason.message

    assert chosen({"a.example.com"}, "n1", "n2")[0] == "n2"
    assert "did not have the CSI driver" in chosen({"a.example.com"}, "n1")[1]
    assert chosen(set(), "n1", "n2")[0] == "n1", "no driver has registered anywhere"


def test_a_choice_once_written_is_kept():
    assert decide(pod(), A, B, volumes=(pod_volume(mode=LATE, selected="b"),), load={"b": 9})[0] == "b"


NODES = st.lists(
    st.builds(
        node,
        st.sampled_from("abcd"),
        ready=st.sampled_from(["True", "False", "Unknown"]),
        unschedulable=st.booleans(),
        taints=st.sampled_from([(), (TAINT,)]),
    ),
    unique_by=lambda each: each.name,
)


@given(NODES, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)), st.randoms())
def test_the_choice_is_a_usable_node_and_does_not_depend_on_order(
    nodes: list[Node], load: dict[str, int], random: Any
):
    found, _ = decide(pod(), *nodes, load=load)
    assert decide(pod(), *random.sample(nodes, len(nodes)), load=load)[0] == found
    usable = [
        each
        for each in nodes
        if each.ready == "True" and not each.spec.unschedulable and not each.spec.taints
    ]
    assert (found is None) == (not usable)
    assert found is None or found in {each.name for each in usable}
