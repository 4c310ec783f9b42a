"""Where volumes and nodes are: an availability zone, under the keys by which orchestrators know it. Pure.

A node has the zone under two keys: Kubernetes' own, and the driver's, by which volumes were pinned before the
first one existed. A volume that is made says only the first. A zone's id (`use1-az1`) names the same zone in
every account; a class may ask for it, but nodes do not have it.
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
    """A zone by its name (`us-east-1a`), its id (`use1-az1`), or both. What is empty was not asked for."""

    zone: str = ""
    zone_id: str = ""


def node_segments(zone: str) -> dict[str, str]:
    """The accessible topology of a node in this zone."""
    return {ZONE_KEY: zone, DRIVER_ZONE_KEY: zone, OS_KEY: "linux"}


def volume_topology(zone: str) -> csi.Topology:
    """From where a volume in this zone can be reached. The zone is the one that EC2 says, never an empty
    one."""
    return csi.Topology(segments={ZONE_KEY: zone})


def places(wanted: csi.TopologyRequirement) -> list[Place]:
    """The places that a CreateVolume request would have, best first, each once: those that it prefers, then
    those that will do. Empty if it names no zone; the driver then takes any."""
    found = (place_of(topology.segments) for topology in (*wanted.preferred, *wanted.requisite))
    return list(dict.fromkeys(place for place in found if place != Place()))


def allows(wanted: csi.TopologyRequirement, zone: str, zone_id: str = "") -> bool:
    """Whether a volume in this zone is one that the request would have. `zone_id` is that zone's id, if it is
    known; a request for an id is then compared with it, and let pass if it is not known.

    What is only preferred binds nothing beside a list of what will do (CSI specification,
    TopologyRequirement).
    """
    lists = wanted.requisite or wanted.preferred
    asked = [place for topology in lists if (place := place_of(topology.segments)) != Place()]
    return not asked or any(_same(place, zone, zone_id) for place in asked)


def place_of(segments: Mapping[str, str]) -> Place:
    """What the segments say of the zone. Kubernetes' key goes before the driver's."""
    return Place(next(_zones(segments), ""), segments.get(ZONE_ID_KEY, ""))


def _zones(segments: Mapping[str, str]) -> Iterator[str]:
    return (segments[key] for key in (ZONE_KEY, DRIVER_ZONE_KEY) if segments.get(key))


def _same(place: Place, zone: str, zone_id: str) -> bool:
    return place.zone in ("", zone) and (not zone_id or place.zone_id in ("", zone_id))
