"""Where a pod may go because of other pods: inter-pod affinity, anti-affinity, topology spread. Pure.

What is required counts; preferences rank nothing. Rules and words are those of upstream's plugins
InterPodAffinity and PodTopologySpread: a term is about the pods of its namespaces that its selector matches,
and about places, which are the values of a label of nodes (`topologyKey`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mooring.kube.objects import Namespace, Node, Pod
from mooring.kube.selectors import LabelSelector, label_selector_from_object
from mooring.kube.taints import untolerated
from mooring.volumes.topology import wanted_on

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"

Place = tuple[str, str]
"""The label of a node, and its value."""


class Term(NamedTuple):
    """A required term of a pod's affinity or anti-affinity."""

    topology_key: str
    selects: Callable[[Pod], bool]


@dataclass(frozen=True)
class Company:
    """The pods that have nodes, each with its node; and the labels of namespaces, which terms may select."""

    pods: Sequence[tuple[Pod, Node]] = ()
    namespaces: Mapping[str, Namespace] = field(default_factory=dict[str, Namespace])

    def terms(self, pod: Pod, kind: str) -> list[Term]:
        """Those of `kind`, "pod_affinity" or "pod_anti_affinity"."""
        given: Mapping[str, Any] | None = getattr(pod.spec.affinity, kind, None)
        return [self._term(pod, each) for each in (given or {}).get(REQUIRED) or ()]

    def _term(self, pod: Pod, term: Mapping[str, Any]) -> Term:
        selector = selector_with_keys(pod, term)
        named = set(term.get("namespaces") or ())
        of_labels = term.get("namespaceSelector")
        if not named and of_labels is None:
            named = {pod.namespace}
        by_labels = label_selector_from_object(of_labels) if of_labels is not None else None

        def selects(other: Pod) -> bool:
            return selector.matches(other.metadata.labels) and (
                other.namespace in named or (by_labels is not None and self._has(other.namespace, by_labels))
            )

        return Term(term.get("topologyKey", ""), selects)

    def _has(self, namespace: str, selector: LabelSelector) -> bool:
        known = self.namespaces.get(namespace)
        return selector.matches(known.metadata.labels if known is not None else {})


ALONE = Company()


def needs_company(pod: Pod) -> bool:
    """Whether the places of other pods say where this one may go."""
    affinity = pod.spec.affinity
    return bool(_constraints(pod)) or (
        affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)
    )


def asks_for_namespaces(pod: Pod) -> bool:
    """Whether a term of the pod selects namespaces by their labels."""
    affinity = pod.spec.affinity
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return any(term.get("namespaceSelector") for kind in kinds for term in (kind or {}).get(REQUIRED) or ())


def keeps_others_away(pod: Pod) -> bool:
    """Whether this pod may say where others may not go."""
    return pod.spec.affinity is not None and bool(pod.spec.affinity.pod_anti_affinity)


def obstacles(pod: Pod, nodes: Sequence[Node], company: Company) -> Callable[[Node], str | None]:
    """Returns what says of each of the `nodes` why the pod cannot go there; None if it can."""
    spread = [_spread(pod, constraint, nodes, company) for constraint in _constraints(pod)]
    checks = (*spread, _affinity(pod, company), _anti_affinity(pod, company), _existing(pod, company))

    def obstacle(node: Node) -> str | None:
        return next((problem for check in checks if (problem := check(node)) is not None), None)

    return obstacle


def _affinity(pod: Pod, company: Company) -> Callable[[Node], str | None]:
    """In each place of its terms there is a pod that all of them select. The first of a group, which selects
    itself, may go anywhere where the labels are."""
    terms = company.terms(pod, "pod_affinity")
    if not terms:
        return lambda node: None
    selected = [node for other, node in company.pods if all(term.selects(other) for term in terms)]
    places = {place for node in selected for place in _places(node, terms)}
    first = not places and all(term.selects(pod) for term in terms)

    def check(node: Node) -> str | None:
        here = _places(node, terms)
        if len(here) == len({term.topology_key for term in terms}) and (first or here <= places):
            return None
        return AFFINITY

    return check


def _anti_affinity(pod: Pod, company: Company) -> Callable[[Node], str | None]:
    """In no place of a term there is a pod that it selects."""
    terms = company.terms(pod, "pod_anti_affinity")
    taken = {
        place for term in terms for other, node in company.pods if term.selects(other)
        for place in _places(node, [term])
    }  # fmt: skip
    return lambda node: ANTI_AFFINITY if _places(node, terms) & taken else None


def _existing(pod: Pod, company: Company) -> Callable[[Node], str | None]:
    """In no place of its terms there is a pod whose anti-affinity selects this one."""
    taken = {
        place
        for other, node in company.pods if keeps_others_away(other)
        for term in company.terms(other, "pod_anti_affinity") if term.selects(pod)
        for place in _places(node, [term])
    }  # fmt: skip
    return lambda node: EXISTING_ANTI_AFFINITY if taken & set(node.metadata.labels.items()) else None


def _places(node: Node, terms: Iterable[Term]) -> set[Place]:
    labels = node.metadata.labels
    return {(term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels}


def _constraints(pod: Pod) -> list[Mapping[str, Any]]:
    return [
        each
        for each in pod.spec.topology_spread_constraints
        if each.get("whenUnsatisfiable") != "ScheduleAnyway"
    ]


def _spread(
    pod: Pod, constraint: Mapping[str, Any], nodes: Sequence[Node], company: Company
) -> Callable[[Node], str | None]:
    """No place has more than `maxSkew` pods more than the one with the fewest."""
    key, selector = constraint.get("topologyKey", ""), selector_with_keys(pod, constraint)
    keys = {each.get("topologyKey", "") for each in _constraints(pod)}
    eligible = [
        node for node in nodes if _counts(pod, node, constraint) and keys <= node.metadata.labels.keys()
    ]
    counts = Counter({node.metadata.labels[key]: 0 for node in eligible})
    names = {node.name for node in eligible}
    counts.update(
        node.metadata.labels[key] for other, node in company.pods
        if node.name in names and _is_counted(pod, other, selector)
    )  # fmt: skip
    fewest = min(counts.values(), default=0) if len(counts) >= (constraint.get("minDomains") or 1) else 0
    own = int(selector.matches(pod.metadata.labels))

    def check(node: Node) -> str | None:
        place = node.metadata.labels.get(key)
        if place is None:
            return SPREAD_LABEL
        return SPREAD if counts[place] + own - fewest > constraint.get("maxSkew", 1) else None

    return check


def _is_counted(pod: Pod, other: Pod, selector: LabelSelector) -> bool:
    return other.namespace == pod.namespace and not other.deleting and selector.matches(other.metadata.labels)


def _counts(pod: Pod, node: Node, constraint: Mapping[str, Any]) -> bool:
    """Whether a node's pods count, and whether its place does."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not wanted_on(pod, node):
        return False
    honor_taints = constraint.get("nodeTaintsPolicy") == "Honor"
    return not (honor_taints and untolerated(pod, node.spec.taints, "NoSchedule", "NoExecute"))


def selector_with_keys(pod: Pod, term: Mapping[str, Any]) -> LabelSelector:
    """The term's selector, with what `matchLabelKeys` and `mismatchLabelKeys` add of the pod's own labels.
    Without a selector nothing is selected."""
    selector: Mapping[str, Any] | None = term.get("labelSelector")
    if selector is None:
        return label_selector_from_object(None)
    labels = pod.metadata.labels
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field_name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field_name) or () if key in labels
    ]  # fmt: skip
    return label_selector_from_object(
        {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}
    )
