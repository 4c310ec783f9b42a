"""Snapshots, volumes that are restored from them, and copies of claims: S47 to S50, and L24, on traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.test_invariants import CUT, Events, found, gone, written

from mooring.simulation.checks.invariants.kept_objects import KeptObjects
from mooring.simulation.checks.kept_snapshots import CLONED, SOURCE, left
from mooring.simulation.engine.trace import Trace

GROUP = "snapshot.storage.k8s.io"
MARK = {"annotations": {f"{GROUP.replace('k8s.io', 'kubernetes.io')}/volumesnapshot-being-created": "yes"}}
GOING = {"deletionTimestamp": "t"}
HANDLE = "kept-snapshot-s"
One = tuple[str, dict[str, Any]]


def snapshot(ready: bool = False, uid: str = "s", claim: str = "c", **metadata: Any) -> One:
    status = {"readyToUse": ready, "boundVolumeSnapshotContentName": f"snapcontent-{uid}" if ready else None}
    body = {
        "metadata": {"namespace": "default", "name": "nightly", "uid": uid} | metadata,
        "spec": {"source": {"persistentVolumeClaimName": claim}},
        "status": status,
    }
    return written(f"volumesnapshots.{GROUP}", "default/nightly", body)


def content(
    handle: str = "",
    *,
    ready: bool = False,
    of: str = "v",
    uid: str = "s",
    policy: str = "Delete",
    **more: Any,
) -> One:
    body = {
        "metadata": {"name": f"snapcontent-{uid}", "uid": f"of-{uid}"} | more,
        "spec": {
            "deletionPolicy": policy,
            "source": {"volumeHandle": of},
            "volumeSnapshotRef": {"namespace": "default", "name": "nightly", "uid": uid},
        },
        "status": {"snapshotHandle": handle or None, "readyToUse": ready},
    }
    return written(f"volumesnapshotcontents.{GROUP}", f"snapcontent-{uid}", body)


def snapshot_gone(uid: str = "s") -> One:
    return gone(f"volumesnapshots.{GROUP}", "default/nightly", {"metadata": {"uid": uid}})


def content_gone(uid: str = "s") -> One:
    return gone(f"volumesnapshotcontents.{GROUP}", f"snapcontent-{uid}", {"metadata": {"uid": f"of-{uid}"}})


def claim(
    volume: str = "v", name: str = "c", uid: str = "c", source: One | None = None, **metadata: Any
) -> One:
    spec: dict[str, Any] = {"volumeName": volume}
    if source is not None:
        is_snapshot = "volumesnapshots" in source[1]["resource"]
        kind = (
            {"apiGroup": GROUP, "kind": "VolumeSnapshot"}
            if is_snapshot
            else {"kind": "PersistentVolumeClaim"}
        )
        spec["dataSource"] = kind | {"name": source[1]["name"].partition("/")[2]}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": uid} | metadata,
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    return written("persistentvolumeclaims", f"default/{name}", body)


def taken(
    words: int = 0, *, of: str = "v", name: str = "snapshot-s", ready: bool = True, as_: str = ""
) -> One:
    fields = {"name": name, "volume": of, "words": words, "ready": ready}
    return "truth.snapshot-taken", {"snapshot": as_ or f"kept-{name}"} | fields


def made(volume: str, words: int = 0, source: str = "") -> One:
    more: dict[str, Any] = ({"words": words} if words else {}) | ({"source": source} if source else {})
    return "truth.created", {"volume": volume} | more


def word(volume: str, has: int) -> One:
    fields = {"node": "n1", "mounted": True, "committed": True, "under": 0, "epoch": 0}
    return "truth.written", {"volume": volume, "found": has} | fields


CLAIM_GONE = gone("persistentvolumeclaims", "default/c", {"metadata": {"uid": "c"}})
READY = ("truth.snapshot-ready", {"snapshot": HANDLE})
UNTAKEN = ("truth.snapshot-deleted", {"snapshot": HANDLE})
DISK_GONE = ("truth.deleted", {"volume": "v"})
ASKED: Events = [made("v"), claim(), snapshot(), content(), content(**MARK)]
TAKEN: Events = [*ASKED, taken(), content(HANDLE, ready=True)]
THERE: Events = [*TAKEN, snapshot(ready=True)]
DELETED: Events = [*THERE, snapshot(ready=True, **GOING), content(HANDLE, ready=True, **GOING)]


def judged(events: Events) -> list[str]:
    """What is violated, but for S4' and the like, of which these words tell nothing."""
    return [each for each in found(events) if each in ("S16", "S47", "S48", "S49", "S50")]


