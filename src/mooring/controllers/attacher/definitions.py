"""What a VolumeAttachment is about: its plugin or CSI driver, its volume, and what a detach needs.

The PersistentVolumes of CSI volumes come from a cache: there may be thousands, and the name of the
VolumeAttachment (a hash of driver, handle and node) tells whether the cached one is meant. A PersistentVolume
that was deleted and created again under the same name for another disk has another VolumeAttachment, and does
not define the former's volume.
Everything else is read live, and so is each PersistentVolume with a lock.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import PersistentVolume, PersistentVolumeSpec, Volume, VolumeAttachment
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin, Detacher
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    CSI_PLUGIN,
    INLINE_VOLUME,
    PLUGIN,
    VOLUME_NAME,
    csi_volume_name,
    is_made_of_handle,
    volume_attachment_name,
)
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

UNDEFINED = VolumeSpec.of_persistent_volume(PersistentVolume())
UNDEFINED_VALIDITY_S = 600.0
"""Seconds for which requests count as outstanding where nothing defines the volume any more."""
DEFINED_AGAIN_S = 30.0
"""So often it is looked whether something defines it again, and says that it is a shorter time."""


def plugin_name(record: VolumeAttachment) -> str:
    """The name of the plugin or CSI driver that carries the VolumeAttachment out."""
    by_plugin = record.spec.attacher == ATTACHER
    return record.metadata.annotations.get(PLUGIN, "") if by_plugin else record.spec.attacher


class Definitions:
    """Looks up what VolumeAttachments are about. `cache`: None where no CSI driver is served."""

    def __init__(
        self, client: Client, plugins: PluginManager, cache: Informer[PersistentVolume] | None
    ) -> None:
        self._client = client
        self._plugins = plugins
        self._cache = cache

    def plugin(self, record: VolumeAttachment) -> AttachableVolumePlugin:
        """Raises VolumeError if no plugin of that name attaches volumes."""
        name = plugin_name(record)
        plugin = self._plugins.find_attachable_plugin_by_name(name)
        if plugin is None:
            raise VolumeError(f"plugin {name} cannot attach volumes")
        return plugin

    async def spec(self, record: VolumeAttachment, *, live: bool = False) -> VolumeSpec:
        """Returns the volume's spec; with `live`, as the API server has it now. Raises VolumeError if the
        volume is not defined any more: its PersistentVolume is gone, or is another disk's by now."""
        if (inline := _inline(record)) is not None:
            return inline
        name = record.spec.source.persistent_volume_name or ""
        cached = self._cache.get(name) if self._cache is not None and not live else None
        if cached is not None and _is_of(record, cached):
            return VolumeSpec.of_persistent_volume(cached)
        found = await self._client.find(PersistentVolume, name)
        if found is None:
            raise VolumeError(f"PersistentVolume {name} does not exist (any more)")
        spec = VolumeSpec.of_persistent_volume(found)
        if self._is_another(record, spec):
            raise VolumeError(
                f"PersistentVolume {name} was made anew for another disk than VolumeAttachment {record.name} is about"
            )
        return spec

    def _is_another(self, record: VolumeAttachment, spec: VolumeSpec) -> bool:
        """Whether the PersistentVolume is of another disk than the VolumeAttachment was made for: by what is
        stored on that, or by its name where that is made of the disk's. Of others nothing tells."""
        noted = record.metadata.annotations.get(VOLUME_NAME)
        if noted is not None:
            return noted != self._name(record, spec)
        if not is_made_of_handle(record.name):
            return False
        return record.name != volume_attachment_name(
            CSI_PLUGIN, self._name(record, spec), record.spec.node_name
        )

    def _name(self, record: VolumeAttachment, spec: VolumeSpec) -> str:
        """The volume's name, as it is stored on VolumeAttachments. Raises VolumeError."""
        plugin = self.plugin(record)
        name = plugin.get_volume_name(spec)
        return name if record.spec.attacher == ATTACHER else csi_volume_name(plugin.get_plugin_name(), name)

    async def validity_s(self, record: VolumeAttachment) -> float:
        """How long a request about the volume may be outstanding, in seconds. To a CSI driver all may be so
        for as long, also where nothing defines the volume any more. To what storage another one goes nothing
        says then: so one counts for as long as any."""
        try:
            of_driver = record.spec.attacher != ATTACHER
            spec = UNDEFINED if of_driver else await self.spec(record)
            return self.plugin(record).capabilities(spec).request_validity_s
        except VolumeError:
            return UNDEFINED_VALIDITY_S

    async def notes(self, record: VolumeAttachment) -> Mapping[str, str]:
        """Returns the annotations that a detach will need. Those of plugin volumes the attach/detach
        controller has set."""
        if record.spec.attacher == ATTACHER:
            return {}
        return await self.plugin(record).attach_notes(await self.spec(record), record.spec.node_name)

    async def detacher(self, record: VolumeAttachment) -> tuple[str, Detacher]:
        """Returns the volume's name, and its detacher. The annotations that were stored before the attach are
        enough when the PersistentVolume is gone. Raises VolumeError if there is neither."""
        plugin, notes = self.plugin(record), record.metadata.annotations
        if ATTACH_REQUESTED_AT in notes and VOLUME_NAME in notes:
            return notes[VOLUME_NAME], plugin.detacher_of(notes, None)
        try:
            spec = await self.spec(record)
        except VolumeError:
            if VOLUME_NAME not in notes:
                raise
            return notes[VOLUME_NAME], plugin.detacher_of(notes, None)
        return notes.get(VOLUME_NAME) or self._name(record, spec), plugin.detacher_of(notes, spec)


def _is_of(record: VolumeAttachment, cached: PersistentVolume) -> bool:
    """Whether the cached PersistentVolume is that of the VolumeAttachment, and has no lock."""
    source = cached.spec.csi
    if (
        source is None
        or ATTACH_EPOCH in record.metadata.annotations
        or ATTACHED_TO in cached.metadata.annotations
    ):
        return False
    name = csi_volume_name(source.driver, source.volume_handle)
    return record.name == volume_attachment_name(CSI_PLUGIN, name, record.spec.node_name)


def _inline(record: VolumeAttachment) -> VolumeSpec | None:
    """The definition of a pod's own volume, which the VolumeAttachment carries; None if it names a
    PersistentVolume. Raises InvalidSpec if it cannot be read."""
    own, upstreams = record.metadata.annotations.get(INLINE_VOLUME), record.spec.source.inline_volume_spec
    try:
        if own:
            return VolumeSpec.of_volume(msgspec.json.decode(own, type=Volume))
        if upstreams is not None:
            spec = msgspec.convert(upstreams, PersistentVolumeSpec)
            return VolumeSpec.of_persistent_volume(PersistentVolume(spec=spec))
    except msgspec.MsgspecError as error:
        raise InvalidSpec(
            f"the volume that VolumeAttachment {record.name} defines itself cannot be read ({error}): delete it when "
            "no pod uses it any more"
        ) from None
    return None
