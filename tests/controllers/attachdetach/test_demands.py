"""What pods want of a volume, node by node."""

from __future__ import annotations

from mooring.controllers.attachdetach.state import Demand, demands_of
from mooring.kube.objects import ObjectMeta, Pod, PodSpec, PodStatus

EARLY, LATE = "2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"


def pod(
    name: str, created: str | None = EARLY, *, node: str = "n0", phase: str = "Running", deleted: bool = False
) -> Pod:
    metadata = ObjectMeta(
        name=name,
        namespace="default",
        creation_timestamp=created,
        deletion_timestamp=LATE if deleted else None,
    )
    return Pod(metadata=metadata, spec=PodSpec(node_name=node), status=PodStatus(phase=phase))


def test_the_oldest_pod_of_a_node_comes_first_and_says_since_when_the_volume_is_wanted_there():
    pods = [pod("a", LATE), pod("c"), pod("b"), pod("q", LATE, node="n1")]
    assert demands_of(pods) == (
        Demand("n0", ("default/b", "default/c", "default/a"), EARLY, True),
        Demand("n1", ("default/q",), LATE, True),
    )


def test_of_a_pod_whose_age_is_not_known_it_is_wanted_from_the_beginning():
    assert demands_of([pod("a"), pod("b", None)]) == (Demand("n0", ("default/b", "default/a"), "", True),)


def test_a_node_gets_something_new_where_one_of_its_pods_stays():
    assert demands_of([pod("a", deleted=True), pod("b")])[0].starting
    assert not demands_of([pod("a", deleted=True), pod("b", deleted=True)])[0].starting


def test_pods_without_a_node_and_pods_that_have_ended_want_nothing():
    pods = [pod("a", node=""), pod("b", phase="Succeeded"), pod("c", phase="Failed")]
    assert demands_of(pods) == ()