# --- S47: once, and asked for


def test_a_snapshot_that_a_content_asks_for_is_right():
    assert judged(THERE) == []


@pytest.mark.parametrize(
    "events",
    [
        [*ASKED[:-2], taken()],
        [*ASKED[:-1], taken()],
        [*ASKED, content(), taken()],
        [*ASKED, content_gone(), taken()],
        [*ASKED, taken(of="w")],
        [*ASKED, taken(name="snapshot-of-s")],
        [*ASKED, taken(), taken(as_="another")],
        [*ASKED, taken(), taken()],
    ],
)
def test_one_that_no_content_asks_for_or_a_second_one_is_found(events: Events):
    assert judged(events) == ["S47"]


def test_after_a_deletion_it_may_be_taken_again_to_be_deleted():
    assert judged([*ASKED, taken(), snapshot(**GOING), content(**MARK, **GOING), UNTAKEN, taken()]) == []


@pytest.mark.parametrize("struck", ["placing", "n1"])
def test_a_request_may_be_on_its_way_when_its_sender_ends(struck: str):
    kills = ("plan.step", CUT[1] | {"what": "kill", "on": struck})
    events: Events = [*ASKED, kills, content(), taken()]
    assert judged(events) == ([] if struck == "placing" else ["S47"])
    assert judged([*ASKED[:-1], kills, taken()]) == ["S47"], "it was never asked for"


# --- S48: ready when it is


@pytest.mark.parametrize(
    "events",
    [
        [*ASKED, content(HANDLE, ready=True)],
        [*ASKED, taken(ready=False), content(HANDLE, ready=True)],
        [*ASKED, taken(), content("kept-snapshot-t", ready=True)],
        [*ASKED, taken(), snapshot(ready=True)],
        [*ASKED, taken(ready=False), content(HANDLE), snapshot(ready=True)],
        [*ASKED, taken(), snapshot(uid="t"), content(HANDLE, ready=True, uid="t")],
        [*ASKED, taken(), content(HANDLE, ready=True, of="w")],
    ],
)
def test_what_is_said_to_be_ready_and_is_not_is_found(events: Events):
    assert judged(events) == ["S48"]


def test_it_is_ready_when_the_storage_says_so():
    later: Events = [taken(ready=False), content(HANDLE), READY, content(HANDLE, ready=True)]
    assert judged([*ASKED, *later, snapshot(ready=True)]) == []


def test_it_is_of_the_volume_that_its_claim_had():
    of_another = [
        content(of="w"),
        content(of="w", **MARK),
        taken(of="w"),
        content(HANDLE, ready=True, of="w"),
    ]
    assert judged([claim(), snapshot(), *of_another, snapshot(ready=True)]) == ["S48"]
    made_anew: Events = [CLAIM_GONE, claim("w", uid="d")]
    assert judged([claim(), snapshot(), *made_anew, *of_another, snapshot(ready=True)]) == []
    assert judged(
        [claim(), snapshot(), of_another[0], *made_anew, *of_another[1:], snapshot(ready=True)]
    ) == ["S48"]


# --- S49: kept while it is needed


