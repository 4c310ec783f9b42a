"""Second opinions about what is so when a step of a StatefulSet's controller has ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from step_requests import patched, said_of
from tests.conftest import run_in_virtual_time

from mooring.controllers.statefulset.decide import Action, PodDecision
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    StatefulSet,
    StatefulSetSpec,
)
from mooring.kube.objects.apps import ClaimRetentionPolicy
from mooring.kube.objects.meta import Condition, OwnerReference
from mooring.kube.reason import Reason
from mooring.kube.rests import Rests
from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions import statefulset_outcomes as outcomes
from mooring.simulation.checks.second_opinions.server_requests import Mark, Request
from mooring.simulation.checks.second_opinions.statefulsets import counted

KEY = "ns/app"
SET = StatefulSet(
    metadata=ObjectMeta(name="app", namespace="ns", uid="u"),
    spec=StatefulSetSpec(replicas=1, volume_claim_templates=[{"metadata": {"name": "data"}, "spec": {}}]),
)
PATIENT = replace(SET, spec=replace(SET.spec, min_ready_seconds=30))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
BODY = {"metadata": {"name": "data-app-0"}}
STEP = PodDecision(Action.DELETE, Reason("Any", "words"), 0)
REVISION = "new"


def pod(phase: str = "Running", *, ready: str | None = None, labels: dict[str, str] | None = None) -> Pod:
    metadata = ObjectMeta(name="app-0", namespace="ns", uid="p", labels=labels or {})
    conditions = (Condition(type="Ready", status="True", last_transition_time=ready),) if ready else ()
    return Pod(metadata=metadata, status=PodStatus(phase=phase, conditions=conditions))


def claim(*, deleting: bool = False, uid: str = "") -> PersistentVolumeClaim:
    gone = "t" if deleting else None
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data-app-0", namespace="ns", uid=uid, deletion_timestamp=gone)
    )


class Controller:
    """What an opinion looks at."""

    def __init__(self, *pods: Pod, claims: Any = (), stateful_set: StatefulSet = SET) -> None:
        self.pods, self.queue = pods, WorkQueue[str]()
        self._claims = {each.key: each for each in claims}
        self._sets = {KEY: stateful_set}
        self._rests: dict[str, tuple[int, Rests[int]]] = {KEY: (SET.metadata.generation, Rests())}

    def _pods_of(self, stateful_set: StatefulSet) -> dict[int, Pod]:
        return dict(enumerate(self.pods))

    def now(self) -> datetime:
        return NOW


MADE = Request("create", Pod, "ns/app-0", pod(), {})
TAKEN = Request("create", Pod, "ns/app-0", AlreadyExists("", status=409), {})


@pytest.mark.parametrize(
    ("requests", "noted", "claim_found", "rests", "right"),
    [
        ([MADE], True, True, False, True),
        ([TAKEN], False, True, False, True),
        ([], False, False, False, True),
        ([], False, True, True, True),
        ([MADE], False, True, False, False),
        ([TAKEN], True, True, False, False),
        ([MADE], True, False, False, False),
        ([MADE], True, None, False, False),
        ([MADE], True, True, True, False),
    ],
)
def test_a_pod_that_is_made_is_noted_and_its_claims_stay(
    requests: list[Request], noted: bool, claim_found: bool | None, rests: bool, right: bool
):
    asked: Any = Controller()

    async def begin() -> Any:
        if rests:
            for _ in range(2):
                asked._rests[KEY][1].note(0, 0.0)
        before = outcomes.before_a_pod(asked, SET, 0, REVISION)
        if claim_found is not None:
            _ = [*outcomes.of_a_claim_found(claim_found, Mark([], 0), asked, SET, BODY, 0)]
        if noted:
            asked._rests[KEY][1].note(0, 100.0)
        return before

    before = run_in_virtual_time(begin())
    found = said_of(
        lambda mark: outcomes.of_a_pod_made(None, before._replace(mark=mark), asked, SET, 0, REVISION),
        *requests,
    )
    assert (not found) is right


def test_what_rested_for_what_the_set_wanted_before_rests_no_more():
    asked: Any = Controller()
    rests = asked._rests[KEY][1]
    rests.note(0, 0.0)
    assert outcomes._noted(asked, SET, 0) == (1, 0.0)
    asked._rests[KEY] = SET.metadata.generation + 1, rests
    assert outcomes._noted(asked, SET, 0) is None


@pytest.mark.parametrize(
    ("uid", "forgotten", "right"),
    [("p", False, True), ("p", True, False), ("other", False, False), (None, False, False)],
)
def test_the_very_pod_is_deleted_and_its_successor_rests_as_before(
    uid: str | None, forgotten: bool, right: bool
):
    asked: Any = Controller()
    asked._rests[KEY][1].note(0, 0.0)
    deletion = Request("delete", Pod, "ns/app-0", None, {"uid": uid})

    def opinion(mark: Any) -> Any:
        before = outcomes.before_a_deletion(asked, SET, STEP, pod())
        if forgotten:
            asked._rests[KEY][1].end(0)
        return outcomes.of_a_deletion(None, before._replace(mark=mark), asked, SET, STEP, pod())

    assert (not said_of(opinion, deletion)) is right


@pytest.mark.parametrize(
    ("labels", "told", "right"),
    [
        ({outcomes.IDENTITY: "app-0"}, False, True),
        ({}, True, True),
        ({}, False, False),
        ({outcomes.IDENTITY: "app-0"}, True, False),
    ],
)
def test_a_pod_is_told_whose_identity_it_has_if_it_does_not_say_so(
    labels: dict[str, str], told: bool, right: bool
):
    pods = {0: pod(labels=labels)}
    requests = [patched(Pod, "ns/app-0", pod())] if told else []
    assert (not said_of(lambda mark: outcomes.of_names(None, mark, None, SET, pods), *requests)) is right


@pytest.mark.parametrize(
    ("claims", "answer", "made", "right"),
    [
        ([claim()], True, False, True),
        ([claim(deleting=True)], False, False, True),
        ([], True, True, True),
        ([claim(deleting=True)], True, False, False),
        ([], True, False, False),
    ],
)
def test_a_claim_that_is_there_stays_or_was_made(claims: Any, answer: bool, made: bool, right: bool):
    asked: Any = Controller(claims=claims)
    requests = [Request("create", PersistentVolumeClaim, "ns/data-app-0", claim(), {})] if made else []
    found = said_of(lambda mark: outcomes.of_a_claim_found(answer, mark, asked, SET, BODY, 0), *requests)
    assert (not found) is right


@pytest.mark.parametrize(
    ("owned", "deleting", "delete", "right"),
    [
        (True, False, True, True),
        (False, False, False, True),
        (False, True, True, True),
        (False, False, True, False),
        (True, False, False, False),
    ],
)
def test_a_claim_has_the_owners_that_it_is_to_have(owned: bool, deleting: bool, delete: bool, right: bool):
    """Those of a set with whenDeleted=Delete are the set's."""
    policy = ClaimRetentionPolicy(when_deleted="Delete" if delete else "Retain")
    of = replace(SET, spec=replace(SET.spec, persistent_volume_claim_retention_policy=policy))
    reference = OwnerReference("apps/v1", "StatefulSet", of.name, of.uid, controller=True)
    there = claim(deleting=deleting)
    if owned:
        there = replace(there, metadata=replace(there.metadata, owner_references=(reference,)))
    asked: Any = Controller(claims=[there], stateful_set=of)
    assert (not [*outcomes.of_owners(None, outcomes.misowned(asked, of, {}), asked, of, {})]) is right


