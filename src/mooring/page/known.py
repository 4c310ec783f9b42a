"""The snapshot that `mooring why` explains upon, with the page's indices in the place of searches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mooring.kube.objects import PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.page.indices import Index
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.names import is_about
from mooring.why.snapshot import Snapshot


class Indices(Protocol):
    """Who belongs to whom, kept current with each change (`World`)."""

    free: FreeVolumes
    pods_by_claim: Index

    def may_use(self, unique: str) -> Iterable[str]: ...
    def may_be_about(self, unique: str) -> Iterable[str]: ...
    def records_on(self, node: str) -> list[VolumeAttachment]: ...
    def bound_to(self, node: str) -> list[Pod]: ...


class Known(Snapshot):
    """The snapshot, with the world's indices in the place of searches."""

    world: Indices

    @property
    def free(self) -> FreeVolumes:  # type: ignore[override]
        """Kept current with each change."""
        return self.world.free

    def users(self, volume: str) -> Iterator[Pod]:
        for key in self.world.may_use(volume):
            if volume in self._unique_names(pod := self.pods[key]):
                yield pod

    def attachments_of(self, volume: str) -> list[VolumeAttachment]:
        held = (self.attachments[key] for key in self.world.may_be_about(volume))
        return [each for each in held if is_about(each, volume)]

    def held_by(self, node: str) -> tuple[list[VolumeAttachment], list[Pod]]:
        return self.world.records_on(node), self.world.bound_to(node)

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.world.bound_to(node) if not pod.finished]

    def users_of_claim(self, claim: PersistentVolumeClaim) -> list[Pod]:
        pods = (self.pods[key] for key in sorted(self.world.pods_by_claim.of(claim.key)))
        return [pod for pod in pods if not pod.finished]
