"""Where the pods of a DaemonSet belong, and the pod for one node. Pure.

A pod is made for a node: its node affinity names that node, so that the scheduler can place it nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.kube.objects import DaemonSet, Node, Pod, PodSpec
from mooring.kube.owners import owner_reference
from mooring.kube.revisions import REVISION
from mooring.kube.taints import untolerated
from mooring.volumes.topology import wanted_on

GENERATION = "pod-template-generation"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED: Sequence[tuple[str, str]] = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
"""Taints `node.kubernetes.io/...` that no pod of a DaemonSet minds."""


class Placement(NamedTuple):
    """Whether a node should get a pod of the set, and whether one that is there may stay."""

    runs: bool
    stays: bool


def placements(daemon_set: DaemonSet, nodes: Iterable[Node]) -> dict[str, Placement]:
    """For each node whether it is one of the set's."""
    pod = Pod(spec=_spec(daemon_set))
    return {node.name: _placement(pod, node) for node in nodes}


def _placement(pod: Pod, node: Node) -> Placement:
    """A taint NoSchedule keeps new pods away, NoExecute also those that are there."""
    named = pod.spec.node_name
    if named not in ("", node.name) or not wanted_on(pod, node):
        return Placement(False, False)
    runs = untolerated(pod, node.spec.taints, "NoSchedule", "NoExecute") is None
    return Placement(runs, untolerated(pod, node.spec.taints, "NoExecute") is None)


def node_of(pod: Pod) -> str:
    """The node that the pod is on, or was made for; "" if it says none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity: Mapping[str, Any] = (pod.spec.affinity.node_affinity if pod.spec.affinity else None) or {}
    required: Mapping[str, Any] = affinity.get(_REQUIRED) or {}
    terms: Sequence[Mapping[str, Any]] = required.get("nodeSelectorTerms") or ()
    fields: list[Mapping[str, Any]] = [field for term in terms for field in term.get("matchFields") or ()]
    names = (field["values"][0] for field in fields if field.get("key") == "metadata.name")
    return next(map(str, names), "")


def by_node(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """The pods of each node, those that are placed and the oldest first."""
    found: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name)):
        found.setdefault(node_of(pod), []).append(pod)
    return found


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    named = [*_TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    added = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in named
    ]
    own: list[dict[str, Any]] = spec.get("tolerations") or []
    return [*(each for each in own if each not in added), *added]


def _spec(daemon_set: DaemonSet) -> PodSpec:
    spec: dict[str, Any] = daemon_set.spec.template.get("spec") or {}
    return msgspec.convert({**spec, "tolerations": _tolerations(spec)}, PodSpec)


def pod_body(daemon_set: DaemonSet, node: str, revision: str) -> dict[str, Any]:
    """Returns the pod for one node, made from the present template."""
    template = copy.deepcopy(daemon_set.spec.template)
    metadata: dict[str, Any] = template.get("metadata") or {}
    spec: dict[str, Any] = template.get("spec") or {}
    labels: dict[str, str] = {**(metadata.get("labels") or {}), REVISION: revision}
    if generation := daemon_set.metadata.annotations.get(_TEMPLATE_GENERATION):
        labels[GENERATION] = generation
    affinity: dict[str, Any] = {**(spec.get("affinity") or {})}
    affinity["nodeAffinity"] = _only_on(affinity.get("nodeAffinity") or {}, node)
    return {
        "metadata": {
            "generateName": f"{daemon_set.name}-",
            "labels": labels,
            "annotations": metadata.get("annotations") or {},
            "finalizers": metadata.get("finalizers") or [],
            "ownerReferences": [owner_reference(daemon_set)],
        },
        "spec": {**spec, "affinity": affinity, "tolerations": _tolerations(spec)},
    }


def _only_on(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Returns the affinity with its required terms replaced: the node has been judged by them already."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {**affinity, _REQUIRED: {"nodeSelectorTerms": [term]}}