@pytest.mark.parametrize(
    ("deleted", "going", "right"),
    [(True, True, True), (False, False, True), (True, False, False), (False, True, False)],
)
def test_what_a_step_has_deleted_counts_as_going(deleted: bool, going: bool, right: bool):
    asked: Any = Controller(pod())
    outcomes.step_begins(asked, SET)
    if deleted:

        def opinion(mark: Any) -> Any:
            before = outcomes.Beginning(mark, None, 0.0)
            return outcomes.of_a_deletion(None, before, asked, SET, STEP, pod())

        assert not said_of(opinion, Request("delete", Pod, "ns/app-0", None, {"uid": "p"}))
    uids = {"p"} if going else set[str]()
    asked._sets[KEY] = replace(SET)  # another state has come
    before = outcomes.before_a_status(asked, SET)
    assert (not [*outcomes.of_told_status(None, before, asked, SET, REVISION, uids)]) is right


@pytest.mark.parametrize("told", [True, False])
def test_the_status_says_what_there_is(told: bool):
    status = counted(SET, [pod()], REVISION, (), NOW)
    stored = replace(SET, status=status) if told else SET
    asked: Any = Controller(pod(), stateful_set=stored)
    before = outcomes.before_a_status(asked, stored)
    assert (not [*outcomes.of_told_status(None, before, asked, stored, REVISION, ())]) is told


