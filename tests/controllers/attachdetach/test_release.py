"""When a volume may be taken from a node that does not answer: one rule after the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from decide_values import ATTACHED, NODE
from msgspec.structs import replace

from mooring.controllers.attachdetach.release import may_release
from mooring.controllers.attachdetach.state import Attachment, NodeState, Policy, Terms
from mooring.kube.objects import (
    Condition,
    ManagedFieldsEntry,
    ManagedMeta,
    Node,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from mooring.kube.objects.meta import OwnedFields
from mooring.volumes.names import RECONSTRUCTED, STATUS_WRITE
from mooring.volumes.out_of_service import TAINT, out_of_service, time_to_add
from mooring.volumes.statements import Evidence, Statement

NOW = datetime(2030, 1, 1, 0, 10, tzinfo=UTC)
LONG_AGO, JUST_NOW = "2030-01-01T00:00:00Z", "2030-01-01T00:09:50Z"
AGES = {LONG_AGO: 600.0, JUST_NOW: 10.0, "2030-01-01T00:09:20Z": 40.0, "2030-01-01T00:09:21Z": 39.0}


def the_node(uid: str = "uid-n0", boot: str = "b1", report: str = "r1") -> Node:
    return Node(
        metadata=ManagedMeta(name="n0", uid=uid, annotations={STATUS_WRITE: report, RECONSTRUCTED: boot}),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status="Unknown"),),
            volumes_in_use=("example.com/disk/d1",),
            node_info=NodeSystemInfo(boot_id=boot),
        ),
    )


def silent(node: Node | None = None) -> NodeState:
    return NodeState.of(node or the_node(), "example.com/disk/d1")


def held(**changes: Any) -> Attachment:
    return replace(ATTACHED, **changes)


def terms(after: float = 360.0, *, revokes: bool = True, deletion: bool = False) -> Terms:
    return Terms(Policy(after, deletion), NOW, revokes, AGES)


def outcome(node: NodeState | None, attachment: Attachment, given: Terms | None = None) -> str:
    verdict = may_release(node, attachment, given or terms(0.0))
    return f"{'+' if verdict.allowed else '-'}{verdict.reason.code}"


EVIDENCE = Evidence(node_uid="uid-n0", boot_id="b1", begun=JUST_NOW, by="ipmi")
STATED = Statement(node_uid="uid-n0", boot_id="b1", report="r1")
ABSENT = Statement(node_uid="uid-n0", absent=True)


@pytest.mark.parametrize(
    ("node", "attachment", "expected"),
    [
        (silent(), held(), "-NodeNotAnswering"),
        (None, held(), "-NodeGone"),
        (silent(), held(evidence=EVIDENCE), "+Fenced"),
        (silent(the_node(boot="b2")), held(evidence=EVIDENCE), "-NodeNotAnswering"),
        (silent(the_node(uid="u2")), held(evidence=EVIDENCE), "-NodeNotAnswering"),
        (None, held(evidence=EVIDENCE), "-NodeGone"),
        (None, held(evidence=EVIDENCE, absent_since=LONG_AGO), "-NodeGone"),
        (None, held(evidence=replace(EVIDENCE, absent=True)), "+Fenced"),
        (None, held(evidence=replace(EVIDENCE, absent=True), node_uid="u2"), "-NodeGone"),
        (silent(the_node(uid="u2")), held(evidence=replace(EVIDENCE, absent=True)), "-NodeNotAnswering"),
        (silent(), held(statement=STATED), "+ConfirmedDead"),
        (silent(the_node(report="r2")), held(statement=STATED), "-NodeNotAnswering"),
        (silent(the_node(boot="b2")), held(statement=STATED), "-NodeNotAnswering"),
        (None, held(statement=STATED), "-NodeGone"),
        (None, held(statement=ABSENT), "+ConfirmedDead"),
        (None, held(statement=ABSENT, node_uid="u2"), "-NodeGone"),
        (silent(), held(statement=ABSENT), "-NodeNotAnswering"),
        (replace(NODE, in_use=True), held(statement=STATED), "-InUse"),
        (replace(NODE, in_use=True), held(broken="by me"), "+Broken"),
    ],
)
def test_which_statement_permits_a_release(node: NodeState | None, attachment: Attachment, expected: str):
    assert outcome(node, attachment) == expected


@pytest.mark.parametrize(
    ("attachment", "given", "expected"),
    [
        (held(force_since=LONG_AGO), terms(), "+ForceDetachTimeout"),
        (held(force_since=JUST_NOW), terms(), "-NodeNotAnswering"),
        (held(force_since=JUST_NOW), terms(5.0), "+ForceDetachTimeout"),
        (held(force_since=LONG_AGO), terms(0.0), "-NodeNotAnswering"),
        (held(force_since=LONG_AGO), terms(revokes=False), "-NodeNotAnswering"),
        (held(), terms(), "-NodeNotAnswering"),
    ],
)
def test_the_timer(attachment: Attachment, given: Terms, expected: str):
    assert outcome(silent(), attachment, given) == expected


def test_a_timer_that_has_not_begun_is_begun_and_one_that_runs_says_when_it_is_due():
    assert may_release(silent(), held(), terms()).begin == "mooring.dev/force-detach-since"
    running = may_release(silent(), held(force_since=JUST_NOW), terms())
    assert running.after == 350.0
    assert "2030-01-01T00:15:50Z" in running.reason.message


def test_a_timer_counts_for_the_silence_in_which_it_has_begun():
    """The controller may have been away while the node answered, and fell silent once more."""
    begun = held(force_since=LONG_AGO, force_report="r1")
    assert outcome(silent(the_node(report="r1")), begun, terms()) == "+ForceDetachTimeout"
    anew = may_release(silent(the_node(report="r2")), begun, terms())
    assert (anew.allowed, anew.begin, anew.after) == (False, "mooring.dev/force-detach-since", 0.0)
    assert "2030" not in anew.reason.message


def test_a_timer_is_over_at_the_moment_at_which_it_is_due():
    """The volume is looked at then, and not again."""
    assert may_release(silent(), held(force_since=JUST_NOW), terms(10.0)).forced
    looked_for = replace(held(marked=True), absent_since="2030-01-01T00:09:20Z")
    assert may_release(None, looked_for, terms(0.0, deletion=True)).forced
    early = replace(looked_for, absent_since="2030-01-01T00:09:21Z")
    verdict = may_release(None, early, terms(0.0, deletion=True))
    assert (verdict.allowed, verdict.after, verdict.begin) == (False, 1.0, "")


@pytest.mark.parametrize(
    ("node", "attachment"),
    [(silent(), held()), (None, held()), (replace(NODE, in_use=True), held()), (NODE, held())],
    ids=["silent", "gone", "in use", "not in use"],
)
def test_where_no_timer_runs_there_is_no_time_at_which_to_look_again(
    node: NodeState | None, attachment: Attachment
):
    verdict = may_release(node, attachment, terms(0.0))
    assert (verdict.after, verdict.begin) == (0.0, "")


@pytest.mark.parametrize(
    ("attachment", "expected"),
    [
        (held(), "-NodeDeleted"),
        (held(marked=True, absent_since=JUST_NOW), "-NodeDeleted"),
        (held(marked=True, absent_since=LONG_AGO), "+NodeDeleted"),
        (held(marked=False, absent_since=LONG_AGO), "-NodeDeleted"),
    ],
)
def test_the_deletion_of_a_node_counts_only_after_two_looks_under_the_mark(
    attachment: Attachment, expected: str
):
    assert outcome(None, attachment, terms(0.0, deletion=True)) == expected


def test_the_deletion_of_a_node_counts_only_where_the_storage_revokes():
    dead = held(marked=True, absent_since=LONG_AGO)
    assert outcome(None, dead, terms(0.0, deletion=True, revokes=False)) == "-NodeGone"


# --- out-of-service taints and upstream's kubelets


def entry(manager: str, when: str, *, status: bool = False, taints: bool = False) -> ManagedFieldsEntry:
    fields = OwnedFields(spec={"f:taints": {}}) if taints else OwnedFields()
    return ManagedFieldsEntry(
        manager=manager,
        subresource="status" if status else "",
        time=f"2030-01-01T00:0{when}Z",
        fields_v1=fields,
    )


def kubelets_node(
    *entries: ManagedFieldsEntry, added: str | None = None, heartbeat: str | None = None
) -> Node:
    return Node(
        metadata=ManagedMeta(name="n0", uid="u", managed_fields=entries),
        spec=NodeSpec(taints=(Taint(key=TAINT, effect="NoExecute", time_added=added),)),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status="Unknown", last_heartbeat_time=heartbeat),)
        ),
    )


@pytest.mark.parametrize(
    ("entries", "added", "in_force"),
    [
        ((entry("kubelet", "1:00", status=True), entry("kubectl-taint", "2:00", taints=True)), None, True),
        ((entry("kubelet", "3:00", status=True), entry("kubectl-taint", "2:00", taints=True)), None, False),
        ((entry("kubelet", "2:00", status=True), entry("kubectl-taint", "2:00", taints=True)), None, False),
        (
            (entry("kubelet", "1:00", status=True), entry("kube-controller-manager", "2:00", taints=True)),
            None,
            False,
        ),
        ((entry("kubelet", "1:00", status=True),), "2030-01-01T00:02:00Z", True),
        ((entry("kubelet", "3:00", status=True),), "2030-01-01T00:02:00Z", False),
        ((entry("kube-controller-manager", "9:00", status=True),), None, True),
        ((), None, True),
    ],
)
def test_c11_a_taint_under_which_a_kubelet_has_reported_is_spent(
    entries: tuple[ManagedFieldsEntry, ...], added: str | None, in_force: bool
):
    assert out_of_service(kubelets_node(*entries, added=added)) is in_force


@pytest.mark.parametrize("entries", [(), (entry("kubectl-taint", "2:00", taints=True),)])
def test_c11_a_taint_is_spent_where_what_tells_when_the_kubelet_has_reported_was_cleared(
    entries: tuple[ManagedFieldsEntry, ...],
):
    node = kubelets_node(*entries, added="2030-01-01T00:02:00Z", heartbeat="2030-01-01T00:01:00Z")
    assert not out_of_service(node)


@pytest.mark.parametrize("ours", ["2029-12-31T00:00:00", "2030-01-02T00:00:00"], ids=["behind", "ahead"])
@pytest.mark.parametrize(("reports_at", "in_force"), [("1:00", True), ("1:45", False), ("2:00", False)])
def test_c11_a_taint_that_we_set_is_compared_by_the_clock_that_stamps_reports(
    ours: str, reports_at: str, in_force: bool
):
    now = datetime.fromisoformat(ours).replace(tzinfo=UTC)
    added = time_to_add(kubelets_node(entry("kubelet", "1:00", status=True), added=None), now)
    later = kubelets_node(entry("kubelet", reports_at, status=True), added=added)
    assert out_of_service(later) is in_force


@pytest.mark.parametrize(
    ("tainted", "spent", "code"),
    [
        (True, True, "TaintSpent"),
        (True, False, "NodeNotAnswering"),
        (False, True, "NodeNotAnswering"),
        (False, False, "NodeNotAnswering"),
    ],
)
def test_only_of_a_taint_that_is_there_and_spent_it_is_said_that_it_must_be_set_anew(
    tainted: bool, spent: bool, code: str
):
    there = replace(NODE, ready="Unknown", in_use=True, tainted=tainted, taint_spent=spent)
    assert outcome(there, held()) == f"-{code}"


def test_the_policy_of_upstream_is_the_default():
    """And no deletion of a Node is taken for the word that its machine is off."""
    assert Policy() == Policy(timedelta(minutes=6).total_seconds(), False)


# --- another machine of the same name


FORMER, PRESENT = "6a2e9c1e-0000-4000-8000-000000000001", "6a2e9c1e-0000-4000-8000-000000000002"


def taken(ready: str = "True", **given: Any) -> NodeState:
    """The Node, now of another machine, which has nothing mounted."""
    node = the_node(**given)
    info = replace(node.status.node_info, system_uuid=PRESENT)
    condition = (Condition(type="Ready", status=ready),)
    taints = (Taint(key=TAINT, effect="NoExecute", time_added="t"),)
    status = replace(node.status, node_info=info, volumes_in_use=(), conditions=condition)
    return silent(replace(node, status=status, spec=NodeSpec(taints=taints)))


def of_former(**changes: Any) -> Attachment:
    return held(machine=f"{FORMER} ", **changes)


@pytest.mark.parametrize(
    ("node", "attachment", "expected"),
    [
        (taken(), held(machine=f"{PRESENT} "), "+NotInUse"),
        (taken(), of_former(), "-AnotherMachine"),
        (taken(uid="u2"), of_former(), "-AnotherMachine"),
        (taken("Unknown"), of_former(), "-AnotherMachine"),  # the taint is the other one's
        (taken("Unknown"), of_former(evidence=EVIDENCE), "-AnotherMachine"),  # of the very boot that is shown
        (taken(), of_former(statement=STATED), "-AnotherMachine"),
        (taken(), of_former(statement=ABSENT), "+ConfirmedDead"),
        (taken(uid="u2"), of_former(statement=ABSENT), "+ConfirmedDead"),
        (taken(), of_former(statement=ABSENT, node_uid="u0"), "-AnotherMachine"),
        (taken(), of_former(evidence=replace(EVIDENCE, absent=True)), "+Fenced"),
        (taken(), of_former(broken="by me"), "+Broken"),
    ],
)
def test_what_one_machine_of_a_name_says_is_not_about_the_other(
    node: NodeState, attachment: Attachment, expected: str
):
    assert outcome(node, attachment) == expected


def test_the_taking_of_a_name_is_no_deletion_of_a_node():
    dead = of_former(marked=True, absent_since=LONG_AGO)
    assert outcome(taken(), dead, terms(0.0, deletion=True)) == "-AnotherMachine"


def test_a_storage_that_revokes_takes_the_volume_from_the_machine_that_has_lost_its_name_in_time():
    assert outcome(taken(), of_former(force_since=JUST_NOW), terms()) == "-AnotherMachine"
    assert outcome(taken(), of_former(force_since=LONG_AGO), terms()) == "+ForceDetachTimeout"


def test_the_message_says_which_machine_has_the_volume_and_what_to_state():
    said = may_release(taken(), of_former(), terms(0.0)).reason.message
    assert f"mooring node confirm-dead n0 --machine {FORMER}" in said


def test_a_machine_without_a_uuid_is_called_as_its_provider_does():
    node = the_node()
    of_provider = replace(node, spec=NodeSpec(provider_id="cloud:///i-2"))
    said = may_release(silent(of_provider), held(machine=" cloud:///i-1"), terms(0.0)).reason.message
    assert "the one that had this name before (cloud:///i-1)" in said
    assert said.endswith("mooring node confirm-dead n0 --machine cloud:///i-1")


@pytest.mark.parametrize(
    ("there", "attachment"),
    [
        (silent(the_node(report="r2")), held(force_since=LONG_AGO)),
        (None, held(force_since=LONG_AGO, force_report="r1")),
        (taken(), of_former(force_since=LONG_AGO, force_report="r1")),
    ],
    ids=["it does not say so", "its Node is gone", "another machine has its name"],
)
def test_a_timer_counts_where_nothing_shows_that_its_node_has_answered(
    there: NodeState | None, attachment: Attachment
):
    assert outcome(there, attachment, terms()) == "+ForceDetachTimeout"
