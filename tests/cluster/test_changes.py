"""What has changed, in lines."""

from __future__ import annotations

from mooring.cluster.changes import changes, facts
from mooring.cluster.view import Snapshot
from mooring.kube.objects import Condition, Node, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus


def test_a_line_is_printed_of_what_is_new_of_what_has_changed_and_of_what_is_gone():
    before, now = {"pod a": "Running", "pod b": "Pending", "pod c": "Running"}, {
        "pod a": "Running",
        "pod b": "Running",
        "pod d": "Pending",
    }  # fmt: skip
    assert list(changes(before, now, "12:00:00")) == [
        "12:00:00  pod b: Running",
        "12:00:00  pod d: Pending",
        "12:00:00  pod c: gone",
    ]


def test_a_line_is_one_line_whatever_a_name_holds():
    (line,) = changes({}, {"pod \x1b[2J\n": "x"}, "12:00:00")
    assert line == "12:00:00  pod \\x1b[2J\\n: x"


def test_a_node_that_falls_silent_changes_what_is_known_of_its_pods():
    def of(ready: str) -> dict[str, str]:
        node = Node(
            metadata=ObjectMeta(name="a"),
            status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
        )
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace="default"),
            spec=PodSpec(node_name="a"),
            status=PodStatus(phase="Running"),
        )
        return dict(facts(Snapshot([node], [], [pod], [])))

    assert list(changes(of("True"), of("Unknown"), "12:00:00")) == [
        "12:00:00  node a: Unknown",
        "12:00:00  pod default/p: Running? on a",
    ]