@pytest.mark.parametrize(
    ("stateful_set", "ready", "looks", "right"),
    [
        (PATIENT, "2029-12-31T23:59:50Z", True, True),
        (PATIENT, "2029-12-31T23:59:10Z", False, True),
        (SET, "2029-12-31T23:59:50Z", False, True),
        (PATIENT, None, False, True),
        (PATIENT, "2029-12-31T23:59:50Z", False, False),
    ],
)
def test_the_set_is_looked_at_when_a_pod_will_have_been_ready_for_long(
    stateful_set: StatefulSet, ready: str | None, looks: bool, right: bool
):
    async def story() -> list[str]:
        asked: Any = Controller(pod(ready=ready), stateful_set=replace(stateful_set))
        if looks:
            asked.queue.add_after(KEY, 20)
        before = outcomes.before_a_status(asked, stateful_set)
        return [*outcomes.of_told_status(None, before, asked, stateful_set, REVISION, ())]

    assert (not run_in_virtual_time(story())) is right


@pytest.mark.parametrize(("delete", "right"), [(False, True), (True, False)])
def test_with_a_step_claims_get_their_owners(delete: bool, right: bool):
    policy = ClaimRetentionPolicy(when_deleted="Delete" if delete else "Retain")
    of = replace(SET, spec=replace(SET.spec, persistent_volume_claim_retention_policy=policy))
    asked: Any = Controller(claims=[claim()], stateful_set=of)
    before = outcomes.step_begins(asked, of)
    assert (not [*outcomes.of_a_step(None, before, asked, of, REVISION, set())]) is right


@pytest.mark.parametrize(("before", "right"), [(None, True), ("former", True), ("made-anew", False)])
def test_a_claim_that_comes_while_a_step_writes_gets_its_owners_with_the_next(
    before: str | None, right: bool
):
    """Another makes it under the name that the set is about to use (21090 of the swarm)."""
    policy = ClaimRetentionPolicy(when_deleted="Delete")
    of = replace(SET, spec=replace(SET.spec, persistent_volume_claim_retention_policy=policy))
    asked: Any = Controller(claims=[claim(uid=before)] if before else [], stateful_set=of)
    known = outcomes.step_begins(asked, of)
    there = claim(uid="made-anew")
    asked._claims[there.key] = there
    assert (not [*outcomes.of_owners(None, known, asked, of, {})]) is right
    assert (not [*outcomes.of_a_step(None, known, asked, of, REVISION, set[str]())]) is right


@pytest.mark.parametrize(("by_the_step", "right"), [(True, False), (False, True)])
def test_a_claim_goes_with_a_pod_that_is_scaled_away_by_the_step_itself(by_the_step: bool, right: bool):
    """A pod that went by itself while the step wrote can own nothing any more."""
    policy = ClaimRetentionPolicy(when_scaled="Delete")
    none = replace(SET, spec=replace(SET.spec, replicas=0, persistent_volume_claim_retention_policy=policy))
    asked: Any = Controller(pod(), claims=[claim()], stateful_set=none)
    before = outcomes.step_begins(asked, none)
    if by_the_step:
        outcomes.STEPS.of(asked)[KEY].deleted.add("p")
    asked.pods = ()
    assert (not [*outcomes.of_a_step(None, before, asked, none, REVISION, set[str]())]) is right