def test_a_disk_is_not_deleted_while_a_snapshot_is_taken_of_it():
    assert judged([*ASKED, CLAIM_GONE, DISK_GONE]) == ["S49"]
    assert judged([*ASKED, taken(ready=False), CLAIM_GONE, DISK_GONE]) == ["S49"]
    assert judged([*ASKED, taken(), CLAIM_GONE, DISK_GONE]) == []
    assert judged([*ASKED[:3], CLAIM_GONE, DISK_GONE]) == [], "no content was made for it"
    assert judged([*ASKED, snapshot(**GOING), CLAIM_GONE, DISK_GONE]) == []
    going: Events = [claim(**GOING), snapshot(), content(), CLAIM_GONE, DISK_GONE]
    assert judged([made("v"), *going]) == [], "its claim could not be held any more"
    anew: Events = [snapshot(), CLAIM_GONE, claim("", uid="d"), content(), DISK_GONE]
    assert judged([made("v"), claim(), *anew]) == [], "it had gone, and there was another of its name"
    assert judged([*ASKED, ("plan.stripped", {"uid": "c"}), CLAIM_GONE, DISK_GONE]) == []


def test_a_snapshot_is_deleted_only_when_users_have_deleted_it():
    assert judged([*DELETED, UNTAKEN]) == []
    assert judged([*THERE, UNTAKEN]) == ["S49", "S49"]
    assert judged([*THERE, content(HANDLE, ready=True, **GOING), UNTAKEN]) == ["S49"]
    assert judged([*THERE, snapshot(ready=True, **GOING), UNTAKEN]) == ["S49"]
    kept = content(HANDLE, ready=True, policy="Retain", **GOING)
    assert judged([*DELETED, kept, UNTAKEN]) == ["S49"]


def test_a_snapshot_stays_while_a_claim_waits_to_be_made_of_it():
    restored = claim("", "r", "r", snapshot())
    assert judged([*THERE, restored, *DELETED[-2:], UNTAKEN]) == ["S49"]
    assert judged([*DELETED, restored, UNTAKEN]) == [], "it came when the deletion had begun"
    of_its_own = made("pvc-r", source=HANDLE)
    assert judged([*THERE, restored, of_its_own, *DELETED[-2:], UNTAKEN]) == []
    assert judged([*THERE, claim("", "r", "r", snapshot(), **GOING), *DELETED[-2:], UNTAKEN]) == []


COPY = claim("", "r", "r", claim(), finalizers=["mooring.dev/provisioning"])


def test_a_disk_is_not_deleted_while_a_copy_of_it_is_made():
    had: Events = [made("v"), claim()]
    assert judged([*had, COPY, CLAIM_GONE, DISK_GONE]) == ["S49"]
    assert judged([*had, claim("", "r", "r", claim()), CLAIM_GONE, DISK_GONE]) == [], "it was not begun"
    assert judged([*had, COPY, made("pvc-r", source="v"), CLAIM_GONE, DISK_GONE]) == []
    assert judged([*had, claim(**GOING), COPY, CLAIM_GONE, DISK_GONE]) == []


# --- S50: what it begins with

WORDS: Events = [made("v"), claim(), word("v", 0), word("v", 1), *ASKED[2:]]
RESTORED = claim("", "r", "r", snapshot())


def test_a_snapshot_has_the_words_of_its_disk_and_what_is_made_of_it_those_of_then():
    kept: Events = [*WORDS, taken(2), word("v", 2), RESTORED]
    assert judged([*kept, made("pvc-r", 2, HANDLE), word("pvc-r", 2)]) == []
    assert judged([*kept, made("pvc-r", 3, HANDLE)]) == ["S50"]
    assert judged([*kept, made("pvc-r", 2, HANDLE), word("pvc-r", 0)]) == ["S16"]
    assert judged([*WORDS, taken(1)]) == ["S50"]


def test_a_restored_volume_stays_as_it_is_when_its_snapshot_goes():
    kept: Events = [*WORDS, taken(2), content(HANDLE, ready=True), snapshot(ready=True), RESTORED]
    bound = claim("pvc-r", "r", "r", snapshot())
    ends: Events = [*DELETED[-2:], UNTAKEN, content_gone(), snapshot_gone()]
    assert judged([*kept, made("pvc-r", 2, HANDLE), bound, *ends, word("pvc-r", 2)]) == []
    assert judged([*kept, made("pvc-r", 2, HANDLE), bound, *ends, word("pvc-r", 0)]) == ["S16"]


