"""Finds out which volume a VolumeAttachment is about that does not say so: upstream's controller made it.

Our VolumeAttachments carry the plugin and the volume name. Upstream's name a PersistentVolume, and their own
name is a hash of handle, driver and node. So when the PersistentVolume is gone, or was made anew for another
disk, the volume is found among the volumes of its Node's lists, or when a pod wants it (upstream's controller
skips such a VolumeAttachment for ever: docs/protocol.md, rule H4a). A VolumeAttachment whose volume cannot be
found counts as a volume of its own, which no pod can want. Left alone: VolumeAttachments with a volume in
their spec under another name than ours, and those of volumes that are not CSI's (in-tree volumes that
upstream translates).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.volumes.attachability import Attachability, csi_name, driver_of
from mooring.volumes.names import (
    ATTACHER,
    CSI_PLUGIN,
    attachable_volume_name,
    inline_csi_name,
    is_about,
    is_made_of_handle,
    volume_of,
)
from mooring.volumes.spec import VolumeSpec

UNKNOWN = "^?"
"""Part of the name that stands for an unknown volume: of it only the VolumeAttachment is known."""


def is_unknown(volume: str) -> bool:
    """Whether the name stands for a volume that could not be found out."""
    return UNKNOWN in volume


class Adoption:
    """Names the volume of every VolumeAttachment. `get_volume` is the cache of PersistentVolumes."""

    def __init__(
        self,
        attachability: Attachability,
        get_volume: Callable[[str], PersistentVolume | None],
        get_node: Callable[[str], Node | None],
    ) -> None:
        self._attachability = attachability
        self._get_volume = get_volume
        self._get_node = get_node
        self._named: dict[str, str] = {}  # of those that do not say it: VolumeAttachment's name -> volume
        self._of_volume: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._unknown: dict[str, VolumeAttachment] = {}

    def volume(self, record: VolumeAttachment, node: Node | None = None) -> str:
        """Returns the unique name of the VolumeAttachment's volume; "" if another controller looks after it.
        `node`: the Node, if it is newer than the cache."""
        own = volume_of(record)
        if own:
            return own if self._attachability.answers_for(own) else ""
        held = self._named.get(record.name, "")
        if held and not is_unknown(held):
            return held
        found = self._find(record, node)
        if node is None:
            self._note(record, found)
        return found

    def forget(self, record: VolumeAttachment) -> None:
        """The VolumeAttachment does not exist any more."""
        self._unknown.pop(record.name, None)
        self._move(record.name, "")

    def names(self, volume: str) -> list[str]:
        """Returns the names of the adopted VolumeAttachments of a volume. Those whose volume was unknown are
        compared with this one."""
        for record in list(self._unknown.values()):
            if driver_of(volume) == record.spec.attacher and is_about(record, volume):
                self._note(record, volume)
        return list(self._of_volume.get(volume, ()))

    def unknown_on(self, node: str) -> Iterator[VolumeAttachment]:
        """Returns the VolumeAttachments of the node whose volume is unknown."""
        return (record for record in list(self._unknown.values()) if record.spec.node_name == node)

    def _find(self, record: VolumeAttachment, node: Node | None) -> str:
        inline = inline_csi_name(record)
        if inline:
            ours = is_about(record, inline) and self._attachability.answers_for(inline)
            return inline if ours else ""  # one under another name is another controller's
        source, attacher = record.spec.source.persistent_volume_name, record.spec.attacher
        fallback = attachable_volume_name(CSI_PLUGIN, f"{attacher}{UNKNOWN}{record.name}")
        if not source or attacher == ATTACHER or not self._attachability.answers_for(fallback):
            return ""
        persistent_volume = self._get_volume(source)
        defined = defined_by(record, persistent_volume) if persistent_volume is not None else None
        if defined is not None:
            return defined
        node = node or self._get_node(record.spec.node_name)
        listed = _listed(node) if node is not None else ()
        return next(
            (name for name in listed if driver_of(name) == attacher and is_about(record, name)), fallback
        )

    def _note(self, record: VolumeAttachment, volume: str) -> None:
        if is_unknown(volume):
            self._unknown[record.name] = record
        else:
            self._unknown.pop(record.name, None)
        self._move(record.name, volume)

    def _move(self, name: str, volume: str) -> None:
        before = self._named.pop(name, "")
        if before:
            self._of_volume[before].pop(name, None)
            if not self._of_volume[before]:
                del self._of_volume[before]
        if volume:
            self._named[name] = volume
            self._of_volume[volume][name] = None


def defined_by(record: VolumeAttachment, persistent_volume: PersistentVolume) -> str | None:
    """Returns the volume of which the PersistentVolume says that the VolumeAttachment is; "" if another
    controller looks after it. None if it says nothing of it: it was made anew since, for another disk."""
    named = csi_name(VolumeSpec.of_persistent_volume(persistent_volume))
    if persistent_volume.spec.csi is not None and is_made_of_handle(record.name):
        return named if named and is_about(record, named) else None
    return named if named and driver_of(named) == record.spec.attacher else ""


def _listed(node: Node) -> list[str]:
    return [*node.status.volumes_in_use, *(entry.name for entry in node.status.volumes_attached)]
