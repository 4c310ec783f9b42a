"""How many volumes can be attached to a node: by CSI driver or plugin, as the node says. Pure.

A CSI driver's limit is in its CSINode (`allocatable.count`); a plugin's is a resource of the Node, as
upstream had it for its own plugins: `attachable-volumes-<plugin>`, with a dash for the slash.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from mooring.kube.objects import CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.kube.quantity import parse_quantity
from mooring.volumes.matching import NO_PROVISIONER
from mooring.volumes.migration import Migrated, driver_of, migrated

RESOURCE_PREFIX = "attachable-volumes-"


class Attachable(NamedTuple):
    """A volume that takes one of the node's places: its driver or plugin, and its name."""

    driver: str
    volume: str


def limit_resource(plugin: str) -> str:
    """The name of the resource in a Node's `allocatable`."""
    return RESOURCE_PREFIX + plugin.replace("/", "-")


def attachable(pv: PersistentVolume) -> Attachable | None:
    """Returns the place that the volume takes; None for one that no driver or plugin attaches. A volume of a
    former in-tree plugin takes that of the CSI volume which it is today."""
    if pv.spec.csi is not None:
        return Attachable(pv.spec.csi.driver, pv.spec.csi.volume_handle)
    if pv.spec.flex_volume is not None:
        return Attachable(pv.spec.flex_volume.driver, pv.name)
    return _migrated(migrated(pv.spec, pv.metadata.labels))


def attachable_inline(pod: Pod) -> set[Attachable]:
    """Returns the places of the disks that the pod names itself, without a claim."""
    found = (_migrated(migrated(volume)) for volume in pod.spec.volumes)
    return {place for place in found if place is not None}


def attachable_to_be(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> Attachable | None:
    """Returns the place of the volume that is yet to be made for a claim; None where its class is unknown."""
    if storage_class is None or storage_class.provisioner == NO_PROVISIONER:
        return None
    return Attachable(driver_of(storage_class.provisioner), claim.key)


def _migrated(source: Migrated | None) -> Attachable | None:
    return Attachable(source.driver, source.handle) if source is not None else None


def limit_of(driver: str, node: Node, csi_node: CSINode | None) -> int | None:
    """Returns how many volumes of the driver the node takes; None if it states no limit."""
    for each in csi_node.spec.drivers if csi_node is not None else ():
        if each.name == driver and each.allocatable is not None:
            return each.allocatable.count
    count = node.status.allocatable.get(limit_resource(driver))
    return int(parse_quantity(count)) if count is not None else None


def exceeds_limit(
    wanted: Set[Attachable], held: Callable[[], Set[Attachable]], node: Node, csi_node: CSINode | None
) -> bool:
    """Whether the node would exceed the limit of a driver with the volumes `wanted` beside those it has.
    `held` is called only if there is a limit."""
    limits = {each.driver: limit_of(each.driver, node, csi_node) for each in wanted}
    if all(limit is None for limit in limits.values()):
        return False
    there = held()
    return any(
        limit is not None
        and any(each.driver == driver for each in wanted - there)
        and sum(each.driver == driver for each in wanted | there) > limit
        for driver, limit in limits.items()
    )
