"""Which timers are erased because they run without a reason, and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from decide_values import ATTACHED, NODE
from msgspec.structs import replace

from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.state import Action, Demand, NodeState, Policy, Terms, VolumeState
from mooring.kube.objects import ManagedMeta, Node
from mooring.volumes.names import FORCE_DETACH_REPORT, FORCE_DETACH_SINCE, NODE_ABSENT_SINCE, STATUS_WRITE

SINCE = "2030-01-01T00:00:00Z"
BOTH = replace(ATTACHED, force_since=SINCE, absent_since=SINCE)
SILENT = replace(NODE, ready="Unknown", in_use=True)
WANTED = (Demand("n0", ("default/p",), "1", True),)


@pytest.mark.parametrize(
    ("demands", "there", "erased"),
    [
        (WANTED, NODE, (FORCE_DETACH_SINCE, NODE_ABSENT_SINCE)),
        (WANTED, SILENT, (FORCE_DETACH_SINCE, NODE_ABSENT_SINCE)),
        (WANTED, None, (FORCE_DETACH_SINCE, NODE_ABSENT_SINCE)),
        ((), replace(NODE, in_use=True), (FORCE_DETACH_SINCE, NODE_ABSENT_SINCE)),
        ((), replace(NODE, in_use=True, ready="False"), (FORCE_DETACH_SINCE, NODE_ABSENT_SINCE)),
        ((), SILENT, (NODE_ABSENT_SINCE,)),
        ((), None, ()),
    ],
)
@pytest.mark.parametrize("marked", [False, True])
def test_a_timer_ends_when_the_volume_is_wanted_or_its_node_is_there_or_answers(
    demands: tuple[Demand, ...], there: NodeState | None, erased: tuple[str, ...], marked: bool
):
    """Of one that is marked and not wanted, it ends with the mark."""
    nodes = {"n0": there} if there is not None else {}
    (decision,) = decide(VolumeState("v", False, demands, (replace(BOTH, marked=marked),), nodes))
    notes = tuple((name, None) for name in erased)
    if notes and (demands or not marked):
        told = (decision.action, decision.reason.code, decision.reason.message, decision.notes)
        assert told == (Action.NOTE, "NodeAnswers", "node n0 keeps it", notes)
        assert decision.pods == (("default/p",) if demands else ())
    else:
        assert (decision.action, decision.notes) != (Action.NOTE, notes)


@pytest.mark.parametrize(("report", "noted"), [("r2", "r2"), (None, None)])
def test_a_timer_that_begins_names_the_last_report_of_its_node(report: str | None, noted: str | None):
    now = datetime(2030, 1, 1, 0, 10, tzinfo=UTC)
    made = Node(metadata=ManagedMeta(name="n0", annotations={STATUS_WRITE: report})) if report else None
    there = {"n0": replace(SILENT, node=made)} if made is not None else {}
    given = Terms(Policy(360.0, False), now, True)
    former = replace(ATTACHED, force_since=SINCE, force_report="r1") if report else ATTACHED
    (decision,) = decide(VolumeState("v", False, (), (former,), there, given))
    assert decision.action is Action.NOTE
    assert decision.notes == (
        (FORCE_DETACH_SINCE, "2030-01-01T00:10:00.000000Z"),
        (FORCE_DETACH_REPORT, noted),
    )


@pytest.mark.parametrize("name", ["force_since", "absent_since"])
def test_a_timer_that_does_not_run_is_not_erased(name: str):
    one = replace(ATTACHED, **{name: SINCE})
    (decision,) = decide(VolumeState("v", False, WANTED, (one,), {"n0": NODE}))
    erased = FORCE_DETACH_SINCE if name == "force_since" else NODE_ABSENT_SINCE
    assert decision.notes == ((erased, None),)
