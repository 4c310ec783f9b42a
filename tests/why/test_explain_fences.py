"""What is said of a node that is lost says what its fence waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from mooring.kube.objects import Condition, Node, NodeStatus, ObjectMeta
from mooring.kube.objects.fencing import FenceAttempt, NodeFence, NodeFenceSpec, NodeFenceStatus
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.explain import explain
from mooring.why.explain_nodes import explain_absence
from mooring.why.snapshot import Snapshot
from mooring.why.text import lines


def known(phase: str, reason: str = "Storm", message: str = "2 of 3 nodes were lost at once") -> Snapshot:
    lost = Condition(type="Ready", status="Unknown")
    node = Node(metadata=ObjectMeta(name="a"), status=NodeStatus(conditions=(lost,)))
    fence = NodeFence(
        metadata=ObjectMeta(name="a-1"),
        spec=NodeFenceSpec(node_name="a"),
        status=NodeFenceStatus(phase=phase, reason=reason, message=message),
    )
    return Snapshot(
        PluginManager([], ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))),
        pods={},
        claims={},
        volumes={},
        classes={},
        nodes={"a": node},
        attachments={},
        drivers={},
        csi_nodes={},
        namespaces={},
        fences={"a-1": fence},
        events={},
    )


def test_it_is_said_for_how_long_a_fence_waits():
    held = known("Pending", "StormCooldown", "several nodes were lost at once a moment ago")
    found = held.fences["a-1"]
    status = msgspec.structs.replace(found.status, waits_until="2030-01-01T00:00:12Z")
    fence = msgspec.structs.replace(found, status=status)
    cause = explain("nodefence/a-1", "default", replace(held, fences={"a-1": fence}))
    said = list(lines(cause, datetime(2030, 1, 1, tzinfo=UTC), lambda text, colour: text))
    assert any("it is looked at again in 12s" in each for each in said), said
    assert cause.as_json()["until"] == "2030-01-01T00:00:12Z"
    late = list(lines(cause, datetime(2031, 1, 1, tzinfo=UTC), lambda text, colour: text))
    assert any("it is looked at again now" in each for each in late), late


@pytest.mark.parametrize("seen", ["HeardByPeers", "SeenByStorage"])
def test_a_node_that_is_heard_or_seen_by_others_may_be_fenced_by_a_person(seen: str):
    held = known("Pending", seen, "a answers its peers (b)")
    (fence,) = explain("node/a", "default", held).causes
    assert fence.reason.code == seen
    assert "mooring fence request a" in fence.next_step


@pytest.mark.parametrize(
    ("phase", "step"),
    [
        ("Pending", "mooring fence confirm a"),
        ("AwaitingPerson", "mooring fence test a"),
        ("Fenced", "mooring fence release a"),
        ("Fencing", ""),
    ],
)
def test_a_node_that_does_not_answer_is_explained_by_its_fence(phase: str, step: str):
    cause = explain("node/a", "default", known(phase))
    (fence,) = cause.causes
    assert (fence.about, fence.reason.code) == ("nodefence/a-1", "Storm")
    assert fence.reason.message == f"{phase}: 2 of 3 nodes were lost at once"
    assert step in fence.next_step


@pytest.mark.parametrize(
    ("scope", "releases_pods", "step", "never"),
    [
        ("Power", False, "mooring fence release a", "storageReleasesPods"),
        ("Network", False, "restart its machine", "storageReleasesPods"),
        ("Storage", True, "restart its machine", "storageReleasesPods"),
        ("Storage", False, "until FencePolicy default has storageReleasesPods", "mooring fence release"),
    ],
)
def test_of_a_node_that_is_cut_off_it_says_what_brings_it_back_and_what_moves_its_pods(
    scope: str, releases_pods: bool, step: str, never: str
):
    volumes = {"va": "pv"} if scope == "Storage" else {}
    attempt = FenceAttempt(token="t", outcome="Fenced", scope=scope, volumes=volumes)
    held = known("Fenced")
    status = NodeFenceStatus(
        phase="Fenced", policy="default", attempts=(attempt,), proof="t", releases_pods=releases_pods
    )
    fence = NodeFence(metadata=ObjectMeta(name="a-1"), spec=NodeFenceSpec(node_name="a"), status=status)
    said = explain("nodefence/a-1", "default", replace(held, fences={"a-1": fence})).next_step
    assert step in said
    assert never not in said


@pytest.mark.parametrize("phase", ["Cancelled", "Unfenced", "Refused"])
def test_a_fence_that_is_over_explains_nothing(phase: str):
    assert not explain("node/a", "default", known(phase)).causes
    assert explain("nodefence/a-1", "default", known(phase)).ok


def test_a_node_that_is_gone_is_explained_by_its_fence_too():
    (fence,) = explain_absence("a", known("Fenced", "Fenced", "node a is off")).causes
    assert fence.reason.message == "Fenced: node a is off"


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("StillMounted", "kubectl drain a"),
        ("StillAttached", "kubectl drain a"),
        ("SessionsUnknown", "mooring fence test a"),
    ],
)
def test_of_a_node_that_answers_and_is_shut_out_it_says_what_lets_it_in(reason: str, step: str):
    held = known("Fenced", reason, "node a is let in once it has unmounted pv-1")
    attempt = FenceAttempt(token="t", outcome="Fenced", scope="Storage", volumes={"va": "pv-1"})
    found = held.fences["a-1"]
    fence = msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, attempts=(attempt,), proof="t")
    )
    answers = NodeStatus(conditions=(Condition(type="Ready", status="True"),))
    node = msgspec.structs.replace(held.nodes["a"], status=answers)
    cause = explain("node/a", "default", replace(held, nodes={"a": node}, fences={"a-1": fence}))
    assert cause.reason.code == "ShutOut"
    (why,) = cause.causes
    assert why.reason.code == reason
    assert step in why.next_step
