"""The availability zones of volumes and nodes, under the orchestrators' topology keys. Pure.

A node has its zone under two keys: Kubernetes' own, and the driver's, to which volumes were pinned before
Kubernetes' key existed. A new volume has only the former. A zone's id (`use1-az1`) names the same zone in
every account; a class may request it, but nodes do not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mooring.csi.proto import csi_pb2 as csi

ZONE_KEY = "topology.kubernetes.io/zone"
DRIVER_ZONE_KEY = "topology.ebs.csi.aws.com/zone"
ZONE_ID_KEY = "topology.k8s.aws/zone-id"
OS_KEY = "kubernetes.io/os"


@dataclass(frozen=True)
class Place:
    """A zone by its name (`us-east-1a`), its id (`use1-az1`), or both. An empty field matches any."""

    zone: str = ""
    zone_id: str = ""


def node_segments(zone: str) -> dict[str, str]:
    """The accessible topology of a node in this zone."""
    return {ZONE_KEY: zone, DRIVER_ZONE_KEY: zone, OS_KEY: "linux"}


def volume_topology(zone: str) -> csi.Topology:
    """The topology from which a volume in this zone can be reached. `zone` is EC2's name of it, never
    empty."""
    return csi.Topology(segments={ZONE_KEY: zone})


def places(wanted: csi.TopologyRequirement) -> list[Place]:
    """The places that a CreateVolume request allows, each once: the preferred ones first, then the other
    requisite ones. Empty if it names no zone; the driver then chooses any."""
    named = (place_of(topology.segments) for topology in (*wanted.preferred, *wanted.requisite))
    return list(dict.fromkeys(place for place in named if place != Place()))


def allows(wanted: csi.TopologyRequirement, zone: str, zone_id: str = "") -> bool:
    """Whether the request allows a volume in this zone. `zone_id` is the zone's id, if known; a request for
    an id is compared with a known id, and allowed otherwise.

    The preferred list restricts nothing if there is a requisite list (CSI specification,
    TopologyRequirement).
    """
    lists = wanted.requisite or wanted.preferred
    named = [place for topology in lists if (place := place_of(topology.segments)) != Place()]
    return not named or any(_same(place, zone, zone_id) for place in named)


def place_of(segments: Mapping[str, str]) -> Place:
    """The zone in the segments. Kubernetes' key takes precedence over the driver's."""
    return Place(next(_zones(segments), ""), segments.get(ZONE_ID_KEY, ""))


def _zones(segments: Mapping[str, str]) -> Iterator[str]:
    return (segments[key] for key in (ZONE_KEY, DRIVER_ZONE_KEY) if segments.get(key))


def _same(place: Place, zone: str, zone_id: str) -> bool:
    return place.zone in ("", zone) and (not zone_id or place.zone_id in ("", zone_id))
