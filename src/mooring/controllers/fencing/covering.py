"""Which volumes of a node a mechanism of scope Storage or Network shuts it out of.

A volume counts only if its plugin knows every way to it, and the mechanism covers each. Read live, before the
order is given: what is attached to the node later is not among them.
"""

from __future__ import annotations

from mooring.controllers.fencing.ordering import Given
from mooring.controllers.fencing.releasing import records_of
from mooring.fence.interface import StorageMechanism, Volume
from mooring.kube.client import Client
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.kube.objects.fencing import FenceTarget
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import VOLUME_NAME
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec


async def covered(
    client: Client, plugins: PluginManager, given: Given, target: FenceTarget
) -> dict[str, str]:
    """VolumeAttachment to PersistentVolume, of the node's volumes that the order would shut it out of."""
    if not isinstance(given.mechanism, StorageMechanism):
        return {}
    found: dict[str, str] = {}
    for record in await records_of(client, target):
        name = record.spec.source.persistent_volume_name
        held = await client.find(PersistentVolume, name) if name else None
        if held is not None and _covers(given.mechanism, given, plugins, record, held):
            found[record.name] = held.name
    return found


def _covers(
    mechanism: StorageMechanism,
    given: Given,
    plugins: PluginManager,
    record: VolumeAttachment,
    held: PersistentVolume,
) -> bool:
    spec = VolumeSpec.of_persistent_volume(held)
    try:
        plugin = plugins.find_attachable_plugin_by_spec(spec)
        if plugin is None or record.metadata.annotations.get(VOLUME_NAME) != plugin.get_volume_name(spec):
            return False
        ways = plugin.served(spec)
    except VolumeError:
        return False
    return bool(ways) and all(mechanism.covers(given.order, Volume(way.name, way.server)) for way in ways)
