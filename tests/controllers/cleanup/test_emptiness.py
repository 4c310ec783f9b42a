"""What a namespace says of what it still holds."""

from __future__ import annotations

from datetime import UTC, datetime

from mooring.controllers.cleanup.emptiness import MOST_NAMES, conditions
from mooring.kube.objects import Condition, ConfigMap, ObjectMeta, Pod

THEN, NOW = "2030-01-01T00:00:00Z", datetime(2030, 1, 2, tzinfo=UTC)
HELD = ConfigMap(metadata=ObjectMeta(name="m", finalizers=("b/x", "a/y")))
PLAIN = Pod(metadata=ObjectMeta(name="p"))


def test_nothing_is_written_of_what_was_never_wrong():
    assert conditions([], {}, [], NOW) == []


def test_what_is_left_is_counted_by_kind_and_by_finalizer():
    left = [(ConfigMap.RESOURCE, HELD), (ConfigMap.RESOURCE, HELD), (Pod.RESOURCE, PLAIN)]
    content, finalizers = conditions(left, {}, [], NOW)
    assert content["message"].endswith("configmaps. has 2 resource instances, pods. has 1 resource instances")
    assert finalizers["message"].endswith("a/y in 2 resource instances, b/x in 2 resource instances")


def test_only_what_has_changed_is_written_and_its_time_is_that_of_its_status():
    (content,) = conditions([(Pod.RESOURCE, PLAIN)], {}, [], NOW)
    before = Condition(
        type=content["type"],
        status="True",
        reason=content["reason"],
        message=content["message"],
        last_transition_time=THEN,
    )
    assert conditions([(Pod.RESOURCE, PLAIN)], {}, [before], NOW) == []
    (more,) = conditions([(Pod.RESOURCE, PLAIN)] * 2, {}, [before], NOW)
    assert more["lastTransitionTime"] == THEN
    (none,) = conditions([], {}, [before], NOW)
    assert (none["status"], none["lastTransitionTime"]) == ("False", "2030-01-02T00:00:00Z")


def test_many_pods_are_counted():
    pods = [f"p{number}" for number in range(MOST_NAMES + 3)]
    (said,) = conditions([], {"n": pods}, [], NOW)
    assert "p4 and 3 more on node n" in said["message"]
    assert "p5" not in said["message"]
