"""What decides which nodes may take a pod: taints, tolerations and affinity, as they are stored.

Rules: kubernetes.io/docs, "Taints and Tolerations" and "Assigning Pods to Nodes".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Taint(msgspec.Struct, rename="camel"):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What a cordoned node has, written or not."""


class Toleration(msgspec.Struct, rename="camel"):
    """One of any value (`operator: Exists`): nothing writes another one in a run."""

    key: str = ""
    effect: str = ""
    toleration_seconds: float | None = None

    def matches(self, taint: Taint) -> bool:
        """An empty key, or effect, stands for all."""
        return self.key in ("", taint.key) and self.effect in ("", taint.effect)


class Requirement(msgspec.Struct):
    key: str = ""
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, rename="camel"):
    match_fields: tuple[Requirement, ...] = ()


class NodeTerms(msgspec.Struct, rename="camel"):
    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True):
    required: NodeTerms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, rename="camel", frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()

    @property
    def only_on(self) -> frozenset[str]:
        """The nodes that it names, as that of a DaemonSet's pod does; none if the pod may go to any."""
        required = self.node_affinity.required
        terms = required.node_selector_terms if required is not None else ()
        fields = (field for term in terms for field in term.match_fields)
        return frozenset(name for field in fields if field.key == "metadata.name" for name in field.values)


def tolerates(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether each of the taints is tolerated."""
    tolerations = tuple(tolerations)
    return all(any(each.matches(taint) for each in tolerations) for taint in taints)
