"""An index of the volumes that claims could get: finding one for a claim does not look at all of them.

Volumes are kept by class, volume mode, attributes class and access modes, and each such shelf by size, as a
whole and for each label: of 50 000 free volumes, a claim looks at the one that it gets. (With a selector, at
those that have the rarest of the labels that it asks for; one that only excludes labels, at those before the
first match. With a node, at those before the first that can be used there.) Rules: upstream's binder
(kube-controller-manager, `persistentvolume/index.go`): a volume that is reserved for the claim first; then
those with the fewest access modes; among these the smallest that is large enough.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from mooring.kube.objects import LabelSelector, Node, PersistentVolume, PersistentVolumeClaim
from mooring.volumes.matching import capacity, mismatch, requested, reserved_for, selected
from mooring.volumes.topology import fits


class _Sort(NamedTuple):
    """What a volume and its claim have in common."""

    storage_class: str
    volume_mode: str
    attributes_class: str


_Size = tuple[int, str]
"""Bytes, and the name: the order in which volumes are given away."""
_Label = tuple[str, str | None]
"""A key with a value, or (None) with any."""


class _Place(NamedTuple):
    """Where a free volume is kept."""

    sort: _Sort
    access_modes: frozenset[str]
    size: _Size
    labels: tuple[_Label, ...]


class _Shelf:
    """Free volumes of one sort and the same access modes, by size; and those of each label."""

    def __init__(self) -> None:
        self.all: list[_Size] = []
        self._labelled: dict[_Label, list[_Size]] = {}

    def put(self, size: _Size, labels: Iterable[_Label]) -> None:
        insort(self.all, size)
        for label in labels:
            insort(self._labelled.setdefault(label, []), size)

    def remove(self, size: _Size, labels: Iterable[_Label]) -> None:
        del self.all[bisect_left(self.all, size)]
        for label in labels:
            sizes = self._labelled[label]
            del sizes[bisect_left(sizes, size)]
            if not sizes:
                del self._labelled[label]

    def candidates(self, selector: LabelSelector | None) -> list[list[_Size]]:
        """Lists that together have all that the selector could match: the fewest."""
        choices = [[self.all]]
        for labels in _asked_for(selector) if selector is not None else ():
            choices.append([self._labelled[label] for label in labels if label in self._labelled])
        return min(choices, key=lambda lists: sum(map(len, lists)))


def _asked_for(selector: LabelSelector) -> Iterator[dict[_Label, None]]:
    """Of each requirement that names labels: those of which a volume must have one."""
    for label in selector.match_labels.items():
        yield {label: None}
    for each in selector.match_expressions:
        if each.operator == "In":
            yield dict.fromkeys((each.key, value) for value in each.values)
        elif each.operator == "Exists":
            yield {(each.key, None): None}


class FreeVolumes:
    """The index. `update` is called with every change of a PersistentVolume, as an informer's handler."""

    def __init__(self, volumes: Iterable[PersistentVolume] = ()) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._shelves: dict[_Sort, dict[frozenset[str], _Shelf]] = {}
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
        selector, least = claim.spec.selector, requested(claim)
        found = (
            _from(least, len(access_modes), sizes)
            for access_modes, shelf in self._shelves.get(_asked_sort(claim), {}).items()
            if access_modes.issuperset(claim.spec.access_modes)
            for sizes in shelf.candidates(selector)
        )
        for _, (_, name) in heapq.merge(*found):
            pv = self._volumes[name]
            if selected(pv, selector) and mismatch(pv, claim) is None:
                yield pv

    def _add(self, pv: PersistentVolume) -> None:
        self._volumes[pv.name] = pv
        reference = pv.spec.claim_ref
        if reference is not None:
            self._by_claim[f"{reference.namespace}/{reference.name}"].add(pv.name)
        elif is_free(pv):
            self._put(_place(pv))

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
        elif is_free(pv):
            self._clear(_place(pv))

    def _put(self, place: _Place) -> None:
        shelves = self._shelves.setdefault(place.sort, {})
        if place.access_modes not in shelves:
            shelves[place.access_modes] = _Shelf()
        shelves[place.access_modes].put(place.size, place.labels)

    def _clear(self, place: _Place) -> None:
        shelves = self._shelves[place.sort]
        shelf = shelves[place.access_modes]
        shelf.remove(place.size, place.labels)
        if not shelf.all:
            del shelves[place.access_modes]
        if not shelves:
            del self._shelves[place.sort]


def is_free(pv: PersistentVolume) -> bool:
    """Whether a claim that does not know of it could get it."""
    return pv.spec.claim_ref is None and pv.status.phase == "Available" and not pv.deleting


def _from(least: int, modes: int, sizes: list[_Size]) -> Iterator[tuple[int, _Size]]:
    for index in range(bisect_left(sizes, (least, "")), len(sizes)):
        yield modes, sizes[index]


def _asked_sort(claim: PersistentVolumeClaim) -> _Sort:
    spec = claim.spec
    return _Sort(spec.storage_class_name or "", spec.volume_mode, spec.volume_attributes_class_name or "")


def _place(pv: PersistentVolume) -> _Place:
    spec, labels = pv.spec, pv.metadata.labels
    sort = _Sort(spec.storage_class_name, spec.volume_mode, spec.volume_attributes_class_name or "")
    size = capacity(pv), pv.name
    return _Place(
        sort, frozenset(spec.access_modes), size, (*labels.items(), *((key, None) for key in labels))
    )