def test_a_copy_has_the_words_of_the_disk_at_that_time():
    assert judged([*WORDS, COPY, word("v", 2), made("pvc-r", 3, "v"), word("v", 3), word("pvc-r", 3)]) == []
    assert judged([*WORDS, COPY, word("v", 2), made("pvc-r", 2, "v")]) == ["S50"]


@pytest.mark.parametrize(("of", "wrong"), [("c", []), ("other", ["S50"])])
def test_a_claim_that_is_bound_and_does_not_say_so_yet_may_be_copied(of: str, wrong: list[str]):
    reserved = {"metadata": {"name": "v", "uid": "pv"}, "spec": {"claimRef": {"uid": of}}}
    naming = {"metadata": {"namespace": "default", "name": "c", "uid": "c"}, "spec": {"volumeName": "v"}}
    bound = [
        written("persistentvolumes", "v", reserved),
        written("persistentvolumeclaims", "default/c", naming),
    ]
    assert judged([made("v"), *bound, COPY, made("pvc-r", source="v")]) == wrong


def test_a_claim_with_a_source_gets_a_copy_of_it_and_one_without_an_empty_disk():
    assert judged([*WORDS, RESTORED, made("pvc-r")]) == ["S50"]
    assert judged([*WORDS, COPY, made("pvc-r")]) == ["S50"]
    assert judged([*WORDS, COPY, made("w"), made("pvc-r", source="w")]) == ["S50"]
    assert judged([*WORDS, claim("", "r", "r"), made("pvc-r", 2, "v")]) == ["S50"]
    assert judged([*WORDS, claim("", "r", "r"), made("pvc-r")]) == []
    going = claim("", "r", "r", snapshot(), **GOING)
    assert judged([*WORDS, going, made("pvc-r")]) == [], "it is to be found, and deleted"


# --- L24: in the end


def ends(events: Events) -> int:
    """How much is wrong when these are the last events."""
    trace = Trace(lambda: 0.0)
    objects = KeptObjects.of(trace)
    for kind, fields in events:
        trace("x", kind, **fields)
    return len([*left(objects)])


ALL_GONE: Events = [*DELETED, UNTAKEN, content_gone(), snapshot_gone()]


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (THERE, 0),
        (TAKEN, 1),
        (ASKED, 1),
        (ASKED[:3], 1),
        ([made("v"), claim("", "c"), snapshot()], 0),
        ([snapshot()], 0),
        ([claim(), CLAIM_GONE, snapshot()], 0),
        ([made("v"), claim(**GOING), snapshot(), content(), CLAIM_GONE, DISK_GONE], 0),
        ([made("v"), claim(**GOING), snapshot(), content(), CLAIM_GONE], 1),
        (DELETED, 1),
        ([*DELETED, UNTAKEN, content_gone()], 1),
        ([*THERE, RESTORED, snapshot(ready=True, **GOING)], 0),
        ([*THERE, snapshot_gone()], 1),
        (ALL_GONE, 0),
        ([*DELETED, content_gone(), snapshot_gone()], 1),
        ([*THERE, content(HANDLE, ready=True, policy="Retain"), snapshot_gone()], 0),
        ([*THERE, content(HANDLE, ready=True, policy="Retain"), snapshot_gone(), content_gone()], 0),
        ([*THERE, UNTAKEN], 1),
        ([*THERE, claim(finalizers=[SOURCE])], 1),
        ([*TAKEN, claim(finalizers=[SOURCE])], 1),
        ([claim(finalizers=[CLONED]), COPY], 0),
        ([claim(finalizers=[CLONED]), claim("pvc-r", "r", "r", claim())], 1),
    ],
)
def test_in_the_end_what_is_asked_for_is_there_and_what_is_deleted_is_gone(events: Events, wrong: int):
    assert ends(events) == wrong
