"""Second opinions about snapshots and their contents: none to what production answers, one to each kind of
wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments, signature
from random import Random
from typing import Any

import pytest
from claims_and_volumes import claim
from msgspec.structs import replace

from mooring.controllers.snapshots import content_decisions, decide
from mooring.controllers.snapshots.names import snapshot_name
from mooring.kube.decision import Decision
from mooring.kube.objects import ObjectMeta, ObjectReference, PersistentVolumeClaim, SecretReference
from mooring.kube.objects.snapshots import (
    SnapshotError,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
    VolumeSnapshotContentSource,
    VolumeSnapshotContentSpec,
    VolumeSnapshotContentStatus,
    VolumeSnapshotSource,
    VolumeSnapshotSpec,
    VolumeSnapshotStatus,
)
from mooring.kube.reason import Reason
from mooring.simulation.checks.second_opinions import Question, snapshot_contents, snapshots
from mooring.volumes.errors import InvalidSpec, NotAsked, OutcomeUnknown, StorageRefused

WHY = Reason("Any", "words")
NAMES = "snapshot.storage.kubernetes.io/"
CREATED, GOES = f"{NAMES}volumesnapshot-being-created", f"{NAMES}volumesnapshot-being-deleted"
HELD, CONTENT_HELD = snapshots.OF_CONTENT.replace("content", ""), snapshots.OF_CONTENT
Step, Next = decide.Action, content_decisions.Action


def snapshot(
    *, going: bool = False, held: bool = True, ready: bool = False, named: str | None = None
) -> VolumeSnapshot:
    metadata = ObjectMeta(name="s", namespace="ns", uid="u", finalizers=(HELD,) if held else ())
    source = VolumeSnapshotSource(
        persistent_volume_claim_name=None if named else "c", volume_snapshot_content_name=named
    )
    status = VolumeSnapshotStatus(
        bound_volume_snapshot_content_name="snapcontent-u" if ready else None,
        ready_to_use=ready,
        restore_size="1Ki" if ready else None,
        creation_time="1970-01-01T00:01:40Z" if ready else None,
    )
    metadata = replace(metadata, deletion_timestamp="t" if going else None)
    return VolumeSnapshot(metadata=metadata, spec=VolumeSnapshotSpec(source=source), status=status)


def content(
    *notes: str, going: bool = False, held: bool = True, policy: str = "Delete", uid: str = "u",
    ready: bool = False, given: str | None = None, failed: bool = False, handle: str | None = None,
) -> VolumeSnapshotContent:  # fmt: skip
    return VolumeSnapshotContent(
        metadata=ObjectMeta(
            name="snapcontent-u",
            annotations=dict.fromkeys(notes, "yes"),
            finalizers=(CONTENT_HELD,) if held else (),
            deletion_timestamp="t" if going else None,
        ),
        spec=VolumeSnapshotContentSpec(
            deletion_policy=policy,
            source=VolumeSnapshotContentSource(volume_handle=None if given else "v", snapshot_handle=given),
            volume_snapshot_ref=ObjectReference(namespace="ns", name="s", uid=uid),
        ),
        status=VolumeSnapshotContentStatus(
            snapshot_handle="h" if ready else handle,
            ready_to_use=ready,
            creation_time=100 * 10**9 if ready else None,
            restore_size=1024 if ready else None,
            error=SnapshotError(time="t1", message="full") if failed else None,
        ),
    )


BOUND = replace(claim(), status=replace(claim().status, phase="Bound"))
SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
RESTORED = claim(data_source_ref=SOURCE)
CLASS = VolumeSnapshotClass(metadata=ObjectMeta(name="fast"), driver="d", deletion_policy="Retain")
SECRET = {
    "csi.storage.k8s.io/snapshotter-secret-name": "${volumesnapshot.name}-s",
    "csi.storage.k8s.io/snapshotter-secret-namespace": "ns",
}

SAMPLES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "snapshots.controller.decide": ((snapshot(ready=True), content(ready=True), BOUND, []), {}),
    "snapshots.controller.status_of": ((content(failed=True), VolumeSnapshotStatus()), {}),
    "snapshots.controller.content_name": ((snapshot(),), {}),
    "snapshots.controller.class_of": ((snapshot(), [CLASS], "d"), {}),
    "snapshots.controller.is_being_taken": ((snapshot(),), {}),
    "snapshots.controller.restored_from": ((RESTORED,), {}),
    "snapshots.snapshotter.decide": ((content(),), {}),
    "snapshots.snapshotter.handle_of": ((content(),), {}),
    "snapshots.snapshotter.is_answered": ((StorageRefused("no"),), {"asked_before": False}),
    "snapshots.snapshotter.storage_parameters": ((SECRET,), {}),
    "snapshots.snapshotter.creation_secret": ((SECRET, content()), {}),
    "snapshots.snapshotter.deletion_secret": ((content(),), {}),
}
QUESTIONS = (*snapshots.QUESTIONS, *snapshot_contents.QUESTIONS)
ASKED = {str(each).removeprefix("mooring.controllers."): each for each in QUESTIONS if each.near}


def test_each_is_asked_near_to_what_a_run_asks():
    assert {*ASKED} == {*SAMPLES}


def near(
    question: Question, asked: tuple[tuple[Any, ...], dict[str, Any]], times: int
) -> list[BoundArguments]:
    assert question.near is not None
    chance, bound = Random(5), signature(vars(question.owner)[question.name]).bind(*asked[0], **asked[1])
    bound.apply_defaults()
    drawn = (question.near.drawn(chance, bound) for _ in range(times))
    return [each for each in drawn if each is not None]


def answer_of(question: Question, asked: BoundArguments) -> Any:
    try:
        return vars(question.owner)[question.name](*asked.args, **asked.kwargs)
    except question.refusals as refusal:
        return refusal


@pytest.mark.parametrize("name", [*SAMPLES])
def test_production_answers_as_the_rules_say_near_to_what_it_is_asked(name: str):
    question, answers = ASKED[name], set[str]()
    for asked in near(question, SAMPLES[name], 3000):
        answer = answer_of(question, asked)
        assert [*question.opinion(answer, *asked.args, **asked.kwargs)] == [], asked.arguments
        answers.add(repr(answer))
    assert len(answers) > 1


@pytest.mark.parametrize(("name", "actions"), [("controller", Step), ("snapshotter", Next)])
def test_every_decision_is_near(name: str, actions: Any):
    question = ASKED[f"snapshots.{name}.decide"]
    asked = near(question, SAMPLES[f"snapshots.{name}.decide"], 4000)
    assert {answer_of(question, each).action for each in asked} == {*actions}


# --- wrong answers


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        ((snapshot(going=True, held=False), content(), BOUND), Step.SETTLED),
        ((snapshot(going=True), None, BOUND), Step.RELEASE),
        ((snapshot(going=True), content(uid="x"), BOUND), Step.RELEASE),
        ((snapshot(going=True), content(), BOUND, ["ns/r"]), Step.WAIT),
        ((snapshot(going=True), content(), BOUND), Step.DELETE_CONTENT),
        ((snapshot(going=True), content(GOES), BOUND, ["ns/r"]), Step.DELETE_CONTENT),
        ((snapshot(going=True), content(GOES, going=True), BOUND), Step.WAIT),
        ((snapshot(going=True), content(policy="Retain"), BOUND), Step.DELETE_CONTENT),
        ((snapshot(going=True), content(GOES, policy="Retain", ready=True), BOUND), Step.RELEASE),
        ((snapshot(going=True), content(GOES, CREATED, policy="Retain"), BOUND), Step.WAIT),
        ((snapshot(going=True), content(GOES, policy="Retain"), BOUND), Step.DELETE_CONTENT),
        ((snapshot(), None, BOUND), Step.CREATE_CONTENT),
        ((snapshot(), None, claim()), Step.WAIT),
        ((snapshot(), None, None), Step.WAIT),
        ((snapshot(ready=True), None, BOUND), Step.WAIT),
        ((snapshot(named="mine"), None, BOUND), Step.WAIT),
        ((snapshot(), content(uid="x"), BOUND), Step.WAIT),
        ((snapshot(), content(uid=""), BOUND), Step.BIND),
        ((snapshot(), content(uid="", going=True), BOUND), Step.WAIT),
        ((snapshot(), content(ready=True), BOUND), Step.COPY_STATUS),
        ((snapshot(ready=True), content(ready=True), BOUND), Step.SETTLED),
    ],
)
def test_every_other_step_of_a_snapshot_is_objected_to(asked: tuple[Any, ...], right: Step):
    assert decide.decide(*asked).action is right
    for step in Step:
        assert bool([*snapshots.of_step(Decision(step, WHY), *asked)]) is (step is not right)


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        (content(held=False), Next.HOLD),
        (content(GOES), Next.SETTLED),
        (content(GOES, CREATED), Next.TAKE),
        (content(), Next.TAKE),
        (content(handle="h"), Next.TAKE),
        (content(CREATED, ready=True), Next.ANSWERED),
        (content(ready=True), Next.SETTLED),
        (content(ready=True, going=True), Next.WAIT),
        (content(GOES, ready=True, going=True), Next.DELETE),
        (content(GOES, ready=True, going=True, held=False), Next.SETTLED),
        (content(GOES, ready=True, going=True, policy="Retain"), Next.RELEASE),
        (content(GOES, CREATED, going=True), Next.TAKE),
        (content(GOES, CREATED, going=True, policy="Retain"), Next.RELEASE),
        (content(GOES, going=True), Next.RELEASE),
        (content(going=True, given="h", uid=""), Next.DELETE),
        (content(going=True, given="h"), Next.WAIT),
    ],
)
def test_every_other_step_of_a_content_is_objected_to(asked: VolumeSnapshotContent, right: Next):
    assert content_decisions.decide(asked).action is right
    for step in Next:
        assert bool([*snapshot_contents.of_step(Decision(step, WHY), asked)]) is (step is not right)


STATUS = decide.status_of(content(ready=True), VolumeSnapshotStatus())
FAILED = decide.status_of(content(failed=True), VolumeSnapshotStatus())
SINCE = replace(FAILED, error=SnapshotError(time="t0", message="full"))


@pytest.mark.parametrize(
    ("opinion", "right", "wrong", "asked"),
    [
        *[
            (
                snapshots.of_status,
                STATUS,
                replace(STATUS, **other),
                (content(ready=True), VolumeSnapshotStatus()),
            )
            for other in (
                {"bound_volume_snapshot_content_name": "x"},
                {"ready_to_use": False},
                {"creation_time": None},
                {"restore_size": "2Ki"},
                {"error": SnapshotError(message="full")},
            )
        ],
        (snapshots.of_status, FAILED, replace(FAILED, error=None), (content(failed=True), STATUS)),
        (snapshots.of_status, FAILED, SINCE, (content(failed=True), STATUS)),
        (snapshots.of_status, SINCE, FAILED, (content(failed=True), SINCE)),
        (snapshots.of_name, decide.content_name(snapshot()), "snapcontent-s", (snapshot(),)),
        (snapshots.of_name, "mine", "snapcontent-u", (snapshot(named="mine"),)),
        (snapshots.of_being_taken, True, False, (snapshot(),)),
        (snapshots.of_being_taken, False, True, (snapshot(ready=True),)),
        (snapshots.of_restored, decide.restored_from(RESTORED), [], (RESTORED,)),
        (snapshots.of_restored, [], ["ns/s"], (replace(RESTORED, status=BOUND.status),)),
        (snapshots.of_class, WHY, CLASS, (snapshot(), [CLASS], "d")),
        (snapshot_contents.of_handle, "h", None, (content(ready=True),)),
        (snapshot_contents.of_name, snapshot_name("u"), "u", ("u",)),
        (snapshot_contents.of_parameters, {"a": "b"}, SECRET | {"a": "b"}, (SECRET | {"a": "b"},)),
        (snapshot_contents.of_last_secret, None, SecretReference(name="s"), (content(),)),
        (snapshot_contents.of_secret, SecretReference(name="s-s", namespace="ns"), None, (SECRET, content())),
        (
            snapshot_contents.of_secret,
            SecretReference(name="s-s", namespace="ns"),
            InvalidSpec("no"),
            (SECRET, content()),
        ),
    ],
)
def test_another_answer_is_objected_to(
    opinion: Callable[..., Any], right: Any, wrong: Any, asked: tuple[Any, ...]
):
    assert [*opinion(right, *asked)] == []
    assert [*opinion(wrong, *asked)]


@pytest.mark.parametrize(
    ("error", "before", "answered"),
    [
        (StorageRefused("no"), True, True),
        (NotAsked("not sent"), False, True),
        (NotAsked("not sent"), True, False),
        (OutcomeUnknown("lost"), False, False),
        (OSError("broken"), False, False),
    ],
)
def test_whether_an_error_is_an_answer_is_judged(error: Exception, before: bool, answered: bool):
    assert content_decisions.is_answered(error, asked_before=before) is answered
    assert [*snapshot_contents.of_answered(answered, error, asked_before=before)] == []
    assert [*snapshot_contents.of_answered(not answered, error, asked_before=before)]


def test_a_content_is_the_snapshots_own_from_the_beginning():
    asked = (snapshot(), CLASS, "v", "Block")
    body = decide.content_body(*asked)
    assert [*snapshots.of_body(body, *asked)] == []
    for part, key in (("metadata", "finalizers"), ("spec", "source"), ("spec", "deletionPolicy")):
        assert len([*snapshots.of_body(body | {part: body[part] | {key: None}}, *asked)]) == 1


def test_a_default_class_is_its_drivers_only_one():
    default = replace(CLASS, metadata=ObjectMeta(name="d", annotations={f"{NAMES}is-default-class": "true"}))
    twice = [default, replace(default, metadata=replace(default.metadata, name="e"))]
    for classes, right in (([CLASS, default], default), (twice, None)):
        asked = (snapshot(), classes, "d")
        assert [*snapshots.of_class(decide.class_of(*asked), *asked)] == []
        assert [*snapshots.of_class(CLASS if right else default, *asked)]


def test_claims_are_made_of_snapshots_only_as_long_as_they_wait():
    lost: PersistentVolumeClaim = replace(RESTORED, status=replace(RESTORED.status, phase="Lost"))
    assert [*snapshots.of_restored(decide.restored_from(lost), lost)] == []
