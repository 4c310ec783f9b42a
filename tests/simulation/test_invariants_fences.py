"""Each rule of fences (S17, S17', S18, S18') fires on a trace that violates it, and on none that only nearly
does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from mooring.controllers.fencing.names import REQUEST, TAINT_VALUE
from mooring.controllers.fencing.polls import PATIENCE_S
from mooring.kube.objects import ObjectMeta
from mooring.kube.objects.fencing import NodeFence, NodeFenceSpec, NodeFenceStatus
from mooring.simulation.checks.invariants import check
from mooring.simulation.checks.liveness import is_taken_back
from mooring.simulation.checks.looks_again import LooksAgain
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Trace
from mooring.volumes.names import FENCE_EVIDENCE, NODE_UID, STATUS_WRITE, VOLUME_NAME
from mooring.volumes.out_of_service import TAINT
from mooring.volumes.peers import QUESTIONS, STATEMENTS, Heard, Question, Statement, encoded
from mooring.volumes.statements import Evidence

FENCES = "nodefences.fencing.mooring.dev"
RECORDS = "volumeattachments.storage.k8s.io"
LEASES = "leases.coordination.k8s.io"
RULES = ("S17", "S17'", "S18", "S18'")
NONCE = "0" * 32
OF_A, OF_B = "v", "x"
"""Volumes, of target `a` and of target `b`."""


class Step(NamedTuple):
    actor: str
    kind: str
    fields: dict[str, Any]


def wait(seconds: float) -> Step:
    return Step("", "wait", {"seconds": seconds})


def written(resource: str, name: str, body: dict[str, Any], kind: str = "store.written") -> Step:
    return Step("store", kind, {"resource": resource, "name": name, "_body": msgspec.json.encode(body)})


def node(
    name: str = "n1",
    boot: str = "boot-0",
    ready: str = "Unknown",
    *,
    uid: str = "u",
    fenced: bool = False,
    has: Sequence[str] = (),
    mark: str = "",
    questions: str = "",
    asks: str = "",
) -> Step:
    """`mark`: differs where its agent has written it. `asks`: why its annotation asks for a fence."""
    taints = [{"key": TAINT, "value": TAINT_VALUE, "effect": "NoExecute"}] if fenced else []
    asked = {QUESTIONS: questions, REQUEST: asks}
    annotations = {STATUS_WRITE: mark or boot} | {key: value for key, value in asked.items() if value}
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "nodeInfo": {"bootID": boot},
        "volumesAttached": [{"name": f"x/{each}"} for each in has],
        "volumesInUse": [f"x/{each}" for each in has],
    }
    metadata = {"uid": uid, "annotations": annotations}
    return written("nodes", name, {"metadata": metadata, "spec": {"taints": taints}, "status": status})


def attempt(token: str = "f-0-0-1", *, outcome: str = "", volumes: Iterable[str] = ()) -> dict[str, Any]:
    named = {f"va-{each}": each for each in volumes}
    scope = "Storage" if named else "Power"
    return {"token": token, "mechanism": "m", "outcome": outcome, "scope": scope, "volumes": named}


def fence(
    *attempts: dict[str, Any],
    on: str = "n1",
    boot: str = "boot-0",
    name: str = "f",
    by: str = "",
    override: bool = False,
    **status: Any,
) -> Step:
    """`by`: who has asked for it, as it says."""
    target = {"nodeName": on, "nodeUID": "u", "bootID": boot}
    whole = {"phase": "Fencing", "target": target, "attempts": attempts} | status
    spec = {"nodeName": on, "requestedBy": by, "override": override}
    return written(FENCES, name, {"metadata": {"name": name}, "spec": spec, "status": whole})


def gone(step: Step) -> Step:
    return Step("store", "store.deleted", step.fields)


def order(
    on: str = "n1", boot: str = "boot-0", token: str = "", targets: str = "", sent: float | None = None
) -> Step:
    more = ({"targets": targets} if targets else {}) | ({"sent": sent} if sent is not None else {})
    return Step("bmc", "truth.ordered", {"node": on, "boot": boot, "token": token or f"{on}-1", **more})


def ordered(
    on: str = "n1", boot: str = "boot-0", *, by_hand: bool = False, sent: float | None = None
) -> list[Step]:
    """Written before, and given; `sent`: when it went out, if that was earlier."""
    name = f"by-hand-{on}" if by_hand else f"f-{on}"
    given = order(on, boot, f"{name}-1", sent=sent)
    return [fence(attempt(f"{name}-1"), on=on, boot=boot, name=name), given]


def power(on: str, is_on: bool) -> Step:
    return Step(on, "truth.power", {"on": is_on})


def record(volume: str = OF_A, *, boot: str = "", uid: str = "u", noted: str = "u", **metadata: Any) -> Step:
    """`boot`: evidence of a fence says that this one is over."""
    evidence = msgspec.json.encode(Evidence(uid, boot, by="NodeFence f")).decode()
    annotations = {
        VOLUME_NAME: volume,
        NODE_UID: noted,
        **({FENCE_EVIDENCE: evidence} if boot else {}),
    }
    spec = {"nodeName": "n1", "source": {"persistentVolumeName": volume}}
    body = {"metadata": {"annotations": annotations, **metadata}, "spec": spec}
    return written(RECORDS, f"va-{volume}", body)


def door(kind: str, target: str, **why: str) -> Step:
    return Step("array", kind, {"target": target, "node": "n1", **why})


def found(steps: Sequence[Step], **settings: Any) -> list[str]:
    """Which of the rules are violated."""
    moment = [0.0]
    trace = Trace(lambda: moment[0])
    violations = check(trace, Settings(**settings))
    for step in steps:
        moment[0] += step.fields.get("seconds", 0.0)
        if step.kind != "wait":
            trace(step.actor, step.kind, **step.fields)
    return [each.invariant for each in violations if each.invariant in RULES]


OFF = power("n1", False)
LOST = [node(), wait(30)]

# --- S17


def test_an_order_that_was_not_written_before_is_found():
    assert found([*LOST, fence(attempt("n1-1")), order()]) == []
    assert found([*LOST, fence(attempt("n1-2")), order()]) == ["S17"]
    assert found([*LOST, fence(attempt("n1-1"), boot="boot-1"), order()]) == ["S17"], "of another boot"


def test_an_order_about_a_node_that_answers_is_found_unless_a_user_has_asked_for_it():
    answers = [node(ready="True"), wait(30)]
    assert found([*answers, *ordered()]) == ["S17"]
    assert found([*answers, *ordered(by_hand=True)]) == []
    assert found([node(), node(ready="True"), wait(20), *ordered()]) == [], "it may be on its way"


def test_an_order_goes_by_what_was_so_when_it_was_sent_and_not_when_its_process_went_on():
    back = [*LOST, wait(30), node(ready="True"), wait(90)]  # silent from 0 s to 60 s, and now it is 150 s
    assert found([*back, *ordered(sent=59)]) == []
    assert found([*back, *ordered(sent=84)]) == [], "a view may be late"
    assert found([*back, *ordered(sent=86)]) == ["S17"]


def test_an_order_that_was_sent_before_another_boot_reported_is_none_about_an_earlier_one():
    another = [*LOST, node(boot="boot-1"), wait(60)]  # since 30 s, and now it is 90 s
    assert found([*another, *ordered(sent=29)]) == []
    assert found([*another, *ordered(sent=56)]) == ["S17"]


def test_an_order_whose_process_was_paused_does_not_count_what_was_struck_meanwhile():
    lost = [node(), node("n2"), wait(30), *ordered("n2"), wait(60)]  # n2 at 30 s, and now it is 90 s
    assert found([*lost, *ordered(sent=29)], fence_budget=1) == []
    assert found([*lost, *ordered(sent=31)], fence_budget=1) == ["S17"]
    at_once = [node(), node("n2"), wait(30), *ordered("n2", sent=28), *ordered(sent=27)]
    assert found(at_once, fence_budget=1) == ["S17"], "one that was on its way is not paused"


def test_an_order_that_was_sent_before_a_storm_is_none_in_it():
    lost = [*LOST, node("n2"), wait(60)]  # n2 since 30 s, and now it is 90 s
    assert found([*lost, *ordered(sent=29)], fence_storm=2) == []
    assert found([*lost, *ordered(sent=56)], fence_storm=2) == ["S17"]


def test_a_storm_counts_when_an_order_is_written_down():
    """The API server may be slow between that and the order."""
    written, storm = fence(attempt("n1-1")), [node("n2"), wait(60)]
    assert found([*LOST, written, *storm, order()], fence_storm=2) == []
    assert found([*LOST, *storm, written, order()], fence_storm=2) == ["S17"]


def test_to_shut_out_once_more_a_node_that_is_shut_out_is_no_order_about_one_that_answers():
    shut, open_again = door("truth.shut-out", "a"), door("truth.let-in", "a")
    answers, again = [*LOST, *ordered(), shut, node(ready="True"), wait(60)], order(token="f-n1-1")
    assert found([*answers, again]) == []
    assert found([*answers, open_again, again]) == ["S17"]


def test_to_order_off_once_more_a_node_that_is_off_is_no_order_about_one_that_answers():
    """40000299 of `fencing.yaml`: the API showed it as answering for long, and the order was heard out."""
    again = order(token="f-n1-1")
    shown = [*LOST, *ordered(), power("n1", False), node(ready="True"), wait(60)]
    assert found([*shown, again]) == []
    assert found([*shown, power("n1", True), again]) == ["S17"]


def test_what_users_had_cut_off_counts_no_more_when_its_storage_has_let_it_in():
    """33011044 of `fencing-by-storage.yaml`."""
    shut, open_again = door("truth.shut-out", "a"), door("truth.let-in", "a")
    by_hand = [*LOST, *ordered(by_hand=True), shut]
    lost = [node("n2"), wait(60), *ordered("n2")]
    assert found([*by_hand, *lost], fence_budget=1) == ["S17"]
    assert found([*by_hand, open_again, *lost], fence_budget=1) == []


def taken_up() -> list[Step]:
    """What an annotation asks for, of a node that answers: written, and ordered."""
    return [fence(attempt("f-n1-1"), name="f-n1", by="annotation"), order(token="f-n1-1")]


def test_what_an_annotation_asks_for_counts_as_asked_for_by_a_user():
    answers = [node(ready="True"), wait(30)]
    asks, no_more = node(ready="True", asks="why"), node(ready="True")
    assert found([*answers, asks, *taken_up()]) == []
    assert found([*answers, asks, *ordered()]) == ["S17"], "it is no request"
    assert found([*answers, asks, no_more, wait(20), *taken_up()]) == [], "it may be on its way"


def test_a_fence_that_says_that_it_was_asked_for_and_was_not_is_found():
    answers = [node(ready="True"), wait(30)]
    another, once = node("n2", ready="True", asks="why"), node(ready="True", asks="why")
    assert found([*answers, *taken_up()]) == ["S17", "S17"], "what it says, and what is ordered"
    assert found([*answers, another, taken_up()[0]]) == ["S17"], "of another node"
    assert found([*answers, once, node(ready="True"), wait(30), taken_up()[0]]) == ["S17"], "a while ago"


def test_an_order_about_a_boot_in_whose_place_another_one_reports_is_found_whoever_has_asked_for_it():
    for by_hand in (False, True):
        another = [node(), node(boot="boot-1"), *LOST[2:]]
        assert found([*another, wait(30), *ordered(by_hand=by_hand)]) == ["S17"]
        assert found([*another, wait(20), *ordered(by_hand=by_hand)]) == [], "it may be on its way"


def test_no_more_nodes_are_ordered_off_at_once_than_the_budget_allows():
    lost = [node(), node("n2"), wait(30)]
    two = [*lost, *ordered(), *ordered("n2")]
    assert found(two, fence_budget=1) == ["S17"]
    assert found(two, fence_budget=2) == []
    back = [wait(1), node(boot="boot-1", ready="True")]
    assert found([*lost, *ordered(), *back, *ordered("n2")], fence_budget=1) == []
    assert found([*lost, *ordered(by_hand=True), *ordered("n2")], fence_budget=1) == ["S17"]
    assert found([*lost, *ordered(), *ordered("n2", by_hand=True)], fence_budget=1) == ["S17"]


def test_no_node_is_ordered_off_in_a_storm():
    lost = [node(), node("n2"), wait(30)]
    assert found([*lost, *ordered()], fence_storm=2) == ["S17"]
    assert found([*LOST, node("n2"), wait(10), *ordered()], fence_storm=2) == [], "it is not lost for long"
    assert found([*lost, *ordered("n2", by_hand=True), *ordered()], fence_storm=2) == []


@pytest.mark.parametrize(("phase", "violated"), [("AwaitingPerson", []), ("Cancelled", ["S17"])])
def test_a_node_whose_fence_is_not_over_is_no_part_of_a_storm_though_it_answered(
    phase: str, violated: list[str]
):
    """8000250 of `fencing-by-storage.yaml`: one that is shut out of storage answers, and was lost later."""
    shut = attempt("by-hand-n2-1", outcome="Unknown")
    there = [node(ready="True"), node("n2", ready="True"), *ordered("n2", by_hand=True), wait(1)]
    answers = [fence(shut, on="n2", name="by-hand-n2", phase=phase), node("n2", boot="boot-1", ready="True")]
    lost = [wait(60), node(), node("n2", boot="boot-1"), wait(30)]
    assert found([*there, *answers, *lost, *ordered()], fence_storm=2) == violated


@pytest.mark.parametrize(
    ("heard", "boot", "after", "violated"),
    [
        (Heard.YES, "boot-0", 30.0, ["S17"]),
        (Heard.NO, "boot-0", 30.0, []),
        (Heard.YES, "boot-1", 30.0, []),
        (Heard.YES, "boot-0", 20.0, []),  # it may not have been seen yet
        (Heard.YES, "boot-0", 55.0, ["S17"]),  # it expires, and it was not asked again
    ],
)
def test_no_node_is_ordered_off_that_a_peer_hears(heard: Heard, boot: str, after: float, violated: list[str]):
    lease = {"holderIdentity": "a", "leaseDurationSeconds": 30}
    leader = written(LEASES, "kube-system/fencing", {"metadata": {}, "spec": lease})
    question = encoded((Question("n1", boot, "10.0.0.1:1", NONCE),))
    statement = encoded((Statement("n1", boot, NONCE, heard),))
    said = written(LEASES, "kube-node-lease/n2", {"metadata": {"annotations": {STATEMENTS: statement}}})
    asked = node("n2", ready="True", questions=question)
    steps = [node(), leader, wait(1), asked, wait(1), said, wait(after), *ordered()]
    assert found(steps, veto_expires_s=60.0) == violated
    well_since = [node(ready="True"), wait(1), node()]
    assert found([*steps[:6], *well_since, *steps[6:]], veto_expires_s=60.0) == [], "of an earlier doubt"
    by_hand = [*steps[:6], node(ready="True"), wait(after), *ordered(by_hand=True)]
    assert found(by_hand, veto_expires_s=60.0) == [], "of a doubt that is over"
    assert found([*steps[:6], gone(node()), *steps[6:]], veto_expires_s=60.0) == [], "of a Node that is gone"
    leads_on = [wait(1), leader, wait(1), leader]
    assert found([*steps[:6], *leads_on, *steps[6:]], veto_expires_s=70.0) == violated
    leads_anew = [wait(16), leader]
    assert found([*steps[:6], *leads_anew, *steps[6:]], veto_expires_s=90.0) == [], "it has asked none yet"
    lost = Step("fencing", "truth.raised", {"where": "lease lost", "_error": OSError("no answer")})
    assert found([*steps[:6], lost, wait(1), leader, *steps[6:]], veto_expires_s=90.0) == [], "nor has that"
    leads = acts("fencing 1 fencing-controller")
    assert found([leads, *steps], veto_expires_s=60.0) == violated
    knows_late = acts("fencing 1.2 fencing-controller")
    assert found([leads, *steps[:6], knows_late, *steps[6:]], veto_expires_s=60.0) == [], "nor in this term"


def acts(term: str) -> Step:
    """The controller writes a Node in this term."""
    asked = {"method": "PATCH", "sub": "", "uid": True, "version": 1, "erases": False}
    return Step("fencing", "asked.write", {"life": term, "resource": "nodes", "name": "n3"} | asked)


def asked_of(boot: str = "boot-0") -> Step:
    return Step("storage", "truth.asked-of", {"node": "n1", "boot": boot})


def told(*counts: int, boot: str = "boot-0", after: float = 5.0) -> list[Step]:
    """Of a session each, by a storage that is asked so long after it was asked before."""
    moved = {f"v#{number}": count for number, count in enumerate(counts)}
    fields = {"node": "n1", "boot": boot, "moved": sum(counts), "_moved": moved}
    return [wait(after), asked_of(boot), Step("storage", "truth.told", fields)]


def fault(what: str, on: str) -> Step:
    return Step("plan", "plan.step", {"what": what, "on": on, "value": 5.0, "how": 0})


WRITES = [*told(1), *told(2)]
VETO = {"vetoing_storages": frozenset({"storage"})}


@pytest.mark.parametrize(
    ("steps", "after", "violated"),
    [
        (WRITES, 5.0, ["S17"]),
        (WRITES, 29.0, ["S17"]),
        ([*told(1), *told(1, 0)], 5.0, ["S17"]),  # it has logged in
        ([*told(1), *told(2), *told(2)], 20.0, ["S17"]),  # it does not any more
        ([fault("cut", "n1"), *WRITES], 5.0, ["S17"]),  # the controller is told
        (told(2), 5.0, []),  # that is told once
        ([*told(2), *told(2)], 5.0, []),
        ([*told(2), *told(1)], 5.0, []),  # the storage counts anew
        ([*told(1, boot="boot-1"), *told(2)], 5.0, []),
        (WRITES, 2.0, []),  # it may not be known yet
        (WRITES, 31.0, []),  # it expires
        ([*WRITES, node(ready="True"), node()], 5.0, []),  # it has answered
        ([node(ready="True"), *told(1), node(), *told(2)], 5.0, []),  # the first was told while it answered
        ([*told(1), asked_of(), *told(2)], 5.0, []),  # it has not answered between
        ([*told(1), fault("kill", "fencing"), *told(2)], 5.0, []),
    ],
)
def test_no_fence_is_begun_of_a_node_that_its_storage_has_told_to_work(
    steps: list[Step], after: float, violated: list[str]
):
    assert found([node(), fence(phase="Pending"), *steps, wait(after), fence(attempt())], **VETO) == violated


def test_a_storage_that_counts_for_no_veto_keeps_no_node_from_being_fenced():
    works = [node(), *WRITES, wait(5)]
    assert found([*works, fence(attempt())]) == []
    assert found([*works, fence(attempt(), override=True)], **VETO) == [], "a person wants it"
    assert found([node(), fence(attempt()), *WRITES, wait(5), fence(attempt())], **VETO) == [], "it has begun"


# --- S18


def test_the_taint_of_a_fence_says_the_truth():
    assert found([node(), node(fenced=True)]) == ["S18"]
    assert found([node(), OFF, node(fenced=True)]) == []
    assert found([node(), OFF, node(boot="boot-1"), node(boot="boot-1", fenced=True)]) == ["S18"]


def test_evidence_on_a_record_says_the_truth():
    assert found([node(), record(boot="boot-0")]) == ["S18"]
    assert found([node(), OFF, record(boot="boot-0")]) == []
    assert found([node(), door("truth.shut-out", "a"), record(boot="boot-0")]) == []
    assert found([node(), door("truth.shut-out", "b"), record(boot="boot-0")]) == ["S18"]
    lifted = [door("truth.shut-out", "a"), door("truth.let-in", "a")]
    assert found([node(), *lifted, record(boot="boot-0")]) == ["S18"]


def test_evidence_is_of_the_registration_that_the_record_is_of():
    assert found([node(), OFF, record(boot="boot-0", noted="another")]) == ["S18"]
    assert found([node(), OFF, record(boot="boot-0", noted="")]) == []


@pytest.mark.parametrize("volumes", [(), (OF_A,)])
def test_that_an_order_has_cut_its_node_off_is_true_when_it_is_written(volumes: tuple[str, ...]):
    proved = fence(attempt(outcome="Fenced", volumes=volumes))
    unproved = fence(attempt(outcome="Unknown", volumes=volumes))
    assert found([node(), proved]) == ["S18"]
    assert found([node(), unproved]) == []
    assert found([node(), OFF, proved]) == []
    assert found([node(), OFF, fence(attempt(outcome="Fenced", volumes=volumes), boot="boot-1")]) == ["S18"]


def test_an_order_of_the_storage_has_shut_its_node_out_of_each_volume_that_it_names():
    both = fence(attempt(outcome="Fenced", volumes=(OF_A, OF_B)))
    shut = [node(), door("truth.shut-out", "a")]
    assert found([*shut, both]) == ["S18"]
    assert found([*shut, door("truth.shut-out", "b"), both]) == []
    assert found([*shut, fence(attempt(outcome="Fenced", volumes=(OF_A,)))]) == []


def test_what_is_said_of_an_order_is_judged_once_whatever_comes_later():
    proved = fence(attempt(outcome="Fenced", volumes=(OF_A,)))
    shut = [node(), door("truth.shut-out", "a"), proved]
    assert found([*shut, door("truth.let-in", "a"), proved]) == []


def test_a_fence_of_an_earlier_boot_releases_no_volume_of_a_later_one():
    had = [node(has=[OF_A]), record(), OFF, record(boot="boot-0")]
    going = record(boot="boot-0", deletionTimestamp="now")
    assert found([*had, going]) == []
    assert found([*had, power("n1", True), node(boot="boot-1", has=[OF_A]), going]) == ["S18"]


def test_a_volume_that_was_un_reported_in_the_boot_that_was_fenced_may_go_also_when_another_one_has_come():
    had = [node(has=[OF_A]), record(), OFF, record(boot="boot-0")]
    un_reported, back = node(), [power("n1", True), node(boot="boot-1", ready="True")]
    in_use = node(boot="boot-1", ready="Unknown", has=[OF_A])
    going = record(boot="boot-0", deletionTimestamp="now")
    assert found([*had, un_reported, *back, going]) == []
    assert found([*had, un_reported, *back, in_use, going]) == ["S18"], "it was reported there again"


def test_a_pod_that_a_fence_removes_runs_no_more():
    pod = written(
        "pods", "default/db-0", {"metadata": {"uid": "p"}, "spec": {"nodeName": "n1"}}, "store.deleted"
    )
    assert found([node(), OFF, node(fenced=True), pod]) == []
    returned = [power("n1", True), node(boot="boot-1", fenced=True)]
    assert found([node(), OFF, node(fenced=True), *returned, pod]) == ["S18"]


def test_the_record_of_a_fence_that_has_begun_stays_until_it_is_over():
    assert found([node(), gone(fence(attempt()))]) == [], "it was never there"
    assert found([node(), fence(attempt()), gone(fence(attempt()))]) == ["S18"]
    assert found([node(), fence(), gone(fence())]) == [], "nothing was ordered"
    over = fence(attempt(), phase="Cancelled")
    assert found([node(), over, gone(over)]) == []


def test_a_fence_that_has_released_ends_when_another_boot_or_another_registration_reports():
    over = fence(attempt(), phase="Unfenced", releasedAt="then")
    assert found([node(), over]) == ["S18"]
    assert found([node(boot="boot-1"), over]) == []
    assert found([node(uid="another"), over]) == []
    assert found([node(), fence(attempt(), phase="Unfenced")]) == [], "it has released nothing"


# --- S17'


def shut_out(*named: str, targets: str = "a") -> list[Step]:
    """An order of the storage has named these volumes, and was answered."""
    proved = attempt(outcome="Fenced", volumes=named)
    doors = [door("truth.shut-out", each) for each in targets.split(",")]
    told = fence(attempt(volumes=named)), order(token="f-0-0-1", targets=targets)
    return [*LOST, *told, *doors, fence(proved, proof="f-0-0-1")]


def test_a_fence_of_the_storage_releases_what_its_order_has_named_and_nothing_else():
    assert found([*shut_out(OF_A), record(OF_A, boot="boot-0")]) == []
    assert found([*shut_out(OF_A), record("w", boot="boot-0")]) == ["S17'"]


def test_a_fence_of_the_storage_releases_nothing_of_another_target_than_its_orders():
    steps = [*shut_out(OF_A, targets="a"), door("truth.shut-out", "b")]
    assert found([*shut_out(OF_A, OF_B, targets="a,b"), record(OF_B, boot="boot-0")]) == []
    named = fence(attempt(outcome="Fenced", volumes=(OF_A, OF_B)), proof="f-0-0-1")
    assert found([*steps, named, record(OF_B, boot="boot-0")]) == ["S17'", "S17'"]


def test_what_an_order_names_does_not_grow_once_it_is_answered():
    more = fence(attempt(outcome="Fenced", volumes=(OF_A, "w")), proof="f-0-0-1")
    assert found([*shut_out(OF_A), more]) == ["S17'"]
    assert found([*shut_out(OF_A, "w"), more]) == []


def test_an_order_that_is_given_again_names_what_there_is_by_then():
    """33011092 of `fencing-by-storage.yaml`: it was heard out; one that takes effect twice names nothing."""
    more = fence(attempt(outcome="Fenced", volumes=(OF_A, "w")), proof="f-0-0-1")
    first, *_ = [each for each in shut_out(OF_A) if each.kind == "truth.ordered"]
    again = order(token="f-0-0-1", targets="a", sent=60.0)
    assert found([*shut_out(OF_A), wait(60), again, more]) == []
    assert found([*shut_out(OF_A), first, more]) == ["S17'"]


# --- S18'


def mounted(volume: str) -> list[Step]:
    """The node has it attached and mounted, as the first of all."""
    where = {"volume": volume, "node": "n1", "epoch": 1}
    seen = {**where, "attached": True, "device": "/dev/a", "wanted": volume}
    return [Step("array", "truth.attached", where), Step("n1", "truth.mounted", seen)]


def test_a_fence_lets_a_node_in_when_the_boot_that_it_has_shut_out_is_over_or_has_nothing_mounted():
    held, let_in = fence(attempt(outcome="Fenced", volumes=[OF_A])), door("truth.let-in", "a", boot="boot-0")
    before = [*mounted(OF_A), door("truth.shut-out", "a")]
    had, unmounted = [*before, held], Step("n1", "truth.unmounted", {"volume": OF_A, "node": "n1"})
    assert found([*had, let_in]) == ["S18'"]
    never = fence(attempt(outcome="Unknown", volumes=[OF_A]))
    assert found([*before, never, let_in]) == [], "nothing was released on it"
    assert found([*had, OFF, let_in]) == []
    assert found([*had, unmounted, let_in]) == []
    assert found([*had, door("truth.let-in", "a")]) == [], "by hand"


def test_no_node_is_let_in_that_has_a_volume_mounted_which_another_has_by_now():
    had = mounted(OF_A)
    taken = Step("array", "truth.attached", {"volume": OF_A, "node": "n2", "epoch": 2})
    unmounted = Step("n1", "truth.unmounted", {"volume": OF_A, "node": "n1"})
    assert found([*had, taken, door("truth.let-in", "a")]) == ["S18'"]
    assert found([*had, door("truth.let-in", "a")]) == []
    assert found([*had, taken, door("truth.let-in", "b")]) == [], "of another target"
    assert found([*had, unmounted, taken, door("truth.let-in", "a")]) == []


# --- what is no work (L7, D3)


def mechanism(**states: str) -> Step:
    nodes = [{"name": name, "state": state, "lookedAt": "t"} for name, state in states.items()]
    return written(
        "fencemechanisms.fencing.mooring.dev",
        "bmc",
        {"metadata": {"name": "bmc"}, "status": {"nodes": nodes}},
    )


def is_no_work(*steps: Step) -> bool:
    """Of the last one."""
    trace, last = Trace(lambda: 0.0), [False]
    again = LooksAgain.of(trace)
    for kind in ("store.written", "store.deleted"):
        trace.listen(kind, lambda event: last.append(event in again))
    for step in steps:
        trace(step.actor, step.kind, **step.fields)
    return last[-1]


@pytest.mark.parametrize(("given", "violated"), [(PATIENCE_S, []), (1.0, ["S17"])])
def test_a_peer_whose_word_has_expired_is_asked_again_and_given_its_time(given: float, violated: list[str]):
    """Seed 6110006 of `fencing-by-storage.yaml`."""
    leader = written(LEASES, "kube-system/fencing", {"metadata": {}, "spec": {"holderIdentity": "a"}})
    statement = encoded((Statement("n1", "boot-0", NONCE, Heard.YES),))
    said = written(LEASES, "kube-node-lease/n2", {"metadata": {"annotations": {STATEMENTS: statement}}})
    first, second = (
        node("n2", ready="True", questions=encoded((Question("n1", "boot-0", "10.0.0.1:1", nonce),)))
        for nonce in (NONCE, "1" * len(NONCE))
    )
    steps = [node(), leader, wait(1), first, wait(1), said, wait(300), second, wait(given)]
    assert found([*steps, *ordered()], veto_expires_s=60.0) == violated
    assert found([*steps, *ordered(by_hand=True)], veto_expires_s=60.0) == violated, "asked for, too"
    assert found([*steps, gone(second), *ordered()], veto_expires_s=60.0) == [], "who is gone is not asked"
    back = [node("n2"), wait(30), second, *ordered()]
    assert found([*steps, *back], veto_expires_s=60.0) == [], "it was silent until now"
    third = node("n2", ready="True", questions=encoded((Question("n1", "boot-0", "10.0.0.1:1", "2" * 32),)))
    again = [wait(PATIENCE_S), third, *ordered()]
    assert found([*steps, *again], veto_expires_s=60.0) == [], "and did not answer before"


def test_a_mechanism_that_had_no_word_of_a_node_may_be_asked_again_and_no_other():
    assert is_no_work(mechanism(n1="Unknown"), mechanism(n1="Open"))
    assert is_no_work(mechanism(n1="Open"), mechanism(n1="Unknown"))
    assert is_no_work(mechanism(n1="Open", n2="Unknown"), mechanism(n1="Open", n2="Open"))
    assert not is_no_work(mechanism(n1="Open"), mechanism(n1="Shut"))
    assert not is_no_work(mechanism(n1="Open", n2="Unknown"), mechanism(n1="Shut", n2="Open"))
    assert not is_no_work(mechanism(n1="Open"), mechanism())
    assert not is_no_work(mechanism(n1="Open"), mechanism(n1="Open")), "it changes nothing"


def test_a_fence_in_force_may_be_looked_at_again_and_one_that_begins_is_work():
    proved = attempt(outcome="Fenced")
    held = fence(proved, phase="Fenced", proof="f-0-0-1", verifiedAt="t")
    assert is_no_work(held)
    assert not is_no_work(fence(attempt()))
    assert is_no_work(fence(attempt(outcome="NotFenced"), phase="AwaitingPerson", round=1))
    assert not is_no_work(fence(attempt(outcome="NotFenced"), phase="AwaitingPerson", round=0))
    assert not is_no_work(gone(held))
    assert not is_no_work(fence(proved, phase="Unfenced", proof="f-0-0-1", verifiedAt="t"))


def heard(*peers: str, reason: str = "HeardByPeers", **status: Any) -> Step:
    said = {"reason": reason, "message": f"heard by {', '.join(peers)}"}
    conditions = [{"type": "HeardByPeers", "status": "True", **said}]
    return fence(phase="Pending", conditions=conditions, **said, **status)


def test_a_fence_that_peers_hold_may_tell_which_of_them_hear_the_node_now():
    """Words are lost on the way between two nodes, and a peer that hears none for once says so."""
    assert is_no_work(heard("n2", "n3"), heard("n2"))
    assert not is_no_work(heard("n2")), "it is held from now on"
    assert not is_no_work(heard("n2"), heard("n2")), "it changes nothing"
    assert not is_no_work(heard("n2", reason="Storm"), heard("n2"))
    assert not is_no_work(heard("n2", reason="Storm"), heard("n3", reason="Storm")), "another reason"
    assert not is_no_work(heard("n2"), heard("n3", policy="p")), "and something else"
    assert not is_no_work(heard("n2"), gone(heard("n2")))


def test_a_fence_that_the_budget_held_may_be_held_by_peers_from_now_on_and_not_the_other_way_round():
    budget, asked = heard(reason="BudgetExhausted"), heard(reason="PeersAsked")
    assert is_no_work(budget, asked)
    assert is_no_work(budget, asked, heard("n2"))
    assert is_no_work(budget, heard("n2"))
    assert not is_no_work(heard("n2"), budget)
    assert not is_no_work(heard("n2"), asked)
    assert not is_no_work(budget, heard("n2", policy="p")), "and something else"


# --- lost for good (L6)


def test_a_fence_that_is_deleted_or_taken_back_before_it_releases_anything_keeps_what_its_node_has():
    deleted = ObjectMeta(name="f", deletion_timestamp="t")
    back, released = NodeFenceSpec(unfence=True), NodeFenceStatus(released_at="t")
    assert is_taken_back(NodeFence(metadata=deleted))
    assert is_taken_back(NodeFence(spec=back))
    assert not is_taken_back(NodeFence())
    assert not is_taken_back(NodeFence(metadata=deleted, status=released))
    assert not is_taken_back(NodeFence(spec=back, status=released))
