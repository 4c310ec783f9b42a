"""Whether a CSI driver has room for a volume where a node could reach it. Pure.

Source: KEP 1472 (storage capacity tracking), upstream's VolumeBinding plugin.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.kube.objects import CSIStorageCapacity, Node, PersistentVolumeClaim
from mooring.kube.quantity import parse_bytes
from mooring.kube.selectors import label_selector_of
from mooring.volumes.matching import requested


def has_room(
    claim: PersistentVolumeClaim,
    node: Node,
    storage_class: str,
    capacities: Sequence[CSIStorageCapacity] | None,
) -> bool:
    """Whether one of the places that the node reaches has room for the claim's volume. `capacities`: None if
    the driver does not say what it has, so that nothing is known against it."""
    if capacities is None:
        return True
    size = requested(claim)
    return any(
        each.storage_class_name == storage_class and _reaches(node, each) and _most(each) >= size
        for each in capacities
    )


def _reaches(node: Node, place: CSIStorageCapacity) -> bool:
    return label_selector_of(place.node_topology).matches(node.metadata.labels)


def _most(place: CSIStorageCapacity) -> int:
    """The largest volume that can be made there, in bytes; -1 where that is not known."""
    most = place.maximum_volume_size or place.capacity
    return -1 if most is None else parse_bytes(most)
