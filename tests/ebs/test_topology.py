"""Which zone a request asks for, and whether a volume's zone is one of those."""

from __future__ import annotations

from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.topology import (
    DRIVER_ZONE_KEY,
    ZONE_ID_KEY,
    ZONE_KEY,
    Place,
    allows,
    node_segments,
    places,
    volume_topology,
)


def wanted(
    requisite: list[dict[str, str]], preferred: list[dict[str, str]] | None = None
) -> csi.TopologyRequirement:
    return csi.TopologyRequirement(
        requisite=[csi.Topology(segments=segments) for segments in requisite],
        preferred=[csi.Topology(segments=segments) for segments in preferred or []],
    )


def test_what_is_preferred_comes_first_and_each_place_once():
    asked = wanted([{ZONE_KEY: "a"}, {ZONE_KEY: "b"}, {ZONE_KEY: "c"}], [{ZONE_KEY: "b"}, {ZONE_KEY: "a"}])
    assert places(asked) == [Place("b"), Place("a"), Place("c")]


def test_the_well_known_key_goes_before_the_drivers():
    assert places(wanted([{DRIVER_ZONE_KEY: "old", ZONE_KEY: "new"}])) == [Place("new")]
    assert places(wanted([{DRIVER_ZONE_KEY: "old"}])) == [Place("old")]


def test_a_zone_can_be_asked_for_by_its_id():
    assert places(wanted([{ZONE_ID_KEY: "use1-az1"}])) == [Place(zone_id="use1-az1")]


def test_a_request_without_a_zone_asks_for_no_place():
    assert places(wanted([{"kubernetes.io/os": "linux"}])) == []
    assert places(csi.TopologyRequirement()) == []


def test_a_zone_that_is_not_asked_for_is_not_allowed():
    asked = wanted([{ZONE_KEY: "a"}, {ZONE_KEY: "b"}], [{ZONE_KEY: "a"}])
    assert allows(asked, "b")
    assert not allows(asked, "c")


def test_what_is_only_preferred_binds_if_nothing_else_is_said():
    assert not allows(wanted([], [{ZONE_KEY: "a"}]), "b")


def test_an_id_is_compared_where_it_is_known():
    asked = wanted([{ZONE_ID_KEY: "use1-az1"}])
    assert allows(asked, "us-east-1a", "use1-az1")
    assert not allows(asked, "us-east-1b", "use1-az2")
    assert allows(asked, "us-east-1b")


def test_without_a_wish_every_zone_is_allowed():
    assert allows(csi.TopologyRequirement(), "a")


def test_a_volume_can_be_reached_from_a_node_in_its_zone():
    segments = volume_topology("a").segments
    assert segments.items() <= node_segments("a").items()
    assert not segments.items() <= node_segments("b").items()
