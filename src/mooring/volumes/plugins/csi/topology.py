"""Where a CSI volume may be: what is requested of a driver, and what its answer means for nodes. Pure.

A driver reports for each node its segments: the keys are in the CSINode, the values are the Node's labels.
Rules: the CSI community's provisioner ("topology support"). With a selected node, that node's segments come
first, also when the node has gone; without one, those of all nodes, in an order that differs from claim to
claim, so that volumes spread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.objects import (
    CSINode,
    LabelSelectorRequirement,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from mooring.volumes.errors import InvalidSpec, NodeUnsuited
from mooring.volumes.topology import topology_allowed

Segments = Mapping[str, str]


def segments_of(driver: str, node: Node, csi_node: CSINode | None) -> Segments | None:
    """Returns the node's segments; None if the driver has reported none there."""
    for each in csi_node.spec.drivers if csi_node is not None else ():
        if each.name == driver and each.topology_keys:
            labels = node.metadata.labels
            if all(key in labels for key in each.topology_keys):
                return {key: labels[key] for key in each.topology_keys}
    return None


def requirement(
    driver: str,
    nodes: Iterable[tuple[Node, CSINode | None]],
    *,
    selected: Node | None,
    allowed: Sequence[TopologySelectorTerm],
    claim_uid: str,
) -> csi.TopologyRequirement | None:
    """Returns what is requested; None if no node has segments. Raises InvalidSpec if no allowed place has a
    node, NodeUnsuited if the selected node is in no allowed place. `selected` may have gone, so that it is
    none of `nodes`: it counts if its labels say where it was."""
    nodes = list(nodes)
    there = {
        node.name: segments for node, its in nodes if (segments := segments_of(driver, node, its)) is not None
    }
    if selected is not None and selected.name not in {node.name for node, _ in nodes}:
        there |= (gone := _where_it_was(selected, driver, [its for _, its in nodes]))
        selected = selected if gone else None
    places = _spread(_allowed(there.values(), allowed), claim_uid)
    if selected is not None:
        here = _place_of(selected, there, places, driver)
        places = [here, *(each for each in places if each != here)]
    if not places and allowed:
        raise InvalidSpec("no node is where the class allows volumes: check allowedTopologies")
    topologies = [csi.Topology(segments=each) for each in places]
    return csi.TopologyRequirement(requisite=topologies, preferred=topologies) if places else None


def _place_of(
    selected: Node, there: Mapping[str, Segments], places: Sequence[Segments], driver: str
) -> Segments:
    """Where the selected node is, among the places that are allowed."""
    if selected.name not in there:
        raise NodeUnsuited(
            f"driver {driver} has not reported where node {selected.name} is: its CSINode lists no topology"
        )
    here = there[selected.name]
    if here not in places:
        raise NodeUnsuited(f"the class does not allow volumes where node {selected.name} is ({_text(here)})")
    return here


def _where_it_was(gone: Node, driver: str, others: Iterable[CSINode | None]) -> dict[str, Segments]:
    """The place of a node, by its labels. Its CSINode has gone with it: the keys are those of any other node,
    as a driver has the same ones everywhere."""
    places = (segments_of(driver, gone, its) for its in others)
    return next(({gone.name: each} for each in places if each is not None), dict[str, Segments]())


def _allowed(there: Iterable[Segments], allowed: Sequence[TopologySelectorTerm]) -> list[Segments]:
    found: list[Segments] = []
    for each in there:
        if each not in found and (not allowed or any(topology_allowed(term, each) for term in allowed)):
            found.append(each)
    return found


def _spread(found: list[Segments], claim_uid: str) -> list[Segments]:
    """Returns the segments in one fixed order, rotated by the claim's uid."""
    ordered = sorted(found, key=_text)
    if not ordered:
        return []
    first = int(hashlib.sha256(claim_uid.encode()).hexdigest(), 16) % len(ordered)
    return ordered[first:] + ordered[:first]


def _text(segments: Segments) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(segments.items()))


def node_affinity(accessible: Iterable[csi.Topology]) -> VolumeNodeAffinity | None:
    """Returns the nodes where a volume with this answer can be used; None: everywhere."""
    terms = tuple(_term(each.segments) for each in accessible if each.segments)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else None


def _term(segments: Segments) -> NodeSelectorTerm:
    expressions = (
        LabelSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in sorted(segments.items())
    )
    return NodeSelectorTerm(match_expressions=tuple(expressions))
