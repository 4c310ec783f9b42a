"""The caches of the attach/detach controller keep what it decides by: an object is trimmed, and not changed.

What is kept is all that rules of attaching and detaching name (docs/protocol.md); memory is why the rest
goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mooring.controllers.attachdetach import index
from mooring.kube.objects import (
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
    VolumeAttachment,
)
from mooring.simulation.checks.second_opinions.question import Question

IDENTITY = ("name", "namespace", "uid", "resource_version", "deletion_timestamp")


def pod(answer: Pod, whole: Pod, volumes: Iterable[Volume], get_claim: Callable[[str], Any]) -> Iterator[str]:
    """Who it is, since when, where it runs, whether it has ended, and those volumes that are attached."""
    yield from _same(answer, whole, "metadata.creation_timestamp", "spec.node_name", "status.phase")
    if answer.spec.volumes != tuple(volumes):
        yield f"Pod {whole.key} is cached with volumes {answer.spec.volumes}"
    yield from _leaves_out(answer, "labels", "annotations", "finalizers")


def claim(answer: PersistentVolumeClaim, whole: PersistentVolumeClaim) -> Iterator[str]:
    """Whose it is, and what it is bound to."""
    yield from _same(answer, whole, "spec.volume_name", "status.phase", "metadata.owner_references")
    yield from _leaves_out(answer, "labels", "annotations", "finalizers")


def volume(
    answer: PersistentVolume, whole: PersistentVolume, of: PersistentVolumeClaim | None
) -> Iterator[str]:
    """Its source, its claim, by whom it may be used, and its lock; of a GCE disk its zone."""
    kept = [name for name in whole.spec.__struct_fields__ if name not in ("capacity", "node_affinity")]
    yield from _same(answer, whole, "metadata.annotations", "status.phase")
    for name in kept:
        before, after = getattr(whole.spec, name), getattr(answer.spec, name)
        if name == "csi" and before is not None and after is not None:
            before, after = (before.driver, before.volume_handle), (after.driver, after.volume_handle)
        elif name == "claim_ref" and before is not None and after is not None:
            before = (before.namespace, before.name, before.uid)
            after = (after.namespace, after.name, after.uid)
        if before != after:
            yield f"PersistentVolume {whole.name} is cached with {name} {after}, and not {before}"
    zoned = whole.spec.gce_persistent_disk is not None
    if answer.metadata.labels != (whole.metadata.labels if zoned else {}) or answer.spec.capacity:
        yield f"PersistentVolume {whole.name} is cached with labels {answer.metadata.labels}"


def record(
    answer: VolumeAttachment, whole: VolumeAttachment, node: Node | None, of: PersistentVolume | None
) -> Iterator[str]:
    """All but labels and owners: each annotation says something of its attachment."""
    paths = ("metadata.creation_timestamp", "metadata.annotations", "metadata.finalizers", "spec", "status")
    yield from _same(answer, whole, *paths)
    yield from _leaves_out(answer, "labels", "owner_references")


def _same(answer: Object, whole: Object, *paths: str) -> Iterator[str]:
    for name in IDENTITY:
        if getattr(answer.metadata, name) != getattr(whole.metadata, name):
            yield f"{type(whole).__name__} {whole.key} is cached with another {name}"
    for path in paths:
        before, after = whole, answer
        for name in path.split("."):
            before, after = getattr(before, name), getattr(after, name)
        if before != after:
            yield f"{type(whole).__name__} {whole.key} is cached with {path} {after}, and not {before}"


def _leaves_out(answer: Object, *names: str) -> Iterator[str]:
    if kept := [name for name in names if getattr(answer.metadata, name)]:
        yield f"{type(answer).__name__} {answer.key} is cached with {kept}"


QUESTIONS = (
    Question(index, "trimmed_pod", pod),
    Question(index, "trimmed_claim", claim),
    Question(index, "trimmed_volume", volume),
    Question(index, "trimmed_record", record),
)
