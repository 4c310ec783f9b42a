"""What is asked for is judged: each checker fires on a trace that violates it, on none that nearly does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.simulation.checks.invariants import check
from mooring.simulation.checks.memory import remembered
from mooring.simulation.cluster.careless_users import HOLD
from mooring.simulation.cluster.other_parties import GUARD
from mooring.simulation.engine.trace import Trace
from mooring.volumes.names import (
    ATTACH_REQUESTED_AT,
    ATTACHER_FINALIZER,
    DETACHING,
    VOLUME_NAME,
    VOLUMES_ATTACHED_WRITE,
)

CONTROLLER = "x 1 attachdetach-controller"
RECORD = "volumeattachments"
UID, OTHER_UID = "13cb3e3a-c02d-49f3-b0d8-6ee62c56c26f", "a5c5e829-073d-450b-aaf3-34abb07521d6"
JUDGED = ("S32", "S33", "S34", "S36", "S39", "P3")
Events = list[tuple[str, dict[str, Any]]]


def found(*events: tuple[str, dict[str, Any]]) -> list[str]:
    """What is violated. An event "wait" lets so many seconds pass."""
    moment = [100.0]
    trace = Trace(lambda: moment[0])
    violations = check(trace)
    for kind, fields in events:
        if kind == "wait":
            moment[0] += fields["seconds"]
        else:
            trace(fields.get("actor", "x"), kind, **fields)
    return [each.invariant for each in violations if each.invariant in JUDGED]


def asks(**more: Any) -> tuple[str, dict[str, Any]]:
    fields = {"life": CONTROLLER, "method": "PATCH", "resource": RECORD, "name": "a", "sub": "", "uid": True}
    return "asked.write", fields | {"version": 5, "erases": False} | more


def answered(version: int = 5, **more: Any) -> tuple[str, dict[str, Any]]:
    return "asked.answered", {"life": CONTROLLER, "resource": RECORD, "name": "a", "version": version} | more


def stored(resource: str, name: str, kind: str = "store.written", **body: Any) -> tuple[str, dict[str, Any]]:
    fields = {"resource": resource, "name": name, "version": 6}
    return kind, fields | {"_body": msgspec.json.encode({"metadata": {}} | body)}


def record(
    *, asked: bool = True, kept: bool = True, going: bool = False, by: str = ATTACHER_FINALIZER
) -> tuple[str, dict[str, Any]]:
    metadata: dict[str, Any] = {"annotations": {VOLUME_NAME: "v"}}
    if asked:
        metadata["annotations"][ATTACH_REQUESTED_AT] = "t"
    if kept:
        metadata["finalizers"] = [by]
    if going:
        metadata["deletionTimestamp"] = "t"
    return stored("volumeattachments.storage.k8s.io", "a", metadata=metadata, spec={"nodeName": "n1"})


def begins(act: str) -> tuple[str, dict[str, Any]]:
    return "truth.begin", {"volume": "v", "node": "n1", "act": act, "by": "x 1"}


def claim(*finalizers: str) -> tuple[str, dict[str, Any]]:
    return stored("persistentvolumeclaims", "default/c", metadata={"uid": "c", "finalizers": finalizers})


MADE = ("truth.created", {"volume": "pvc-c"})


def test_a_write_names_the_object_that_it_is_meant_for_and_the_version_that_it_was_computed_from():
    assert found(asks()) == []
    assert found(asks(uid=False)) == ["S32"]
    assert found(asks(version=None)) == ["S32"]
    assert found(asks(method="DELETE", version=None)) == ["S32"]
    assert found(asks(version=None), asks(version=None)) == ["S32"], "told once"


def test_a_status_that_one_controller_alone_writes_needs_no_version_and_no_other_write_of_it_is_spared():
    assert found(asks(life="x 1 attacher", sub="status", version=None)) == []
    assert found(asks(life="x 1 attacher", sub="status", version=None, uid=False)) == ["S32"]
    assert found(asks(sub="status", version=None)) == ["S32"]
    assert found(asks(method="DELETE", resource="pods", version=None)) == [], "a pod ends by its identity"


def test_the_status_of_a_set_is_of_one_version():
    """It alone says which revision is the current one: one that came late would bring back a former one."""
    status = asks(life="x 1 statefulset-controller", resource="statefulsets", sub="status")
    assert found(status) == []
    assert found((status[0], status[1] | {"version": None})) == ["S32"]


def worked(request: str = "", path: str = "") -> tuple[str, dict[str, Any]]:
    return "told.worked", {"controller": "c", "key": "k", "request": request, "path": path}


def test_work_that_leaves_a_request_failed_does_not_end_as_if_all_were_well():
    assert found(worked("PATCH pods", "/api/v1/pods/a")) == ["P3"]
    assert found(worked()) == [], "it was tried again, or the work ended with the error"


def test_the_attacher_erases_what_is_over_in_any_version_and_writes_nothing_so():
    assert found(asks(life="x 1 attacher", version=None, erases=True)) == []
    assert found(asks(life="x 1 attacher", version=None)) == ["S32"]
    assert found(asks(version=None, erases=True)) == ["S32"]


def test_a_write_changes_something():
    changed = stored("volumeattachments.storage.k8s.io", "a")
    assert found(asks(), changed, answered(6)) == []
    assert found(asks(), answered()) == ["S33"]
    assert found(asks(version=None, life="x 1 attacher", sub="status"), answered(life="x 1 attacher")) == []


def test_the_end_of_an_object_is_a_change_and_of_two_writes_under_way_each_has_its_own():
    gone = stored("volumeattachments.storage.k8s.io", "a", "store.deleted")
    changed = stored("volumeattachments.storage.k8s.io", "a")
    assert found(asks(), gone, answered()) == []
    assert found(asks(), changed, asks(version=6), answered(6), changed, answered(7)) == []
    assert found(asks(), changed, asks(version=6), answered(6), answered(6)) == ["S33"]


def test_the_storage_is_asked_to_attach_only_what_a_record_with_a_finalizer_says_to_be_asked_for():
    assert found(record(), begins("attach")) == []
    assert found(begins("attach")) == ["S34"]
    assert found(record(asked=False), begins("attach")) == ["S34"]
    assert found(record(kept=False), begins("attach")) == ["S34"]
    assert found(record(by=HOLD), begins("attach")) == found(record(by=GUARD), begins("attach")) == ["S34"]


def test_the_storage_is_asked_to_detach_only_what_is_being_given_up():
    assert found(record(going=True), begins("detach")) == []
    assert found(record(), begins("detach")) == ["S34"]


@pytest.mark.parametrize(
    ("before", "violated"),
    [
        ([claim("mooring.dev/provisioning", "kubernetes.io/pvc-protection")], []),
        ([claim("kubernetes.io/pvc-protection")], ["S34"]),
        ([], ["S34"]),
        ([stored("persistentvolumes", "pvc-c")], []),
    ],
    ids=["kept", "protected only", "gone", "emptied"],
)
def test_a_disk_is_made_only_for_a_claim_that_is_kept_for_it(before: Events, violated: list[str]):
    assert found(*before, MADE) == violated


def unreported(token: str) -> tuple[str, dict[str, Any]]:
    return stored("nodes", "n1", metadata={"annotations": {VOLUMES_ATTACHED_WRITE: token}})


def wait(seconds: float) -> tuple[str, dict[str, Any]]:
    return "wait", {"seconds": seconds}


MOUNTED = (
    "truth.mounted",
    {"volume": "v", "node": "n1", "attached": True, "epoch": 1, "device": "/dev/a", "wanted": "v"},
)
LOOKED = ("asked.looked", {"name": "a", "actor": "n1"})


def test_an_agent_looks_again_at_what_it_has_mounted_when_its_node_was_unreported():
    before = [record(), unreported("1"), saw(), MOUNTED, unreported("2")]
    assert found(*before, wait(11), record()) == ["S36"]
    assert found(*before, LOOKED, wait(11), record()) == []
    assert found(*before, wait(9), record()) == [], "it may be under way"
    gone = ("truth.unmounted", {"volume": "v", "node": "n1"})
    assert found(*before, gone, wait(11), record()) == []


def test_an_agent_that_a_fault_strikes_may_look_later():
    cut = ("plan.step", {"what": "cut", "on": "n0", "value": 60.0, "how": 0})
    before = [record(), unreported("1"), saw(), MOUNTED, unreported("2")]
    assert found(*before, cut, wait(11), record()) == ["S36"], "another node's"
    here = ("plan.step", cut[1] | {"on": "n1"})
    assert found(*before, here, wait(11), record()) == []


def saw(node: str = "n1", *, attached: bool = True, **metadata: Any) -> tuple[str, dict[str, Any]]:
    """An agent's live look at the VolumeAttachment."""
    body = {
        "metadata": {"annotations": {VOLUME_NAME: "v"}} | metadata,
        "spec": {"nodeName": "n1"},
        "status": {"attached": attached},
    }
    return "asked.looked", {"name": "a", "actor": node, "_body": msgspec.json.encode(body)}


