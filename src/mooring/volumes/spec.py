"""A volume as plugins see it, whether it is defined in a pod or in a PersistentVolume."""

from __future__ import annotations

import msgspec

from mooring.kube.objects import PersistentVolume, PersistentVolumeSpec, Volume


class VolumeSpec(msgspec.Struct, frozen=True):
    """Exactly one of `volume` (written in the pod) and `persistent_volume` is set.

    `name` is the pod's name for an inline volume, else the PersistentVolume's. `read_only` is
    what the pod's claim asks for. Specs are equal by value; two inline volumes of different
    pods may be equal, their unique names are not.
    """

    name: str
    volume: Volume | None = None
    persistent_volume: PersistentVolume | None = None
    read_only: bool = False
    epoch: int = 0
    """The epoch of the lock under which this node was granted the volume, if it has a lock. Set by the node,
    after its live look."""

    def __hash__(self) -> int:
        return hash(self.name)

    @classmethod
    def of_volume(cls, volume: Volume) -> VolumeSpec:
        """The spec of a volume that a pod defines itself."""
        return cls(volume.name, volume=volume)

    @classmethod
    def of_persistent_volume(cls, persistent_volume: PersistentVolume, read_only: bool = False) -> VolumeSpec:
        """The spec of a PersistentVolume, mounted read-only if the claim's user wants it so."""
        return cls(persistent_volume.name, persistent_volume=persistent_volume, read_only=read_only)

    @property
    def definition(self) -> PersistentVolumeSpec | Volume | None:
        """What names the volume's source, by the same fields in a PersistentVolume and in a pod."""
        return self.persistent_volume.spec if self.persistent_volume is not None else self.volume

    @property
    def block(self) -> bool:
        """Whether the volume is used as a raw device (`volumeMode: Block`)."""
        return self.persistent_volume is not None and self.persistent_volume.spec.volume_mode == "Block"

    @property
    def mount_options(self) -> tuple[str, ...]:
        return self.persistent_volume.spec.mount_options if self.persistent_volume else ()
