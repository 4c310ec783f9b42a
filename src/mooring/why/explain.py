"""From a target such as "pod/app-0" to its explanation; and the explanations of everything that is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mooring.kube.objects import Object
from mooring.why.cause import Cause
from mooring.why.explain_claims import explain_claim
from mooring.why.explain_fences import explain_fence
from mooring.why.explain_namespaces import explain_namespace
from mooring.why.explain_nodes import explain_node
from mooring.why.explain_pods import explain_pod
from mooring.why.explain_snapshots import explain_snapshot
from mooring.why.explain_volumes import explain_volume
from mooring.why.explain_workloads import explain_deployment, explain_stateful_set
from mooring.why.snapshot import Snapshot

KINDS = {
    "pod": ("pods", True, explain_pod),
    "pvc": ("claims", True, explain_claim),
    "pv": ("volumes", False, explain_volume),
    "node": ("nodes", False, explain_node),
    "nodefence": ("fences", False, explain_fence),
    "ns": ("namespaces", False, explain_namespace),
    "sts": ("stateful_sets", True, explain_stateful_set),
    "deploy": ("deployments", True, explain_deployment),
    "snapshot": ("snapshots", True, explain_snapshot),
}
ALIASES = {
    "pods": "pod",
    "po": "pod",
    "persistentvolumeclaim": "pvc",
    "persistentvolumeclaims": "pvc",
    "claim": "pvc",
    "persistentvolume": "pv",
    "persistentvolumes": "pv",
    "volume": "pv",
    "nodes": "node",
    "no": "node",
    "nodefences": "nodefence",
    "fence": "nodefence",
    "namespace": "ns",
    "namespaces": "ns",
    "statefulset": "sts",
    "statefulsets": "sts",
    "deployment": "deploy",
    "deployments": "deploy",
    "volumesnapshot": "snapshot",
    "volumesnapshots": "snapshot",
    "vs": "snapshot",
}


class NoSuchObject(LookupError):
    """The target is of no kind that can be explained, or does not exist. The message names what exists."""


def explain(target: str, namespace: str, known: Snapshot) -> Cause:
    """Returns the explanation of `target`, "kind/name". Raises NoSuchObject."""
    kind, _, name = target.partition("/")
    kind = ALIASES.get(kind.lower(), kind.lower())
    if kind not in KINDS or not name:
        raise NoSuchObject(f"{target!r} is not of the form {' or '.join(f'{each}/NAME' for each in KINDS)}")
    held, namespaced, how = _of(kind)
    objects: Mapping[str, Object] = getattr(known, held)
    found = objects.get(f"{namespace}/{name}" if namespaced else name)
    if found is None:
        raise NoSuchObject(_not_there(kind, name, namespace if namespaced else "", objects))
    return how(found, known)


def _of(kind: str) -> tuple[str, bool, Callable[[Any, Snapshot], Cause]]:
    return KINDS[kind]


def _not_there(kind: str, name: str, namespace: str, objects: Mapping[str, Object]) -> str:
    elsewhere = [each.namespace for each in objects.values() if each.name == name]
    if elsewhere:
        return f"there is no {kind} {name} in namespace {namespace}, but in {', '.join(elsewhere)}: use -n"
    there = sorted(each.name for each in objects.values() if each.namespace == namespace)
    some = ", ".join(there[:5]) + (" ..." if len(there) > 5 else "")
    where = f" in namespace {namespace}" if namespace else ""
    return f"there is no {kind} {name}{where}; there are: {some or 'none'}"


def stuck(known: Snapshot) -> Iterator[Cause]:
    """Yields the explanation of every object with which something is wrong: nodes, volumes, claims, pods, the
    sets that these are of, snapshots, namespaces."""
    for kind in ("node", "pv", "pvc", "pod", "sts", "deploy", "snapshot", "ns"):
        held, _, how = _of(kind)
        objects: Mapping[str, Object] = getattr(known, held)
        for obj in objects.values():
            cause = how(obj, known)
            if not cause.ok:
                yield cause
