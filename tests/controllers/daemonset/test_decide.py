"""One pod on each node of a DaemonSet, and how a new template reaches them all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from mooring.controllers.daemonset.decide import decide, status
from mooring.controllers.daemonset.placement import node_of, pod_body
from mooring.controllers.daemonset.pod_decision import Action, PodDecision
from mooring.kube.objects import (
    Condition,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetUpdateStrategy,
    Node,
    NodeSpec,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    RollingUpdateDaemonSet,
    Taint,
)
from mooring.kube.revisions import REVISION

NOW = datetime(2030, 1, 1, 1, tzinfo=UTC)
NEW, OLD = "new", "old"


def daemon_set(
    *, most: int | str = 1, surge: int | str = 0, on_delete: bool = False, **spec: Any
) -> DaemonSet:
    kind = "OnDelete" if on_delete else "RollingUpdate"
    rolling = RollingUpdateDaemonSet(max_unavailable=most, max_surge=surge)
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    strategy = DaemonSetUpdateStrategy(type=kind, rolling_update=rolling)
    return DaemonSet(
        metadata=ObjectMeta(name="d", namespace="ns", uid="d", generation=3),
        spec=DaemonSetSpec(template=template, update_strategy=strategy),
    )


def node(name: str, *taints: tuple[str, str], **labels: str) -> Node:
    tainted = tuple(Taint(key=key, effect=effect) for key, effect in taints)
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(taints=tainted))


def pod(
    name: str,
    on: str,
    revision: str = NEW,
    *,
    phase: str = "Running",
    ready: bool = True,
    deleting: bool = False,
) -> Pod:
    metadata = ObjectMeta(
        name=name,
        uid=name,
        labels={REVISION: revision},
        creation_timestamp="2030-01-01T00:00:00Z",
        deletion_timestamp="t" if deleting else None,
    )
    since = "2030-01-01T00:10:00Z"
    conditions = (Condition(type="Ready", status="True", last_transition_time=since),) if ready else ()
    return Pod(
        metadata=metadata, spec=PodSpec(node_name=on), status=PodStatus(phase=phase, conditions=conditions)
    )


def created(decisions: list[PodDecision]) -> list[str]:
    return sorted(each.node for each in decisions if each.action is Action.CREATE)


def deleted(decisions: list[PodDecision]) -> list[str]:
    return sorted(each.pod.name for each in decisions if each.pod is not None)


def decided(given_set: DaemonSet, nodes: list[Node], *pods: Pod) -> tuple[list[str], list[str]]:
    found = decide(given_set, nodes, pods, NEW, NOW)
    return created(found), deleted(found)


def test_each_node_without_a_pod_gets_one():
    assert decided(daemon_set(), [node("a"), node("b"), node("c")], pod("p", "b")) == (["a", "c"], [])


@pytest.mark.parametrize(
    ("taint", "new_pods", "stays"),
    [
        (("x", "NoSchedule"), False, True),
        (("x", "NoExecute"), False, False),
        (("x", "PreferNoSchedule"), True, True),
        (("node.kubernetes.io/unschedulable", "NoSchedule"), True, True),
        (("node.kubernetes.io/not-ready", "NoExecute"), True, True),
        (("node.kubernetes.io/not-ready", "NoSchedule"), False, True),
    ],
)
def test_a_taint_keeps_pods_away_or_drives_them_out_unless_daemons_tolerate_it(taint, new_pods, stays):
    assert decided(daemon_set(), [node("a", taint)]) == (["a"] if new_pods else [], [])
    assert decided(daemon_set(), [node("a", taint)], pod("p", "a")) == ([], [] if stays else ["p"])


def test_nodes_that_are_not_selected_lose_their_pod():
    given_set = daemon_set(nodeSelector={"disk": "ssd"})
    nodes = [node("a", disk="ssd"), node("b")]
    assert decided(given_set, nodes, pod("p", "b")) == (["a"], ["p"])


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_goes_and_its_node_gets_another_when_it_has_gone(phase):
    ended = pod("p", "a", phase=phase, ready=False)
    assert decided(daemon_set(), [node("a")], ended) == ([], ["p"])
    ending = msgspec.structs.replace(
        ended, metadata=msgspec.structs.replace(ended.metadata, deletion_timestamp="t")
    )
    assert decided(daemon_set(), [node("a")], ending) == ([], [])


def test_of_two_pods_on_a_node_the_older_one_stays():
    assert decided(daemon_set(), [node("a")], pod("p", "a"), pod("q", "a")) == ([], ["q"])


@pytest.mark.parametrize("surge", [0, 1])
def test_of_two_pods_on_a_node_the_one_that_is_available_stays(surge):
    given_set = daemon_set(most=0 if surge else 1, surge=surge)
    pods = [pod("p", "a", ready=False), pod("q", "a")]
    assert decided(given_set, [node("a")], *pods) == ([], ["p"])


def test_a_pod_that_was_made_for_a_node_that_is_gone_goes():
    body = pod_body(daemon_set(), "gone", NEW)
    waiting = Pod(metadata=ObjectMeta(name="p", uid="p"), spec=msgspec.convert(body["spec"], PodSpec))
    assert node_of(waiting) == "gone"
    assert decided(daemon_set(), [], waiting) == ([], ["p"])


def test_a_new_template_replaces_as_many_as_may_be_unavailable():
    nodes = [node(name) for name in "abcd"]
    old = [pod(f"{name}-old", name, OLD) for name in "abcd"]
    assert decided(daemon_set(most=2), nodes, *old) == ([], ["a-old", "b-old"])
    assert len(decided(daemon_set(most="50%"), nodes, *old)[1]) == 2
    halfway = [pod("a-new", "a", ready=False), *old[1:]]
    assert decided(daemon_set(most=1), nodes, *halfway) == ([], [])
    assert decided(daemon_set(most=2), nodes, *halfway) == ([], ["b-old"])


def test_a_node_that_has_no_pod_yet_counts_as_unavailable():
    nodes = [node(name) for name in "abc"]
    assert decided(daemon_set(most=1), nodes, pod("b-old", "b", OLD), pod("c-old", "c", OLD)) == (["a"], [])


def test_an_old_pod_that_is_not_available_is_replaced_at_once():
    nodes = [node(name) for name in "ab"]
    old = [pod("a-old", "a", OLD, ready=False), pod("b-old", "b", OLD)]
    assert decided(daemon_set(most=1), nodes, *old) == ([], ["a-old"])


def test_on_delete_leaves_old_pods_alone():
    assert decided(daemon_set(on_delete=True), [node("a")], pod("p", "a", OLD)) == ([], [])


def test_a_surge_makes_the_new_pod_first():
    nodes = [node(name) for name in "ab"]
    old = [pod("a-old", "a", OLD), pod("b-old", "b", OLD)]
    given_set = daemon_set(most=0, surge=1)
    assert decided(given_set, nodes, *old) == (["a"], [])
    assert decided(given_set, nodes, *old, pod("a-new", "a", ready=False)) == ([], [])
    assert decided(given_set, nodes, *old, pod("a-new", "a")) == (["b"], ["a-old"])


def test_the_pod_is_for_its_node_only_and_minds_no_trouble_of_it():
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [], "x": 1}, "podAffinity": {}}
    body = pod_body(daemon_set(affinity=own, hostNetwork=True), "a", NEW)
    affinity = body["spec"]["affinity"]
    [term] = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    assert set(affinity) == {"nodeAffinity", "podAffinity"}
    keys = {each["key"].removeprefix("node.kubernetes.io/") for each in body["spec"]["tolerations"]}
    assert keys >= {"not-ready", "unreachable", "unschedulable", "network-unavailable", "disk-pressure"}


def test_the_status_counts_nodes():
    nodes = [node("a"), node("b"), node("c"), node("d", ("x", "NoSchedule"))]
    pods = [pod("p", "a"), pod("q", "b", OLD, ready=False), pod("r", "d")]
    assert status(daemon_set(), nodes, pods, NEW, NOW) == {
        "observedGeneration": 3,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
    }


@given(
    st.integers(1, 3),
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([NEW, OLD]), st.booleans(), st.booleans())),
)
def test_no_step_of_a_rollout_takes_more_than_may_be_unavailable(most, surge, drawn):
    """After the step at most so many nodes have no available pod, or as many as before it."""
    pods = [
        pod(f"p{number}", on, revision, ready=ready, deleting=deleting)
        for number, (on, revision, ready, deleting) in enumerate(drawn)
    ]
    nodes = [node(name) for name in "abcd"]
    given_set = daemon_set(most=0 if surge else most, surge=surge)
    decisions = decide(given_set, nodes, pods, NEW, NOW)
    gone = set(deleted(decisions))

    def served(some: list[Pod]) -> set[str]:
        return {
            each.spec.node_name
            for each in some
            if each.status.conditions and not each.metadata.deletion_timestamp
        }

    before, after = served(pods), served([each for each in pods if each.name not in gone])
    assert len(nodes) - len(after) <= max(0 if surge else most, len(nodes) - len(before))
    assert len(created(decisions)) == len(set(created(decisions)))
