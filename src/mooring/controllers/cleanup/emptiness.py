"""What a namespace that is being deleted says of what it still holds: upstream's conditions, and one of ours.
Pure.

Upstream's (`namespace/deletion/status_condition_utils.go`) count what is left, and its finalizers. Ours names
nodes that do not answer: only they can say that a pod's processes have ended, so that the namespace may wait
for a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mooring.kube.objects import Condition, Object, Resource
from mooring.kube.times import format_time

CONTENT = "NamespaceContentRemaining"
DISCOVERY = "NamespaceDeletionDiscoveryFailure"
FINALIZERS = "NamespaceFinalizersRemaining"
WAITS_FOR_NODES = "mooring.dev/WaitsForNodes"
MOST_NAMES = 5

Left = tuple[Resource, Object]
"""A kind, and an object of it that is still there."""


def conditions(
    left: Sequence[Left],
    silent: Mapping[str, Sequence[str]],
    before: Iterable[Condition],
    now: datetime,
    unknown: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Those conditions that are to be written, as they differ from `before`. `silent`: nodes that do not
    answer, and the pods that wait for each. `unknown`: groups of which the kinds are not known."""
    had = {each.type: each for each in before}
    wanted = (_content(left), _finalizers(left), _waits_for_nodes(silent), _discovery(unknown))
    return [_dated(each, had.get(each.type), now) for each in wanted if _differs(each, had.get(each.type))]


def _content(left: Sequence[Left]) -> Condition:
    if not left:
        return Condition(CONTENT, "False", "ContentRemoved", "All content successfully removed")
    counts = Counter(f"{resource.plural}.{resource.group}" for resource, _ in left)
    parts = (f"{kind} has {count} resource instances" for kind, count in sorted(counts.items()))
    return Condition(
        CONTENT, "True", "SomeResourcesRemain", f"Some resources are remaining: {', '.join(parts)}"
    )


def _finalizers(left: Sequence[Left]) -> Condition:
    counts = Counter(finalizer for _, each in left for finalizer in each.metadata.finalizers)
    if not counts:
        message = "All content-preserving finalizers finished"
        return Condition(FINALIZERS, "False", "ContentHasNoFinalizers", message)
    parts = (f"{finalizer} in {count} resource instances" for finalizer, count in sorted(counts.items()))
    message = f"Some content in the namespace has finalizers remaining: {', '.join(parts)}"
    return Condition(FINALIZERS, "True", "SomeFinalizersRemain", message)


def _discovery(unknown: Sequence[str]) -> Condition:
    if not unknown:
        return Condition(DISCOVERY, "False", "ResourcesDiscovered", "All resources successfully discovered")
    message = f"Discovery failed for some groups, {len(unknown)} failing: {', '.join(sorted(unknown))}"
    return Condition(DISCOVERY, "True", "DiscoveryFailed", message)


def _waits_for_nodes(silent: Mapping[str, Sequence[str]]) -> Condition:
    if not silent:
        return Condition(
            WAITS_FOR_NODES, "False", "NoneIsSilent", "No pod waits for a node that does not answer"
        )
    parts = (f"{_some(pods)} on node {node}" for node, pods in sorted(silent.items()))
    message = (
        f"Nodes do not answer, and only they can say that processes have ended: {'; '.join(parts)}. "
        "`mooring why node/NAME` says what can be done"
    )
    return Condition(WAITS_FOR_NODES, "True", "NodesDoNotAnswer", message)


def _some(pods: Sequence[str]) -> str:
    named = ", ".join(sorted(pods)[:MOST_NAMES])
    return f"pods {named}" + (f" and {len(pods) - MOST_NAMES} more" if len(pods) > MOST_NAMES else "")


def _differs(wanted: Condition, before: Condition | None) -> bool:
    """A condition that says that all is well is not written where nothing was wrong."""
    if before is None:
        return wanted.status == "True"
    return (wanted.status, wanted.reason, wanted.message) != (before.status, before.reason, before.message)


def _dated(wanted: Condition, before: Condition | None, now: datetime) -> dict[str, Any]:
    kept = before.last_transition_time if before is not None and before.status == wanted.status else None
    return {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": kept or format_time(now),
    }
