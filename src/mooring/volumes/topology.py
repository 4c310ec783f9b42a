"""Where a volume, or a pod, can be: node selectors of PersistentVolumes and pods against nodes.

Pure. Semantics of `NodeSelector` in the Kubernetes API: terms are alternatives, the
requirements within one all hold, an empty term matches nothing, and a requirement that cannot
be understood makes its term match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.kube.objects import (
    LabelSelectorRequirement,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    Pod,
    TopologySelectorTerm,
)

SEVERAL = "__"
"""Between the zones of a volume that is in several."""
_BETA = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
"""The labels of places, and what they were called before."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


def fits(pv: PersistentVolume, node: Node) -> bool:
    """Whether the volume can be used on the node. A volume without node affinity can be used everywhere."""
    affinity = pv.spec.node_affinity
    return affinity is None or affinity.required is None or selector_matches(affinity.required, node)


def in_its_zone(pv: PersistentVolume, node: Node) -> bool:
    """Whether the node is in the zone and region that the volume's labels say. A label may name several,
    joined by `__`; a node without any such label is nowhere in particular. Upstream's VolumeZone: for volumes
    of former in-tree plugins, which have no node affinity."""
    here = _places(node.metadata.labels)
    return not here or all(
        here.get(key) in value.split(SEVERAL) for key, value in _places(pv.metadata.labels).items()
    )


def _places(labels: Mapping[str, str]) -> dict[str, str]:
    """Zone and region, by the present names of their labels."""
    named = {key: labels[old] for key, old in _BETA.items() if old in labels}
    return named | {key: labels[key] for key in _BETA if key in labels}


def wanted_on(pod: Pod, node: Node) -> bool:
    """Whether the pod's nodeSelector and required node affinity have the node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity: Mapping[str, Any] = (pod.spec.affinity.node_affinity if pod.spec.affinity else None) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selector_matches(msgspec.convert(required, NodeSelector), node)


def selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the selector's terms matches."""
    return any(term_matches(term, node) for term in selector.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all requirements of the term hold; of fields, only `metadata.name` exists."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(requirement_holds(each, node.metadata.labels) for each in term.match_expressions) and all(
        each.key in fields and each.operator in ("In", "NotIn") and requirement_holds(each, fields)
        for each in term.match_fields
    )


def topology_allowed(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    """Whether a place with these labels is one that the term (of a StorageClass) allows."""
    return all(
        labels.get(each.get("key", "")) in each.get("values", ()) for each in term.match_label_expressions
    )


def requirement_holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """In, NotIn (also true for a missing label), Exists, DoesNotExist, Gt and Lt (whole
    numbers of 64 bits)."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return bool(requirement.values) and value not in requirement.values
        case "Exists":
            return not requirement.values and value is not None
        case "DoesNotExist":
            return not requirement.values and value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    bounds = [_integer(bound) for bound in requirement.values]
    number = _integer(value)
    if number is None or len(bounds) != 1 or bounds[0] is None:
        return False
    return number > bounds[0] if requirement.operator == "Gt" else number < bounds[0]


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text) if len(text) <= 20 else 2**63
    return number if number in _INT64 else None
