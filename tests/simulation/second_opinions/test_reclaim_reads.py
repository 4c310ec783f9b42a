"""Nothing is destroyed that was not read live: second opinions about it."""

from __future__ import annotations

from typing import Any

import pytest
from claims_and_volumes import claim, volume
from msgspec.structs import replace
from step_requests import listed, patched, read, said_of

from mooring.kube.errors import AlreadyExists, NotFound, Unreachable
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pods import PodSpec
from mooring.simulation.checks.second_opinions import reclaim_reads
from mooring.simulation.checks.second_opinions.server_requests import Request

ASKED: Any = None
PV, PVC = PersistentVolume, PersistentVolumeClaim
GONE = NotFound("", status=404)
FREED = volume(to="u", phase="Released", persistent_volume_reclaim_policy="Delete")
MADE = replace(FREED, metadata=replace(FREED.metadata, annotations={"pv.kubernetes.io/provisioned-by": "d"}))
ANOTHER = replace(FREED, metadata=replace(FREED.metadata, uid="another"))
OFFERED = volume(to=None, phase="Released", persistent_volume_reclaim_policy="Delete")
BOUND = volume(to="u", phase="Bound", persistent_volume_reclaim_policy="Delete")
ON_N = VolumeAttachment(
    spec=VolumeAttachmentSpec(node_name="n", source=VolumeAttachmentSource(persistent_volume_name="pv"))
)
USER = Pod(
    metadata=ObjectMeta(name="p", namespace="ns"),
    spec=PodSpec(
        node_name="n",
        volumes=(
            Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c")),
        ),
    ),
)


@pytest.mark.parametrize(
    ("shown", "answer", "right"),
    [
        (FREED, True, True),
        (BOUND, False, True),
        (GONE, False, True),
        (ANOTHER, False, True),
        (OFFERED, False, True),
        (FREED, False, False),
        (BOUND, True, False),
        (GONE, True, False),
        (ANOTHER, True, False),
        (OFFERED, True, False),
        (None, True, False),
        (None, False, False),
        (Unreachable(""), True, False),
    ],
)
def test_the_mark_is_read_live(shown: Any, answer: bool, right: bool):
    reads = [read(PV, "pv", shown)] if shown is not None else []
    assert (not said_of(lambda mark: reclaim_reads.of_marked(answer, mark, ASKED, FREED), *reads)) is right


@pytest.mark.parametrize(
    ("shown", "answer", "right"),
    [
        (GONE, True, True),
        (claim(uid="next"), True, True),
        (claim(), False, True),
        (GONE, False, False),
        (claim(), True, False),
        (None, True, False),
        (None, False, False),
    ],
)
def test_the_claim_is_read_live(shown: Any, answer: bool, right: bool):
    reads = [read(PVC, "ns/c", shown)] if shown is not None else []
    assert (not said_of(lambda mark: reclaim_reads.of_no_claim(answer, mark, ASKED, FREED), *reads)) is right


def test_a_volume_that_names_no_claim_has_none_that_could_be_gone():
    assert not said_of(lambda mark: reclaim_reads.of_no_claim(False, mark, ASKED, volume()))


@pytest.mark.parametrize(
    ("live", "answer", "right"),
    [
        ((ON_N,), ["n"], True),
        ((), [], True),
        ((ON_N,), [], False),
        ((), ["n"], False),
        (None, [], False),
    ],
)
def test_where_a_volume_is_attached_is_read_live(live: Any, answer: list[str], right: bool):
    reads = [listed(VolumeAttachment, "", *live)] if live is not None else []
    assert (not said_of(lambda mark: reclaim_reads.of_attached(answer, mark, ASKED, FREED), *reads)) is right


@pytest.mark.parametrize(
    ("live", "shown", "answer", "right"),
    [
        ((USER,), GONE, [USER], True),
        ((), None, [], True),
        ((USER,), claim(uid="next"), [], True),  # whose pod that is, is told by another opinion
        ((USER,), None, [], False),
        ((USER,), GONE, None, False),
        ((), None, [USER], True),
        (None, None, [], False),
    ],
)
def test_which_pods_use_a_volume_is_read_live(live: Any, shown: Any, answer: Any, right: bool):
    reads = [listed(Pod, "ns", *live)] if live is not None else []
    reads += [read(PVC, "ns/c", shown)] if shown is not None else []
    assert (not said_of(lambda mark: reclaim_reads.of_pods(answer, mark, ASKED, FREED), *reads)) is right


@pytest.mark.parametrize(
    ("pv", "lists", "right"),
    [(FREED, True, True), (MADE, False, True), (FREED, False, False), (MADE, True, False)],
)
def test_all_volumes_are_listed_for_one_that_people_made_alone(
    pv: PersistentVolume, lists: bool, right: bool
):
    reads = [listed(PV, "")] if lists else []
    assert (not said_of(lambda mark: reclaim_reads.of_others([], mark, ASKED, pv), *reads)) is right


READS = [read(PV, "pv", FREED), read(PVC, "ns/c", GONE), listed(VolumeAttachment, ""), listed(Pod, "ns")]
AGAIN = READS[0]


@pytest.mark.parametrize(
    ("reads", "answer", "right"),
    [
        ([*READS, AGAIN], True, True),
        ([*READS, read(PVC, "ns/c", GONE), listed(PV, ""), AGAIN], True, True),
        (READS[:2], False, True),
        *[([*READS[:left], *READS[left + 1 :], AGAIN], True, False) for left in range(4)],
        ([READS[2], *READS[:2], READS[3], AGAIN], True, False),
        (READS, True, False),
        ([*READS, listed(PV, "")], True, False),
    ],
)
def test_all_is_read_in_its_order_before_anything_is_destroyed(
    reads: list[Request], answer: bool, right: bool
):
    found = said_of(lambda mark: reclaim_reads.of_reclaiming(answer, mark, ASKED, FREED), *reads)
    assert (not found) is right


LET_GO = patched(PVC, "ns/c", claim(), metadata={"finalizers": []})
BEGUN = patched(PVC, "ns/c", claim(), metadata={"finalizers": ["mooring.dev/provisioning"]})


def creation(answer: Any) -> Request:
    return Request("create", PV, "pvc-u", answer, {})


@pytest.mark.parametrize(
    ("requests", "right"),
    [
        ([BEGUN, creation(MADE), LET_GO], True),
        ([creation(AlreadyExists("", status=409)), LET_GO], True),
        ([creation(MADE)], True),
        ([LET_GO, creation(MADE)], False),
        ([LET_GO], False),
        ([creation(Unreachable("")), LET_GO], False),
    ],
)
def test_a_claim_is_let_go_when_its_volume_is_written(requests: list[Request], right: bool):
    def opinion(mark: Any) -> Any:
        return reclaim_reads.of_a_claim_let_go(None, mark, ASKED, claim(), StorageClass())

    assert (not said_of(opinion, *requests)) is right
