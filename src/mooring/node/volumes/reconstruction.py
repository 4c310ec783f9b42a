"""After a restart of the agent: what is recorded, and what is there without a record, as far as plugins know
it.

A plugin can often tell from disk which volume a directory shows (`construct_volume_spec`); then the pod's
mount and the device's are found to be one volume, and are let go of in the right order. What no plugin knows
is a volume of its own, and is taken down like any volume that no pod wants.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec
import structlog

from mooring.mounts.interface import Mount
from mooring.node.volumes.records import VolumeRecord, scan
from mooring.volumes.errors import NoPluginMatched, VolumeError
from mooring.volumes.names import volume_name_by_place
from mooring.volumes.plugin_manager import PluginManager

log = structlog.get_logger("node-agent")


async def reconstruct(
    root: Path, plugins: PluginManager, known: Iterable[VolumeRecord], table: Iterable[Mount]
) -> dict[str, VolumeRecord]:
    """All volumes of this node by unique name. Nothing is changed by it."""
    found = {record.unique_name: record for record in known}
    for record in scan(root, tuple(found.values()), tuple(table), partial(_volume_at, plugins)):
        named = await _named(record, plugins) if record.pods and not record.block else record
        found[named.unique_name] = _attachable(_joined(found.get(named.unique_name), named), plugins)
    return found


def _volume_at(plugins: PluginManager, plugin_name: str, mount_point: str) -> str | None:
    """The name of a volume whose plugin is gone: taken from its path, as plugins do unless they say
    otherwise."""
    try:
        plugin = plugins.find_device_mountable_plugin_by_name(plugin_name)
    except VolumeError:
        return volume_name_by_place(mount_point)
    return plugin.get_volume_name_at(mount_point) if plugin is not None else None


async def _named(record: VolumeRecord, plugins: PluginManager) -> VolumeRecord:
    """The record of a pod's directory under the name that its plugin gives to the volume."""
    ((pod_uid, pod),) = record.pods.items()
    try:
        plugin = plugins.find_plugin_by_name(record.plugin)
        spec = await plugin.construct_volume_spec(pod.spec_name, pod.path)
        return msgspec.structs.replace(record, unique_name=plugins.unique_volume_name(spec, pod_uid))
    except NoPluginMatched:
        return record  # said when it is to be taken down (`orphans`), or when its pod wants it
    except VolumeError as error:
        log.warning("a pod's volume is not known", path=pod.path, problem=str(error))
        return record


def _joined(known: VolumeRecord | None, found: VolumeRecord) -> VolumeRecord:
    if known is None:
        return found
    device = found.device or known.device
    has_device = known.has_device or device is not None
    return msgspec.structs.replace(known, device=device, has_device=has_device, pods=known.pods | found.pods)


def _attachable(record: VolumeRecord, plugins: PluginManager) -> VolumeRecord:
    """Whether its plugin attaches; a device whose plugin is gone counts as attached."""
    try:
        attaches = plugins.find_attachable_plugin_by_name(record.plugin) is not None
    except VolumeError:
        return record
    return msgspec.structs.replace(record, attachable=attaches and record.has_device)
