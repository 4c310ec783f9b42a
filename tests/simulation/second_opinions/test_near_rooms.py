"""Near to the questions of each room: each fact that may be another is, production answers as the rules say,
and each of the functions is one that is asked near to what a run asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import BoundArguments, signature
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from pod_volumes import volume_state

from mooring.controllers.attacher.decide import PLUGINS
from mooring.kube.objects import (
    Condition,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeStatus,
    Pod,
    PodStatus,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.kube.objects.nodes import NodeStatus, NodeSystemInfo
from mooring.node.volumes.decide import Action, Presence, VolumeState
from mooring.node.volumes.records import DeviceRecord, VolumeRecord
from mooring.node.volumes.volume import PodOperation, Want, WantedVolume
from mooring.simulation.checks.second_opinions import (
    Question,
    attacher_requests,
    attacher_steps,
    identities,
    mounting,
    node_states,
    statefulsets,
)
from mooring.simulation.checks.second_opinions.near import changed
from mooring.volumes.names import ATTACHER, ATTACHER_FINALIZER
from mooring.volumes.spec import VolumeSpec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROOMS = (attacher_requests, attacher_steps, identities, mounting, node_states, statefulsets)
ASKED = {str(each): each for room in ROOMS for each in room.QUESTIONS if each.near is not None}


# --- what is asked


def pod(ordinal: int) -> Pod:
    ready = Condition(type="Ready", status="True", last_transition_time="2029-12-31T23:59:50Z")
    return Pod(
        metadata=ObjectMeta(
            name=f"app-{ordinal}",
            namespace="ns",
            uid=f"p{ordinal}",
            labels={"controller-revision-hash": "new"},
        ),
        status=PodStatus(phase="Running", conditions=(ready,)),
    )


TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main"}]}}
CLAIM: dict[str, Any] = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SET = StatefulSet(
    metadata=ObjectMeta(name="app", namespace="ns", uid="u"),
    spec=StatefulSetSpec(
        replicas=3,
        min_ready_seconds=10,
        template=TEMPLATE,
        volume_claim_templates=(CLAIM,),
        selector=LabelSelector(match_labels={"app": "x"}),
    ),
    status=StatefulSetStatus(current_revision="old"),
)
OWNER = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="app", uid="u", controller=True)
HELD = PersistentVolumeClaim(
    metadata=ObjectMeta(name="data-app-0", namespace="ns", owner_references=(OWNER,))
)
CONTROLLER = SimpleNamespace(_revisions=SimpleNamespace(get=lambda namespace, name: None))
RECORD = VolumeAttachment(
    metadata=ObjectMeta(name="va", uid="v", finalizers=(ATTACHER_FINALIZER,)),
    spec=VolumeAttachmentSpec(attacher=ATTACHER, node_name="n0"),
    status=VolumeAttachmentStatus(attached=True, attachment_metadata={"devicePath": "/dev/x"}),
)
NODE = Node(
    metadata=ObjectMeta(name="n0"),
    status=NodeStatus(node_info=NodeSystemInfo(system_uuid="4c4c4544-0044-4710-8035-c4c04f4c3332")),
)
VOLUME = PersistentVolume(metadata=ObjectMeta(name="pv"), status=PersistentVolumeStatus(phase="Bound"))
MOUNTED = volume_state(
    attachable=True,
    has_device=True,
    wanted_by=frozenset("ab"),
    starting=frozenset("a"),
    pods={"a": Presence.UNCERTAIN, "b": Presence.PRESENT},
    device=Presence.PRESENT,
    published=True,
    reported=True,
)


def known(device: DeviceRecord | None = None) -> WantedVolume:
    return WantedVolume(
        VolumeRecord("v", "p", attachable=True, has_device=True, device=device),
        wants={"a": Want(Pod(), ("data",), VolumeSpec("pv", persistent_volume=VOLUME), 0.0)},
        operations={"a": PodOperation(Action.SET_UP, False, 1, 2e3)},
    )


CONTROLLERS = "mooring.controllers"
SAMPLES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "mooring.node.volumes.manager.decide": ((MOUNTED,), {}),
    "mooring.node.volumes.handshake._problem": ((RECORD, NODE), {}),
    "WantedVolume.state": (
        (known(DeviceRecord("/mnt")),),
        {"published": True, "reported": True, "now": 1e3, "one_at_a_time": False},
    ),
    "WantedVolume.awaited_epoch": ((known(), "n0"), {}),
    "WantedVolume.rest": ((known(), 1e3), {}),
    f"{CONTROLLERS}.statefulset.controller.decide": ((SET, {n: pod(n) for n in range(3)}, "new", NOW), {}),
    f"{CONTROLLERS}.statefulset.controller.revision_for": ((SET, 1, "new"), {}),
    f"{CONTROLLERS}.statefulset.controller.status_of": (
        (SET, [pod(n) for n in range(3)], "new", set(), NOW),
        {},
    ),
    f"{CONTROLLERS}.statefulset.controller.claim_bodies": ((SET, 1), {}),
    f"{CONTROLLERS}.statefulset.controller.is_stale": ((HELD, SET, "app-0", pod(0)), {}),
    f"{CONTROLLERS}.statefulset.controller.claim_owners": (
        (SET, HELD, "app-0", pod(0)),
        {"condemned": False},
    ),
    "StatefulSetController._body": ((CONTROLLER, SET, 1, "new"), {}),
    f"{CONTROLLERS}.attacher.controller.decide": ((RECORD,), {"ours": PLUGINS}),
    f"{CONTROLLERS}.attacher.controller._what_matters": ((RECORD,), {}),
    f"{CONTROLLERS}.attacher.controller._check_lock": ((RECORD, VOLUME), {}),
    f"{CONTROLLERS}.attacher.controller._check_reclaim": ((RECORD, VOLUME), {}),
    f"{CONTROLLERS}.attacher.controller.is_verified": ((RECORD, PLUGINS), {}),
    f"{CONTROLLERS}.attacher.controller.correction": ((RECORD, True), {}),
    f"{CONTROLLERS}.attacher.requests.unanswered": ((("1", "3"), RECORD), {}),
    f"{CONTROLLERS}.attacher.requests.begun": (((), NOW), {}),
    f"{CONTROLLERS}.attacher.requests.without": ((("1", "3"), "3"), {}),
    f"{CONTROLLERS}.attacher.requests.outstanding_for": (([1.0], 2.0, 5.0), {}),
}


def asked_of(name: str) -> tuple[Question, Callable[..., Any], BoundArguments]:
    question, (args, kwargs) = ASKED[name], SAMPLES[name]
    real = question.owner.__dict__[question.name]
    asked = signature(real).bind(*args, **kwargs)
    asked.apply_defaults()
    return question, real, asked


# --- and near to it


def test_these_functions_are_asked_near_to_what_a_run_asks():
    assert {*ASKED} == {*SAMPLES}


@pytest.mark.parametrize("name", [*SAMPLES])
def test_production_answers_as_the_rules_say_near_to_what_is_asked(name: str):
    question, real, asked = asked_of(name)
    assert question.near is not None
    chance, before, judged = Random(3), repr(asked), 0
    for _ in range(400):
        if (near := question.near.drawn(chance, asked)) is None:
            continue
        try:
            answer = real(*near.args, **near.kwargs)
        except question.refusals as refusal:
            answer = refusal
        assert [*question.opinion(answer, *near.args, **near.kwargs)] == [], near.arguments
        judged += 1
    assert judged > 100
    assert repr(asked) == before


@pytest.mark.parametrize("name", [*SAMPLES])
def test_each_fact_is_another_in_some_of_them(name: str):
    question, _, asked = asked_of(name)
    assert question.near is not None
    for place, values in question.near.facts:
        chance, before = Random(3), dict(asked.arguments)
        found = [changed(chance, before, place, values) for _ in range(60)]
        assert any(each != before for each in found), place


@pytest.mark.parametrize(
    ("changes", "possible"),
    [
        ({}, True),
        ({"device": Presence.ABSENT}, False),
        ({"device": Presence.ABSENT, "pods": {}}, True),
        ({"device": Presence.ABSENT, "pods": {}, "under_way": frozenset("a")}, False),
        ({"device": Presence.ABSENT, "pods": {}, "stale": True}, False),
        ({"stale": True}, True),
        ({"stale": True, "attachable": False}, False),
        ({"has_device": False}, False),
        ({"has_device": False, "attachable": False, "device": Presence.ABSENT}, True),
        ({"under_way": frozenset("a"), "resting": {"a": Action.SET_UP}}, False),
        ({"under_way": frozenset("a"), "resting": {"b": Action.SET_UP}}, True),
    ],
)
def test_a_volume_that_no_agent_has_is_left_out(changes: dict[str, Any], possible: bool):
    question, _, _ = asked_of("mooring.node.volumes.manager.decide")
    assert question.near is not None
    given = VolumeState(**{**vars(MOUNTED), **changes})
    assert question.near.possible(given) == possible


def test_a_claim_of_two_controllers_is_left_out():
    question, _, asked = asked_of(f"{CONTROLLERS}.statefulset.controller.claim_owners")
    assert question.near is not None
    two = replace(HELD, metadata=replace(HELD.metadata, owner_references=(OWNER, replace(OWNER, uid="x"))))
    assert question.near.possible(**asked.arguments)
    assert not question.near.possible(**{**asked.arguments, "claim": two})
