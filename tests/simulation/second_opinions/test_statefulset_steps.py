"""Second opinions about what a StatefulSet's controller does for one identity."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import run_in_virtual_time

from mooring.kube.objects import (
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    StatefulSet,
    StatefulSetSpec,
)
from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions.statefulset_steps import (
    begins,
    of_a_claim,
    of_a_claim_that_is_gone,
    of_a_pod,
    of_missing_claims,
)

KEY = "ns/app"
SET = StatefulSet(
    metadata=ObjectMeta(name="app", namespace="ns", uid="u"),
    spec=StatefulSetSpec(replicas=2, volume_claim_templates=[{"metadata": {"name": "data"}, "spec": {}}]),
)
ENDS = replace(SET, metadata=replace(SET.metadata, deletion_timestamp="t"))


class Controller:
    """What an opinion looks at."""

    def __init__(self, pods: dict[int, Pod] | None = None, *claims: PersistentVolumeClaim) -> None:
        self.pods, self.queue = pods or {}, WorkQueue[str]()
        self._claims = {claim.key: claim for claim in claims}

    def _pods_of(self, stateful_set: StatefulSet) -> dict[int, Pod]:
        return self.pods


def pod(phase: str = "Pending", *, deleting: bool = False, uid: str = "p") -> Pod:
    gone = "t" if deleting else None
    metadata = ObjectMeta(name="app-0", namespace="ns", uid=uid, deletion_timestamp=gone)
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


def claim(*, deleting: bool = False, owned: bool = False) -> PersistentVolumeClaim:
    owners = (OwnerReference(api_version="v1", kind="Pod", name="app-0", uid="former"),) if owned else ()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="data-app-0",
            namespace="ns",
            deletion_timestamp="t" if deleting else None,
            owner_references=owners,
        )
    )


@pytest.mark.parametrize(
    ("stateful_set", "ordinal", "there", "right"),
    [
        (SET, 0, None, True),
        (SET, 1, pod(), True),
        (SET, 1, pod(""), True),
        (SET, 1, pod("Running"), False),
        (SET, 1, pod(deleting=True), False),
        (SET, 2, None, False),
        (SET, 2, pod(), False),
        (ENDS, 0, None, False),
    ],
)
def test_claims_are_for_pods_that_there_are_to_be(
    stateful_set: StatefulSet, ordinal: int, there: Pod | None, right: bool
):
    body = {"metadata": {"name": f"data-app-{ordinal}"}}
    found = [*of_a_claim(True, there, Controller(), stateful_set, body, ordinal)]  # type: ignore[arg-type]
    assert (not found) is right


@pytest.mark.parametrize(
    ("stateful_set", "there", "seen_to", "right"),
    [
        (SET, pod(), True, True),
        (SET, pod("Running"), False, True),
        (SET, pod(deleting=True), False, True),
        (ENDS, pod(), False, True),
        (SET, pod(), False, False),
        (SET, pod(""), False, False),
    ],
)
def test_all_claims_of_a_pod_that_waits_are_seen_to(
    stateful_set: StatefulSet, there: Pod, seen_to: bool, right: bool
):
    asked: Any = Controller({0: there})
    before: dict[int, Pod] = {}
    for former in (True, seen_to):  # what was seen to in an earlier step does not count
        before = begins(asked, stateful_set)
        if former:
            _ = [*of_a_claim(True, there, asked, stateful_set, {"metadata": {"name": "data-app-0"}}, 0)]
    assert (not [*of_missing_claims(None, before, asked, stateful_set)]) is right


@pytest.mark.parametrize(
    ("before", "now", "right"),
    [
        (pod(), pod(""), False),
        (pod(), pod("Running"), True),
        (pod(), pod(deleting=True), True),
        (pod(), None, True),
        (None, pod(), True),
        (pod(), pod(uid="another"), True),
        (pod("Failed"), pod(uid="another"), True),
    ],
)
def test_claims_of_a_pod_that_did_not_wait_all_the_while_need_not_be_seen_to(
    before: Pod | None, now: Pod | None, right: bool
):
    """To create the claims of one takes time, in which others change (61269 of the swarm)."""
    asked: Any = Controller({0: before} if before else {})
    waiting = begins(asked, SET)
    asked.pods = {0: now} if now else {}
    assert (not [*of_missing_claims(None, waiting, asked, SET)]) is right


@pytest.mark.parametrize(
    ("controller", "then", "right"),
    [
        (lambda: Controller({0: pod()}), None, True),
        (lambda: Controller({}, claim(deleting=True)), None, True),
        (lambda: Controller({}, claim(owned=True)), None, True),
        (Controller, lambda queue: queue.add_after(KEY, 10), True),
        (Controller, lambda queue: queue.add(KEY), True),
        (Controller, None, False),
        (lambda: Controller({}, claim()), None, False),
        (Controller, lambda queue: queue.add("ns/other"), False),
    ],
)
def test_a_pod_that_was_not_made_is_tried_again(
    controller: Callable[[], Controller], then: Callable[[Any], None] | None, right: bool
):
    async def story() -> list[str]:
        asked: Any = controller()
        if then is not None:
            then(asked.queue)
        return [*of_a_pod(None, asked, SET, 0, "new")]

    assert (not run_in_virtual_time(story())) is right


@pytest.mark.parametrize(
    ("old", "new", "marked", "right"),
    [
        (claim(), None, True, True),
        (claim(), claim(), False, True),
        (None, claim(), False, True),
        (claim(), None, False, False),
    ],
)
def test_the_end_of_a_claim_has_its_set_looked_at(
    old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None, marked: bool, right: bool
):
    async def story() -> list[str]:
        asked: Any = Controller()
        asked._sets = SimpleNamespace(items=lambda: [SET])
        if marked:
            asked.queue.add(KEY)
        return [*of_a_claim_that_is_gone(None, asked, old, new)]

    assert (not run_in_virtual_time(story())) is right