@pytest.mark.parametrize(
    "look",
    [
        saw("n2"),
        saw(attached=False),
        saw(deletionTimestamp="t"),
        saw(annotations={VOLUME_NAME: "v", DETACHING: "t"}),
        LOOKED,
    ],
    ids=["another node's", "not attached", "deleted", "being detached", "not there"],
)
def test_a_node_mounts_what_it_has_seen_that_it_may(look: tuple[str, dict[str, Any]]):
    assert found(saw(), MOUNTED) == []
    assert found(look, MOUNTED) == ["S39"]
    assert found(saw(), look, MOUNTED) == [], "what it saw first may be under way"


def test_a_node_looks_before_each_mount_unless_a_fault_strikes_it():
    gone = ("truth.unmounted", {"volume": "v", "node": "n1"})
    slow = ("plan.step", {"what": "slow-unmount", "on": "n1", "value": 60.0, "how": 0})
    assert found(saw(), MOUNTED, gone, MOUNTED) == ["S39"]
    assert found(saw(), MOUNTED, gone, saw(), MOUNTED) == []
    assert found(saw(), MOUNTED, gone, slow, MOUNTED) == []


class Rememberer:
    __module__ = "mooring.controllers.played"

    def __init__(self, **held: Any) -> None:
        self.__dict__ |= held


def test_what_is_remembered_of_an_object_that_is_gone_is_found_wherever_it_stands():
    inner = Rememberer(names={"n1": [("of", f"pvc-{UID}")]})
    assert [*remembered(Rememberer(inner=inner), {UID})] == [(".inner.names", UID)]
    assert [*remembered(Rememberer(inner=inner), {OTHER_UID})] == []
    assert [*remembered(Rememberer(held={UID: 1}, again={UID}), {UID})] == [(".again", UID), (".held", UID)]


def test_what_is_no_memory_is_not_looked_at_and_what_names_itself_has_an_end():
    owner = Rememberer(text="no uid", number=1, nothing=None)
    owner.itself = owner
    assert [*remembered(owner, {UID})] == []
