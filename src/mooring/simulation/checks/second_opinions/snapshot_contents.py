"""What is decided about VolumeSnapshotContents, between what is asked for and the storage.

Source: the CSI community's external-snapshotter, its sidecar controller: `syncContent`, `shouldDelete`,
`createSnapshotWrapper` (the mark that a request may be unanswered), `isCSIFinalError`; and its pages
"Deletion Policies" and "Secrets and Credentials". A content whose deletion begins while a request is
unanswered asks again, where upstream waits until it is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.controllers.snapshots import snapshotter
from mooring.controllers.snapshots.content_decisions import Action
from mooring.kube.decision import Decision
from mooring.kube.objects import SecretReference
from mooring.kube.objects.snapshots import VolumeSnapshotContent
from mooring.simulation.checks.second_opinions import near_snapshots
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.snapshots import (
    GOES,
    NAMES,
    OF_CONTENT,
    UNANSWERED,
    handle_in,
)
from mooring.volumes.errors import InvalidSpec, NotAsked, StorageRefused

OURS = "csi.storage.k8s.io/"
"""Before parameters that no storage gets."""


def of_step(answer: Decision[Action], content: VolumeSnapshotContent) -> Iterator[str]:
    expected = _of_the_end(content) if content.deleting else _of_the_request(content)
    if answer.action is not expected:
        yield f"VolumeSnapshotContent {content.name}: {answer.action.value}, and not {expected.value}"


def _of_the_request(content: VolumeSnapshotContent) -> Action:
    """It is held first, also one of a user (upstream: `NeedToAddContentFinalizer`), and asked for until it
    is ready; then nothing is unanswered any more. For a VolumeSnapshot that is deleted nothing is begun."""
    if OF_CONTENT not in content.metadata.finalizers:
        return Action.HOLD
    if GOES in content.metadata.annotations and not _is_begun(content):
        return Action.SETTLED
    if not content.status.ready_to_use:
        return Action.TAKE
    return Action.ANSWERED if UNANSWERED in content.metadata.annotations else Action.SETTLED


def _of_the_end(content: VolumeSnapshotContent) -> Action:
    """It waits for its VolumeSnapshot, unless that never was bound to it. What the storage has is deleted
    with it, if the policy says so, and what it may have is looked for first."""
    notes, spec = content.metadata.annotations, content.spec
    was_bound = bool(spec.volume_snapshot_ref.uid) or spec.source.snapshot_handle in (None, "")
    if OF_CONTENT not in content.metadata.finalizers:
        return Action.SETTLED
    if was_bound and GOES not in notes:
        return Action.WAIT
    if spec.deletion_policy != "Retain":
        if handle_in(content):
            return Action.DELETE
        if UNANSWERED in notes:
            return Action.TAKE
    return Action.RELEASE


def _is_begun(content: VolumeSnapshotContent) -> bool:
    """Whether the storage has its snapshot, or may have it."""
    return bool(handle_in(content)) or UNANSWERED in content.metadata.annotations


def of_handle(answer: str | None, content: VolumeSnapshotContent) -> Iterator[str]:
    if (answer or None) != handle_in(content):
        yield f"VolumeSnapshotContent {content.name} has {answer}, and not {handle_in(content)}"


def of_name(answer: str, uid: str) -> Iterator[str]:
    """One name for one VolumeSnapshot: asked for twice, it is the same."""
    if answer != f"snapshot-{uid}":
        yield f"the storage is asked for {answer} for {uid}"


def of_answered(answer: bool, error: Exception, *, asked_before: bool) -> Iterator[str]:
    """The storage's word, and that it cannot be asked at all, are answers; that nothing was sent is one if
    nothing was before. Of all other errors the outcome is unknown (`mooring.volumes.errors`)."""
    certain = {StorageRefused, InvalidSpec} if asked_before else {StorageRefused, InvalidSpec, NotAsked}
    if answer == certain.isdisjoint(type(error).__mro__):
        yield f"{type(error).__name__} answers all that was asked: {answer}"


def of_parameters(answer: Mapping[str, str], parameters: Mapping[str, str]) -> Iterator[str]:
    left = {key for key in parameters if not key.startswith(OURS)}
    if answer != {key: parameters[key] for key in left}:
        yield f"of {dict(parameters)} the storage gets {dict(answer)}"


def of_secret(
    answer: SecretReference | InvalidSpec | None,
    parameters: Mapping[str, str],
    content: VolumeSnapshotContent,
) -> Iterator[str]:
    """Both templates, or none; each hole is filled by a name of the content or its VolumeSnapshot, and what
    else may stand in one is refused."""
    templates = [parameters.get(f"{OURS}snapshotter-secret-{part}", "") for part in ("name", "namespace")]
    named = content.spec.volume_snapshot_ref
    expected = [_filled(each, content.name, named.namespace, named.name) for each in templates]
    if isinstance(answer, InvalidSpec):
        if all(templates) and not any("${" in each for each in expected):
            yield f"the Secret of VolumeSnapshotContent {content.name} is refused: {answer}"
    elif ([answer.name, answer.namespace] if answer is not None else ["", ""]) != expected:
        yield f"the Secret of VolumeSnapshotContent {content.name} is {answer}, and not {expected}"


def _filled(template: str, content: str, namespace: str, name: str) -> str:
    for hole, value in (
        ("volumesnapshotcontent.name", content),
        ("volumesnapshot.namespace", namespace),
        ("volumesnapshot.name", name),
    ):
        template = template.replace(f"${{{hole}}}", value)
    return template


def of_last_secret(answer: SecretReference | None, content: VolumeSnapshotContent) -> Iterator[str]:
    """That which was written on the content when it was made."""
    notes = content.metadata.annotations
    written = [notes.get(f"{NAMES}deletion-secret-{part}", "") for part in ("name", "namespace")]
    expected = written if written[0] else ["", ""]
    if ([answer.name, answer.namespace] if answer is not None else ["", ""]) != expected:
        yield f"VolumeSnapshotContent {content.name} is deleted with {answer}, and not with {expected}"


QUESTIONS = (
    Question(snapshotter, "decide", of_step, near=near_snapshots.OF_CONTENT),
    Question(snapshotter, "handle_of", of_handle, near=near_snapshots.OF_CONTENT),
    Question(snapshotter, "snapshot_name", of_name),
    Question(snapshotter, "is_answered", of_answered, near=near_snapshots.OF_ERROR),
    Question(snapshotter, "storage_parameters", of_parameters, near=near_snapshots.OF_PARAMETERS),
    Question(
        snapshotter,
        "creation_secret",
        of_secret,
        refusals=(InvalidSpec,),
        near=near_snapshots.OF_SECRET,
    ),
    Question(snapshotter, "deletion_secret", of_last_secret, near=near_snapshots.OF_CONTENT),
)
