"""The initial content of a new volume: the data source of its claim, by the storage's own names.

A claim has it in `dataSource`, in `dataSourceRef`, or in both alike, as API servers store it (KEP-1495). A
source that cannot be used is an error, and never leads to an empty volume.
"""

from __future__ import annotations

from mooring.controllers.provisioning.decide import BEGUN
from mooring.controllers.provisioning.originals import Originals
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.snapshots import BEING_DELETED, GROUP, VolumeSnapshot, VolumeSnapshotContent
from mooring.volumes.claims import is_volume_of
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import ContentSource, ProvisionableVolumePlugin, SnapshottableVolumePlugin
from mooring.volumes.spec import VolumeSpec


async def content_of(
    client: Client,
    claim: PersistentVolumeClaim,
    claims: Informer[PersistentVolumeClaim],
    volumes: Informer[PersistentVolume],
    plugin: ProvisionableVolumePlugin,
    originals: Originals,
) -> ContentSource | None:
    """Returns the source; None for a claim without one. An original is held then. Raises InvalidSpec for a
    source that cannot be used (yet), and NotFound or Conflict if an original has gone meanwhile: it is tried
    again. Snapshots are read live and not watched, since a
    cluster need not have their kinds; and so is the volume of an original, whose PersistentVolume a user may
    have made anew for another disk.
    """
    source = claim.spec.data_source_ref or claim.spec.data_source
    if not source:
        return None
    if source.get("namespace") not in (None, "", claim.namespace):
        raise InvalidSpec(
            f"claim {claim.key} has a dataSourceRef to another namespace: copy within one namespace only"
        )
    group, kind, name = source.get("apiGroup") or "", source.get("kind"), str(source.get("name"))
    if not isinstance(plugin, SnapshottableVolumePlugin):
        raise InvalidSpec(
            f"claim {claim.key} has a data source, and plugin {plugin.get_plugin_name()} copies nothing"
        )
    if (group, kind) == ("", "PersistentVolumeClaim"):
        original = claims.get(f"{claim.namespace}/{name}")
        return await _clone(claim, original, name, volumes, plugin, originals)
    if (group, kind) == (GROUP, "VolumeSnapshot"):
        return await _snapshot(client, claim, name, plugin.get_plugin_name())
    raise InvalidSpec(
        f"claim {claim.key}: data source {kind} of group {group!r} is not known: name a VolumeSnapshot"
    )


async def _clone(
    claim: PersistentVolumeClaim,
    original: PersistentVolumeClaim | None,
    name: str,
    volumes: Informer[PersistentVolume],
    plugin: SnapshottableVolumePlugin,
    originals: Originals,
) -> ContentSource:
    pv = await volumes.read_live(original.spec.volume_name) if original is not None else None
    if original is None or pv is None or not is_volume_of(pv, original):
        raise InvalidSpec(
            f"claim {claim.key} is to be a copy of claim {name}, which is not there or not bound yet"
        )
    spec = VolumeSpec.of_persistent_volume(pv)
    if not plugin.can_support(spec):
        raise InvalidSpec(
            f"claim {claim.key} is to be a copy of claim {name}, whose volume is of another storage"
        )
    await originals.hold(original, claim)
    return ContentSource(volume=plugin.get_volume_name(spec))


async def _snapshot(client: Client, claim: PersistentVolumeClaim, name: str, driver: str) -> ContentSource:
    snapshot = await client.find(VolumeSnapshot, name, claim.namespace)
    bound = snapshot.status.bound_volume_snapshot_content_name if snapshot is not None else None
    if snapshot is None or not snapshot.status.ready_to_use or bound is None:
        raise InvalidSpec(f"VolumeSnapshot {claim.namespace}/{name} is not there or not ready to use yet")
    content = await client.find(VolumeSnapshotContent, bound)
    if content is None or content.status.snapshot_handle is None:
        raise InvalidSpec(
            f"VolumeSnapshotContent {bound} of VolumeSnapshot {snapshot.key} is gone or not ready"
        )
    reference = content.spec.volume_snapshot_ref
    if (reference.namespace, reference.name) != (snapshot.namespace, snapshot.name):
        raise InvalidSpec(f"VolumeSnapshotContent {bound} is not of VolumeSnapshot {snapshot.key}")
    if BEGUN not in claim.metadata.finalizers and _may_go(content):
        raise InvalidSpec(f"VolumeSnapshot {snapshot.key} is being deleted: name another one")
    if content.spec.driver != driver:
        raise InvalidSpec(
            f"VolumeSnapshot {snapshot.key} is of driver {content.spec.driver}, the class of {driver}"
        )
    return ContentSource(snapshot=content.status.snapshot_handle)


def _may_go(content: VolumeSnapshotContent) -> bool:
    """Whether nothing keeps the storage's snapshot until a claim has its copy: of one that goes meanwhile a
    driver could not even find again what it has made without an answer. Upstream's provisioner uses no
    VolumeSnapshot that is being deleted; one that waits for the claim itself would wait for ever then."""
    return content.deleting or BEING_DELETED in content.metadata.annotations
