"""Second opinions about what is so when the binder is done with a claim or a volume."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from claims_and_volumes import claim, volume
from msgspec.structs import replace
from step_requests import listed, patched, read, said_of
from tests.conftest import run_in_virtual_time

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import Action, ClaimDecision
from mooring.kube.errors import NotFound
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
)
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pods import PodSpec
from mooring.kube.reason import Reason
from mooring.kube.workqueue import WorkQueue
from mooring.simulation.checks.second_opinions import binding_outcomes as outcomes
from mooring.simulation.checks.second_opinions import work_left
from mooring.simulation.checks.second_opinions.server_requests import Request
from mooring.volumes.free_volumes import FreeVolumes

PV, PVC = PersistentVolume, PersistentVolumeClaim
GONE = NotFound("", status=404)
WHY = Reason("Any", "words")
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
MINE = volume(to="u", phase="Bound")
USER = Pod(
    metadata=ObjectMeta(name="p", namespace="ns"),
    spec=PodSpec(
        node_name="n",
        volumes=(
            Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c")),
        ),
    ),
)


class Binder(SimpleNamespace):
    """What an opinion looks at."""


class Cache(dict[str, Any]):
    """Of one kind, as of a version."""

    kind: Any = None
    version = 0

    def items(self) -> list[Any]:  # type: ignore[override]
        return [*self.values()]


def controller(*claims: PVC, volumes: Any = (), pods: Any = (), told: Any = None) -> Any:
    return Binder(
        queue=WorkQueue[Any](),
        recorder=SimpleNamespace(_last_reasons={("u", ""): told}),
        caches=(),
        _claims=Cache({each.key: each for each in claims}),
        _volumes=Cache({each.name: each for each in volumes}),
        _pods=Cache({each.key: each for each in pods}),
        _classes=Cache(),
        _free=FreeVolumes(),
        _chosen=set[str](),
    )


def waiting(phase: str) -> PVC:
    plain = claim()
    metadata = replace(plain.metadata, finalizers=("kubernetes.io/pvc-protection",))
    return replace(plain, metadata=metadata, status=PersistentVolumeClaimStatus(phase=phase))


@pytest.mark.parametrize(
    ("phase", "marked", "requests", "right"),
    [
        ("Pending", False, (), True),
        ("Bound", True, (), True),
        ("Bound", False, (patched(PVC, "ns/c", claim(), metadata={"finalizers": []}),), True),
        ("Bound", False, (Request("delete", PVC, "ns/c", None, {}),), True),
        ("Bound", False, (), False),
        ("Bound", False, (patched(PVC, "ns/c", GONE, metadata={"finalizers": []}),), False),
        ("Bound", False, (patched(PVC, "ns/c", claim(), spec={}),), False),
    ],
)
def test_nothing_is_left_to_be_done_when_work_on_a_key_has_ended(
    monkeypatch: Any, phase: str, marked: bool, requests: Any, right: bool
):
    asked, key = controller(waiting(phase)), ClaimKey("ns/c")
    monkeypatch.setitem(work_left._OF, Binder, work_left._OF[BindingController])

    def opinion(mark: Any) -> Any:
        if marked:
            asked.queue.add(key)
        return outcomes.of_work(None, mark, asked, key)

    assert (not said_of(opinion, *requests)) is right


def test_where_a_live_read_is_newer_than_the_caches_nothing_can_be_said(monkeypatch: Any):
    asked, key = controller(waiting("Bound")), ClaimKey("ns/c")
    monkeypatch.setitem(work_left._OF, Binder, work_left._OF[BindingController])
    asked.caches = (asked._claims,)
    asked._claims.kind = PVC
    newer = read(PVC, "ns/c", replace(claim(), metadata=replace(claim().metadata, resource_version="9")))
    assert not said_of(lambda mark: outcomes.of_work(None, mark, asked, key), newer)


@pytest.mark.parametrize(
    ("action", "told", "right"),
    [(Action.WAIT, WHY, True), (Action.BIND, None, True), (Action.WAIT, None, False)],
)
def test_a_claim_that_waits_says_what_for(action: Action, told: Any, right: bool):
    found = outcomes.of_a_claim_that_waits(None, ClaimDecision(action, WHY), controller(told=told), claim())
    assert (not [*found]) is right


def test_what_is_decided_about_a_claim_is_decided_by_the_rule():
    assert outcomes.what_is_decided(controller(claim()), claim()).action is Action.WAIT


@pytest.mark.parametrize(
    ("patch", "tell", "right"),
    [
        ({"spec": {}}, {"tell": False}, True),
        ({"metadata": {"annotations": {outcomes.RESIZER: "d"}}}, {}, True),
        ({"spec": {}}, {}, False),
        ({"metadata": {"annotations": BOUND}}, {"tell": True}, False),
    ],
)
def test_writes_that_bind_a_claim_do_not_wake_it(patch: Any, tell: Any, right: bool):
    async def story() -> list[str]:
        assert outcomes.of_a_write(None, None, claim(), patch, **tell) == ()  # by what binds nothing
        told = outcomes.binding_begins()
        assert outcomes.of_a_write(None, None, claim(), patch, **tell) == ()
        return [*outcomes.of_quiet_writes(None, told, None, claim(), volume())]

    assert (not run_in_virtual_time(story())) is right


@pytest.mark.parametrize(
    ("cached", "live", "answer", "right"),
    [
        ([USER], None, True, True),
        ([], [USER], True, True),
        ([], [], False, True),
        ([], None, False, False),
        ([], [USER], False, False),
        ([], [], True, False),
    ],
)
def test_that_no_pod_uses_a_claim_is_read_live(cached: Any, live: Any, answer: bool, right: bool):
    asked, lists = controller(pods=cached), [listed(Pod, "ns", *live)] if live is not None else []
    found = said_of(lambda mark: outcomes.of_protection(answer, mark, asked, claim()), *lists)
    assert (not found) is right


LOST = patched(PVC, "ns/c", claim(), status={"phase": "Lost"})
NAMES = claim(annotations=BOUND, volume_name="pv")


@pytest.mark.parametrize(
    ("of", "requests", "known", "right"),
    [
        (NAMES, [read(PV, "pv", GONE), LOST], (), True),
        (NAMES, [read(PV, "pv", volume(to="other")), LOST], (), True),
        (claim(annotations=BOUND), [LOST], (), True),
        (NAMES, [read(PV, "pv", MINE)], (MINE,), True),
        (NAMES, [], (), True),
        (NAMES, [LOST], (), False),
        (NAMES, [read(PV, "pv", MINE), LOST], (MINE,), False),
        (NAMES, [read(PV, "pv", MINE)], (), False),
    ],
)
def test_a_claim_is_told_to_be_lost_after_a_live_read(of: PVC, requests: Any, known: Any, right: bool):
    asked = controller(volumes=known)
    shown = [_of_version(each, "7") if each.kind is PV and each.succeeded else each for each in requests]
    found = said_of(
        lambda mark: outcomes.of_a_loss(None, mark, asked, of, ClaimDecision(Action.LOST, WHY)), *shown
    )
    assert (not found) is right


def _of_version(request: Any, version: str) -> Any:
    metadata = replace(request.answer.metadata, resource_version=version)
    return request._replace(answer=replace(request.answer, metadata=metadata))


@pytest.mark.parametrize(
    ("pv", "requests", "answer", "right"),
    [
        (MINE, [], claim(), True),
        (MINE, [read(PVC, "ns/c", GONE)], None, True),
        (MINE, [read(PVC, "ns/c", claim(uid="next"))], None, True),
        (volume(to=""), [], None, True),
        (volume(), [], None, True),
        (MINE, [], None, False),
        (MINE, [read(PVC, "ns/c", claim())], None, False),
        (MINE, [], claim(uid="next"), False),
        (volume(to=""), [], claim(), False),
    ],
)
def test_that_the_claim_of_a_volume_is_gone_is_read_live(pv: PV, requests: Any, answer: Any, right: bool):
    found = said_of(lambda mark: outcomes.of_a_volumes_claim(answer, mark, None, pv), *requests)
    assert (not found) is right


def of_finalizers(each: Any, *finalizers: str, deleting: bool = False) -> Any:
    gone = "t" if deleting else None
    return replace(each, metadata=replace(each.metadata, finalizers=finalizers, deletion_timestamp=gone))


@pytest.mark.parametrize("each", [claim(), volume()])
def test_what_stays_is_protected_and_nothing_that_goes_is_written(each: Any):
    protection = outcomes.PROTECTED_BY[type(each)]
    bare, whole = of_finalizers(each), of_finalizers(each, protection)
    goes, write = of_finalizers(each, deleting=True), patched(type(each), each.key, whole)

    def objects(answer: Any, before: Any, *requests: Request) -> bool:
        return bool(said_of(lambda mark: outcomes.of_finalizers(answer, mark, None, before), *requests))

    assert not objects(whole, whole)
    assert not objects(whole, bare, write)
    assert not objects(goes, goes)
    assert objects(bare, bare)
    assert objects(bare, bare, write)
    assert objects(whole, whole, write)
    assert objects(goes, goes, write)
    refused = patched(type(each), each.key, GONE)
    assert not objects(GONE, bare, refused)
    assert objects(GONE, goes, refused)


def test_a_volume_that_was_made_again_is_its_former_claims():
    mine = replace(
        claim(),
        metadata=replace(claim().metadata, annotations=BOUND),
        spec=replace(claim().spec, volume_name=volume().name),
    )
    asked = controller(mine)
    assert [*outcomes.of_its_owners([mine], asked, volume())] == []
    assert [*outcomes.of_its_owners([], asked, volume())]
    assert [*outcomes.of_its_owners([claim()], controller(claim()), volume())]
    assert [*outcomes.of_its_owners([mine], asked, volume(to="another"))]
