"""What Mooring has left in a cluster, and what keeps it from being taken away. Pure.

Besides the objects that were installed there are marks on objects of others: annotations of ours on volumes,
attachments, claims, nodes and pods, and a finalizer on Nodes that a FencePolicy covers. Statements that
people have made on their own objects (`mooring.dev/detach-revokes-access` on a CSIDriver, say) are theirs,
and stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.controllers.fencing.decide import Phase
from mooring.controllers.fencing.names import is_of_a_fence
from mooring.controllers.provisioning.decide import BEGUN
from mooring.install.check import EBS
from mooring.kube.objects import Node, Object, PersistentVolumeClaim, VolumeAttachment
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.printable import counted

PREFIXES = ("mooring.dev/", "fencing.mooring.dev/")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Remains:
    """What was read, live: `installed` are the objects with our label, as (kind, namespace, name, uid);
    `objects` those of others that may have marks."""

    installed: Sequence[tuple[str, str, str, str]]
    objects: Sequence[Object]
    fences: Sequence[NodeFence] = ()


def unmarked(obj: Object) -> Mapping[str, Any] | None:
    """The merge patch that takes our marks off, or None if it has none."""
    metadata = obj.metadata
    annotations = {key: None for key in metadata.annotations if key.startswith(PREFIXES)}
    finalizers = [each for each in metadata.finalizers if not each.startswith(PREFIXES)]
    changed = {
        **({"annotations": annotations} if annotations else {}),
        **({"finalizers": finalizers} if len(finalizers) < len(metadata.finalizers) else {}),
    }
    return {"metadata": changed} if changed else None


def refusals(remains: Remains, *, nothing_runs: bool = False) -> list[str]:
    """Why nothing may be taken away yet, and what to do about each; empty if it may.

    `nothing_runs`: a person says that no controller of ours runs anywhere."""
    strangers = list[str]() if nothing_runs else list(_strangers(remains))
    return [*strangers, *_fences(remains), *_attached(remains), *_provisioned(remains)]


def _strangers(remains: Remains) -> Iterator[str]:
    """Where nothing is installed that could be stopped, marks are of a controller that was not found."""
    marked = sum(unmarked(each) is not None for each in remains.objects)
    if marked and not remains.installed:
        yield (
            f"marks are on {counted(marked, 'object')}, and no component is installed: they are of `mooring up`, or of "
            "a `mooring controller` somewhere; once nothing of it runs: mooring uninstall --nothing-runs --confirm"
        )


def _fences(remains: Remains) -> Iterator[str]:
    for each in remains.fences:
        if each.status.phase not in Phase.OVER:
            yield (
                f"the fence {each.name} of node {each.spec.node_name} is not over ({each.status.phase or 'Pending'}): "
                f"let the node in again: mooring fence release {each.spec.node_name}"
            )
    for node in remains.objects:
        taints = node.spec.taints if isinstance(node, Node) else ()
        for taint in filter(is_of_a_fence, taints):
            yield (
                f"node {node.name} has a fence's taint: kubectl taint node {node.name} {taint.key}- "
                "once it runs again, or is gone for good"
            )


def _attached(remains: Remains) -> Iterator[str]:
    """Without its driver a volume could not be detached."""
    if not any(kind == "DaemonSet" and name == "ebs-csi-node" for kind, _, name, _ in remains.installed):
        return
    found = [
        f"{each.spec.source.persistent_volume_name} on {each.spec.node_name}"
        for each in remains.objects
        if isinstance(each, VolumeAttachment) and each.spec.attacher == EBS
    ]
    if found:
        yield (
            f"still attached: {counted(len(found), 'volume')} of {EBS} ({', '.join(found[:_NAMED])}): end the pods "
            "that use them, or install another driver of that name first and take our app.kubernetes.io/part-of off"
        )


def _provisioned(remains: Remains) -> Iterator[str]:
    """Without the finalizer a claim could go while its disk is being made: that would be left behind."""
    for each in remains.objects:
        if (
            isinstance(each, PersistentVolumeClaim)
            and BEGUN in each.metadata.finalizers
            and not each.spec.volume_name
        ):
            yield f"claim {each.key} is being provisioned: wait until it is bound, or delete it"
