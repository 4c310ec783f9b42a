"""What one kind of former in-tree volume has to say for its translation: the seam between `kinds` and
`translation`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from mooring.kube.objects import CSIPersistentVolumeSource, ObjectMeta, PersistentVolume
from mooring.volumes.errors import InvalidSpec

Source = TypeVar("Source")


class InTreeKind(ABC, Generic[Source]):
    """One kind. `field` has its source in a PersistentVolume and in a pod's volume. `zone_key`, `region_key`:
    the driver's topology keys, where the translation of a volume moves its place; `class_zone_key`: that of a
    StorageClass."""

    field: ClassVar[str]
    driver: ClassVar[str]
    provisioner: ClassVar[str]
    zone_key: ClassVar[str] = ""
    region_key: ClassVar[str] = ""
    class_zone_key: ClassVar[str] = ""
    zones_tell_region: ClassVar[bool] = False
    zone_parameters: ClassVar[bool] = False
    """Whether a StorageClass may name zones in its parameters."""
    attached: ClassVar[bool] = True

    def source_of(self, holder: Any) -> Source | None:
        """The kind's source in a PersistentVolumeSpec or a Volume; None where it is of another kind."""
        return getattr(holder, self.field)

    @abstractmethod
    def handle(self, source: Source, labels: Mapping[str, str]) -> str:
        """Returns the driver's name of the volume, for a volume with these labels. Raises InvalidSpec."""

    @abstractmethod
    def csi(self, source: Source, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        """Returns the CSI source of a PersistentVolume. Raises InvalidSpec."""

    def inline_csi(self, source: Source, volume_name: str, namespace: str) -> CSIPersistentVolumeSource:
        """Returns the CSI source of a volume that a pod in `namespace` defines itself. Raises InvalidSpec."""
        return self.csi(source, PersistentVolume(metadata=ObjectMeta(name=volume_name)))

    def inline_name(self, source: Source, handle: str) -> str:
        """Returns the name that stands for such a volume: one for each disk."""
        return f"{self.driver}-{handle}"

    def inline_access_mode(self, source: Source) -> str:
        return "ReadWriteOnce"

    def access_modes(self, modes: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the access modes that the driver is asked for."""
        return modes

    @abstractmethod
    def in_tree(self, source: CSIPersistentVolumeSource) -> Source:
        """Returns the old source of a CSI source. Raises InvalidSpec."""

    def annotations(self, source: CSIPersistentVolumeSource) -> Mapping[str, str]:
        """Returns what the old kind keeps in annotations of its PersistentVolume."""
        return {}

    def region_of(self, zones: list[str]) -> str:
        """Returns the region of these zones, where they tell it. Raises InvalidSpec."""
        raise NotImplementedError(f"the zones of {self.driver} do not tell a region")

    def class_parameters(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Returns the driver's parameters for those of a StorageClass."""
        return dict(parameters)


def partition(text: str) -> int:
    """Returns the number of a partition in a volume's attributes. Raises InvalidSpec."""
    if not text.lstrip("+-").isascii() or not text.lstrip("+-").isdigit() or len(text) > 11:
        raise InvalidSpec(f"attribute partition {text[:20]!r} of a volume is not a number")
    return int(text)


def one_region(zones: list[str], regions: list[str]) -> str:
    """Raises InvalidSpec unless all are the same one."""
    if len(set(regions)) != 1:
        raise InvalidSpec(f"zones {', '.join(zones) or '(none)'} are not in one region")
    return regions[0]
