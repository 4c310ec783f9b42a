"""What both halves of the snapshot controllers might as well be asked: of other moments of a snapshot's life,
of snapshots that users have written by hand, of other classes and drivers, and after other errors.
"""

from __future__ import annotations

from random import Random

from mooring.kube.objects import ObjectMeta, PersistentVolumeClaim
from mooring.kube.objects.snapshots import SnapshotError, VolumeSnapshotClass
from mooring.simulation.checks.second_opinions.near import ANOTHER, FAR_OFF, LONG_AGO
from mooring.simulation.checks.second_opinions.near_arguments import (
    Arguments,
    Change,
    given,
    keyed,
    listed,
    near_to,
    of,
    said,
)
from mooring.volumes.errors import InvalidSpec, MadeOtherwise, NotAsked, OutcomeUnknown, SnapshotNotFound

NAMES = "snapshot.storage.kubernetes.io/"
OURS = "csi.storage.k8s.io/snapshotter-secret-"
ERRORS = (None, *(SnapshotError(time=time, message="full") for time in (LONG_AGO, FAR_OFF)))
SHARE = 1.0
"""These are asked seldom."""

SNAPSHOT: tuple[Change, ...] = (
    said("metadata.deletion_timestamp", None, LONG_AGO),
    said("metadata.uid", ANOTHER),
    listed("metadata.finalizers", f"{NAMES}volumesnapshot-bound-protection"),
    listed("metadata.finalizers", f"{NAMES}volumesnapshot-as-source-protection"),
    said("spec.source.volume_snapshot_content_name", None, ANOTHER),
    said("spec.volume_snapshot_class_name", None, "", ANOTHER),
    said("status.bound_volume_snapshot_content_name", None, ANOTHER),
    said("status.ready_to_use", True, False),
    said("status.error", *ERRORS),
)
CONTENT: tuple[Change, ...] = (
    said("metadata.deletion_timestamp", None, LONG_AGO),
    listed("metadata.finalizers", f"{NAMES}volumesnapshotcontent-bound-protection"),
    keyed("metadata.annotations", f"{NAMES}volumesnapshot-being-created", "yes"),
    keyed("metadata.annotations", f"{NAMES}volumesnapshot-being-deleted", "yes"),
    keyed("metadata.annotations", f"{NAMES}deletion-secret-name", "s"),
    keyed("metadata.annotations", f"{NAMES}deletion-secret-namespace", "ns"),
    said("spec.deletion_policy", "Delete", "Retain"),
    said("spec.source.snapshot_handle", None, ANOTHER),
    said("spec.volume_snapshot_ref.uid", "", ANOTHER),
    said("spec.volume_snapshot_ref.name", ANOTHER),
    said("spec.volume_snapshot_ref.namespace", ANOTHER),
    said("status.snapshot_handle", None, ANOTHER),
    said("status.ready_to_use", True, False),
    said("status.creation_time", None, 1_700_000_000_987_654_321),
    said("status.restore_size", None, 0, 1000, 2**30),
    said("status.error", *ERRORS),
)
_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": ANOTHER}
SOURCES = (
    None,
    _SNAPSHOT,
    _SNAPSHOT | {"apiGroup": ""},
    {"kind": "PersistentVolumeClaim", "name": ANOTHER},
)
CLAIM: tuple[Change, ...] = (
    said("status.phase", "", "Pending", "Bound", "Lost"),
    said("spec.data_source", *SOURCES),
    said("spec.data_source_ref", *SOURCES),
)


def _going(chance: Random, asked: Arguments) -> Arguments:
    """A user has deleted the snapshot, and the controllers hold it, and its content, which is as far."""
    snapshot = said("metadata.deletion_timestamp", LONG_AGO)(chance, asked["snapshot"])
    snapshot = said("metadata.finalizers", (f"{NAMES}volumesnapshot-bound-protection",))(chance, snapshot)
    if (content := asked["content"]) is None:
        return {"snapshot": snapshot}
    content = said("metadata.deletion_timestamp", None, LONG_AGO)(chance, content)
    content = keyed("metadata.annotations", f"{NAMES}volumesnapshot-being-deleted", "yes")(chance, content)
    return {"snapshot": snapshot, "content": content}


def _content_goes(chance: Random, asked: Arguments) -> Arguments:
    """The content is being deleted, and held; the storage may have been asked."""
    content = said("metadata.deletion_timestamp", LONG_AGO)(chance, asked["content"])
    held = (f"{NAMES}volumesnapshotcontent-bound-protection",)
    content = said("metadata.finalizers", held)(chance, content)
    notes = {f"{NAMES}volumesnapshot-being-deleted": "yes"}
    return {"content": said("metadata.annotations", notes)(chance, content)}


def _has_no_volume(chance: Random, asked: Arguments) -> Arguments:
    """It has no content yet, and its claim is bound, waits, or does not exist."""
    claim = asked["claim"] or PersistentVolumeClaim(metadata=ObjectMeta(name=ANOTHER))
    claim = said("status.phase", "Pending", "Bound")(chance, claim)
    return {"content": None, "claim": chance.choice((None, claim, claim))}


def _classes(chance: Random, asked: Arguments) -> Arguments:
    """There are up to three, and some are their driver's default."""
    default = {f"{NAMES}is-default-class": "true"}
    several = [
        VolumeSnapshotClass(
            metadata=ObjectMeta(
                name=ANOTHER if not number else f"{ANOTHER}-{number}",
                annotations=chance.choice((default, default, {}, {f"{NAMES}is-default-class": "false"})),
            ),
            driver=chance.choice((asked["driver"], asked["driver"], ANOTHER)),
        )
        for number in range(chance.randint(0, 3))
    ]
    return {"classes": several}


OF_STEP = near_to(
    (
        *(*of("snapshot", *SNAPSHOT), *of("content", *CONTENT), *of("claim", *CLAIM)),
        *(given("restored", ("ns/a",), ()), given("content", None), given("claim", None)),
        *(_going, _going, _has_no_volume),
    ),
    SHARE,
)
OF_STATUS = near_to((*of("content", *CONTENT), *of("before", *(said("error", *ERRORS),))), SHARE)
OF_NAME = near_to(of("snapshot", *SNAPSHOT), SHARE)
OF_CLASS = near_to((*of("snapshot", *SNAPSHOT), _classes, _classes), SHARE)
OF_RESTORED = near_to(of("claim", *CLAIM), SHARE)
OF_CONTENT = near_to((*of("content", *CONTENT), _content_goes, _content_goes), SHARE)
OF_ERROR = near_to(
    (
        given(
            "error",
            *(InvalidSpec("bad"), NotAsked("not sent"), OutcomeUnknown("lost"), MadeOtherwise("another's")),
            *(SnapshotNotFound("gone"), OSError("broken")),
        ),
        given("asked_before", True, False),
    ),
    SHARE,
)
PARAMETERS: tuple[Change, ...] = (
    lambda chance, before: {**before, "type": "fast"},
    lambda chance, before: {
        **before,
        f"{OURS}name": chance.choice(("s", "${volumesnapshot.name}", "${pvc.name}")),
    },
    lambda chance, before: {
        **before,
        f"{OURS}namespace": chance.choice(
            ("ns", "${volumesnapshot.namespace}", "${volumesnapshotcontent.name}")
        ),
    },
)
OF_PARAMETERS = near_to(of("parameters", *PARAMETERS), SHARE)
OF_SECRET = near_to((*of("parameters", *PARAMETERS), *of("content", *CONTENT)), SHARE)
