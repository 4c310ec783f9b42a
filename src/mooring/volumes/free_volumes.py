"""An index of the volumes that claims could get: finding one for a claim does not look at all of them.

Volumes are kept by class, volume mode and access modes, and each such group by size: of 10 000 free volumes,
a claim looks at the one that it gets. Rules: upstream's binder (kube-controller-manager,
`persistentvolume/index.go`): a volume that is reserved for the claim first; then those with the fewest access
modes; among these the smallest that is large enough.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim
from mooring.volumes.matching import capacity, mismatch, requested, reserved_for, selected
from mooring.volumes.topology import fits


class _Group(NamedTuple):
    storage_class: str
    volume_mode: str
    access_modes: frozenset[str]


class FreeVolumes:
    """The index. `update` is called with every change of a PersistentVolume, as an informer's handler."""

    def __init__(self, volumes: Iterable[PersistentVolume] = ()) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._by_size: dict[_Group, list[tuple[int, str]]] = {}
        self._by_claim: defaultdict[str, set[str]] = defaultdict(set)
        for pv in volumes:
            self.update(None, pv)

    def update(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """Replaces `old` with `new`; either may be None."""
        if old is not None:
            self._remove(old.name)
        if new is not None:
            self._add(new)

    def find(
        self, claim: PersistentVolumeClaim, node: Node | None = None, taken: Container[str] = ()
    ) -> PersistentVolume | None:
        """Returns the volume that the claim gets, or None. With a node: only one that can be used there.
        Volumes whose names are in `taken` are passed over."""
        reserved = self.reserved(claim)
        if reserved is not None and reserved.name not in taken:
            return reserved if node is None or fits(reserved, node) else None
        candidates = (pv for pv in self._in_order(claim) if pv.name not in taken)
        return next((pv for pv in candidates if node is None or fits(pv, node)), None)

    def reserved(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Returns the volume whose claimRef names the claim, if it can serve the claim. It may be of another
        class: its creator has chosen."""
        named = (self._volumes[name] for name in sorted(self._by_claim.get(claim.key, ())))
        fitting = (
            pv for pv in named if reserved_for(pv, claim) and mismatch(pv, claim, reserved=True) is None
        )
        return next(fitting, None)

    def _in_order(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        wanted = frozenset(claim.spec.access_modes)
        storage_class, volume_mode = claim.spec.storage_class_name or "", claim.spec.volume_mode
        fitting = [
            group
            for group in self._by_size
            if group.storage_class == storage_class
            and group.volume_mode == volume_mode
            and wanted <= group.access_modes
        ]
        least = requested(claim)
        for _, _, name in heapq.merge(*(self._from(group, least) for group in fitting)):
            pv = self._volumes[name]
            if selected(pv, claim.spec.selector) and mismatch(pv, claim) is None:
                yield pv

    def _from(self, group: _Group, least: int) -> Iterator[tuple[int, int, str]]:
        sizes = self._by_size[group]
        for index in range(bisect_left(sizes, (least, "")), len(sizes)):
            yield len(group.access_modes), *sizes[index]

    def _add(self, pv: PersistentVolume) -> None:
        self._volumes[pv.name] = pv
        reference = pv.spec.claim_ref
        if reference is not None:
            self._by_claim[f"{reference.namespace}/{reference.name}"].add(pv.name)
        elif _is_free(pv):
            insort(self._by_size.setdefault(_group(pv), []), (capacity(pv), pv.name))

    def _remove(self, name: str) -> None:
        pv = self._volumes.pop(name, None)
        if pv is None:
            return
        reference = pv.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            self._by_claim[key].discard(name)
            if not self._by_claim[key]:
                del self._by_claim[key]
        elif _is_free(pv):
            sizes = self._by_size[_group(pv)]
            del sizes[bisect_left(sizes, (capacity(pv), name))]
            if not sizes:
                del self._by_size[_group(pv)]


def _group(pv: PersistentVolume) -> _Group:
    return _Group(pv.spec.storage_class_name, pv.spec.volume_mode, frozenset(pv.spec.access_modes))


def _is_free(pv: PersistentVolume) -> bool:
    return pv.spec.claim_ref is None and pv.status.phase == "Available" and not pv.deleting
