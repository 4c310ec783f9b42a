"""Where a former in-tree volume is: zones by Kubernetes' labels there, by the driver's own topology key here.

Such a volume says its zones by its node affinity, else by its labels; zone and region each have an old name
(beta) and a present one, of which one pair is in use. Source of the rules: what csi-translation-lib answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from mooring.kube.objects import (
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    VolumeNodeAffinity,
)
from mooring.volumes.topology import SEVERAL


class Labels(NamedTuple):
    """The names of the labels of zone and region."""

    zone: str
    region: str


PRESENT = Labels("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BETA = Labels("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")

RegionOf = Callable[[list[str]], str]


def labels_in_use(pv: PersistentVolume) -> Labels:
    """Returns the pair that the volume's node affinity has, else that of its labels, else the present one."""
    keys = {each.key for term in _terms(pv) for each in term.match_expressions}
    for names in (keys, pv.metadata.labels):
        for labels in (PRESENT, BETA):
            if labels.zone in names:
                return labels
    return PRESENT


def zone_to_csi(pv: PersistentVolume, zone_key: str) -> PersistentVolume:
    """Returns the volume with its zones under the driver's key, and its regions under the present label."""
    labels = labels_in_use(pv)
    moved = _moved(pv, labels.zone, zone_key, pv.metadata.labels.get(labels.zone, "").split(SEVERAL))
    if labels is BETA and _values(moved, BETA.region):
        moved = _renamed(moved, BETA.region, PRESENT.region)
    return moved


def zone_and_region_to_csi(pv: PersistentVolume, zone_key: str, region_key: str) -> PersistentVolume:
    """Returns the volume with each under the driver's own key."""
    labels = labels_in_use(pv)
    moved = _moved(pv, labels.zone, zone_key, [pv.metadata.labels.get(labels.zone, "")])
    return _moved(moved, labels.region, region_key, [pv.metadata.labels.get(labels.region, "")])


def zone_to_in_tree(pv: PersistentVolume, zone_key: str, region_of: RegionOf | None) -> PersistentVolume:
    """Returns the volume with its zones, and their region where they tell it, under Kubernetes' labels: in
    its node affinity and among its labels. Raises what `region_of` raises."""
    labels = labels_in_use(pv)
    moved = _renamed(pv, zone_key, labels.zone)
    if region_of is not None and _terms(moved):
        moved = _with_regions(moved, region_of)
    zones = _values(moved, labels.zone)
    return _labelled(moved, labels.zone, SEVERAL.join(zones) if zones else None)


def zone_and_region_to_in_tree(pv: PersistentVolume, zone_key: str, region_key: str) -> PersistentVolume:
    """The same for a driver that has a key for each."""
    labels = labels_in_use(pv)
    moved = _renamed(_renamed(pv, zone_key, labels.zone), region_key, labels.region)
    for label in labels:
        moved = _labelled(moved, label, next(iter(_values(moved, label)), None))
    return moved


def _moved(pv: PersistentVolume, label: str, key: str, labelled: Iterable[str]) -> PersistentVolume:
    """What the node affinity says is renamed; if it says nothing, what the labels say is added to it."""
    if _values(pv, label):
        return _renamed(pv, label, key)
    found = sorted({value.strip() for value in labelled} - {""})
    if not found:
        return pv
    added = LabelSelectorRequirement(key=key, operator="In", values=tuple(found))
    terms = _terms(pv) or (NodeSelectorTerm(),)
    return _with_terms(
        pv, (replace(term, match_expressions=(*term.match_expressions, added)) for term in terms)
    )


def _with_regions(pv: PersistentVolume, region_of: RegionOf) -> PersistentVolume:
    labels = labels_in_use(pv)
    moved = _with_terms(pv, [_with_region(term, labels, region_of) for term in _terms(pv)])
    regions = _values(moved, labels.region)
    return _labelled(moved, labels.region, regions[0] if len(regions) == 1 else None)


def _with_region(term: NodeSelectorTerm, labels: Labels, region_of: RegionOf) -> NodeSelectorTerm:
    if any(each.key == labels.region for each in term.match_expressions):
        return term
    zones = [value for each in term.match_expressions if each.key == labels.zone for value in each.values]
    added = LabelSelectorRequirement(key=labels.region, operator="In", values=(region_of(zones),))
    return replace(term, match_expressions=(*term.match_expressions, added))


def _terms(pv: PersistentVolume) -> tuple[NodeSelectorTerm, ...]:
    affinity = pv.spec.node_affinity
    return affinity.required.node_selector_terms if affinity and affinity.required else ()


def _values(pv: PersistentVolume, key: str) -> list[str]:
    """All values under the key, each once, in order."""
    expressions: Iterator[LabelSelectorRequirement] = (
        each for term in _terms(pv) for each in term.match_expressions if each.key == key
    )
    return sorted({value for each in expressions for value in each.values})


def _renamed(pv: PersistentVolume, old: str, new: str) -> PersistentVolume:
    def renamed(each: LabelSelectorRequirement) -> LabelSelectorRequirement:
        return replace(each, key=new) if each.key == old else each

    return _with_terms(
        pv,
        [replace(term, match_expressions=tuple(map(renamed, term.match_expressions))) for term in _terms(pv)],
    )


def _with_terms(pv: PersistentVolume, terms: Iterable[NodeSelectorTerm]) -> PersistentVolume:
    found = tuple(terms)
    if found == _terms(pv):
        return pv
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=found))
    return replace(pv, spec=replace(pv.spec, node_affinity=affinity))


def _labelled(pv: PersistentVolume, label: str, value: str | None) -> PersistentVolume:
    """A label that is there stays."""
    if value is None or label in pv.metadata.labels:
        return pv
    labels = {**pv.metadata.labels, label: value}
    return replace(pv, metadata=replace(pv.metadata, labels=labels))
