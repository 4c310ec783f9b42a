"""Where a CSI volume may be."""

from __future__ import annotations

import pytest

from mooring.kube.objects import CSINode, CSINodeDriver, CSINodeSpec, Node, ObjectMeta, TopologySelectorTerm
from mooring.volumes.errors import InvalidSpec, NodeUnsuited
from mooring.volumes.plugins.csi.topology import requirement, segments_of

DRIVER, ZONE = "a.example.com", "zone"


def node(name: str, zone: str | None, *, keys: tuple[str, ...] = (ZONE,)) -> tuple[Node, CSINode]:
    labels = {ZONE: zone} if zone else {}
    entry = CSINodeDriver(name=DRIVER, node_id=name, topology_keys=keys)
    its = CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=(entry,)))
    return Node(metadata=ObjectMeta(name=name, labels=labels)), its


NODES = [node("n1", "a"), node("n2", "b"), node("n3", "b"), node("n4", "c"), node("n5", None)]


def allowed(*zones: str) -> tuple[TopologySelectorTerm, ...]:
    return (TopologySelectorTerm(match_label_expressions=({"key": ZONE, "values": list(zones)},)),)


def zones(selected: str | None, terms: tuple[TopologySelectorTerm, ...] = (), uid: str = "u") -> list[str]:
    by_name = {each.name: each for each, _ in NODES}
    found = requirement(
        DRIVER, NODES, selected=by_name[selected] if selected else None, allowed=terms, claim_uid=uid
    )
    assert found is not None
    assert list(found.requisite) == list(found.preferred)
    return [each.segments[ZONE] for each in found.preferred]


def test_without_a_selected_node_each_place_is_asked_for_once():
    assert sorted(zones(None)) == ["a", "b", "c"]


def test_different_claims_begin_at_different_places():
    assert {zones(None, uid=f"u{number}")[0] for number in range(50)} == {"a", "b", "c"}
    assert zones(None, uid="u1") == zones(None, uid="u1")


def test_the_selected_nodes_place_comes_first():
    assert zones("n4")[0] == "c"
    assert sorted(zones("n4")) == ["a", "b", "c"]


def test_only_places_that_the_class_allows_are_asked_for():
    assert sorted(zones(None, allowed("a", "c"))) == ["a", "c"]


def test_a_selected_node_where_the_class_allows_nothing_is_said():
    with pytest.raises(NodeUnsuited, match="does not allow volumes where node n2 is"):
        zones("n2", allowed("a"))


def test_a_place_without_nodes_is_said():
    with pytest.raises(InvalidSpec, match="no node is where"):
        zones(None, allowed("nowhere"))


def test_a_selected_node_of_which_the_driver_has_said_nothing_is_waited_for():
    with pytest.raises(NodeUnsuited, match="n5"):
        zones("n5")


@pytest.mark.parametrize(("zone", "first"), [("b", ["b"]), ("d", ["d"]), (None, [])])
def test_the_place_of_a_selected_node_that_has_gone_is_known_by_its_labels(
    zone: str | None, first: list[str]
):
    """If they say it: else any place will do."""
    gone, _ = node("gone", zone)
    found = requirement(DRIVER, NODES, selected=gone, allowed=(), claim_uid="u")
    assert found is not None
    places = [each.segments[ZONE] for each in found.preferred]
    assert places[: len(first)] == first
    assert sorted(places) == sorted({"a", "b", "c", *first})


def test_a_driver_without_places_is_asked_for_none():
    plain = [node("n1", None, keys=())]
    assert requirement(DRIVER, plain, selected=None, allowed=(), claim_uid="u") is None


def test_a_node_has_a_place_only_with_all_its_labels():
    assert segments_of(DRIVER, *node("n", "a")) == {ZONE: "a"}
    assert segments_of(DRIVER, *node("n", "a", keys=(ZONE, "rack"))) is None
