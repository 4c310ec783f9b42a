"""Who belongs to whom, kept with each change; and what pods and VolumeAttachments are indexed by. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import Pod, VolumeAttachment
from mooring.volumes.names import inline_csi_name
from mooring.volumes.names import volume_of as own_name


class Index:
    """Sets of keys under a value; an empty set takes no place."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def of(self, value: str) -> Iterable[str]:
        """The keys under a value, in the order in which they came."""
        return tuple(self._keys.get(value, ()))

    def move(self, key: str, old: Iterable[str], new: Iterable[str]) -> None:
        """Takes the key from the old values and puts it under the new ones."""
        for value in old:
            held = self._keys.get(value)
            if held is not None:
                held.pop(key, None)
                if not held:
                    del self._keys[value]
        for value in new:
            self._keys.setdefault(value, {})[key] = None


def node_of(pod: Pod | None) -> list[str]:
    """The node that the pod is bound to, if it is."""
    return [pod.spec.node_name] if pod is not None and pod.spec.node_name else []


def unique_names(record: VolumeAttachment | None) -> list[str]:
    """The unique name that the record itself has, if it has one."""
    found = (own_name(record) or inline_csi_name(record)) if record is not None else ""
    return [found] if found else []


def volumes_of(record: VolumeAttachment | None) -> list[str]:
    """The PersistentVolume that the record names, if it names one."""
    found = record.spec.source.persistent_volume_name if record is not None else None
    return [found] if found else []
