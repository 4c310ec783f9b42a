"""What the demo draws of what it saw, and what it draws beneath from records of upstream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mooring.cluster.demo.picture import picture_of, rows_of, stretches, twice, waits
from mooring.cluster.demo.recorded import OURS, facts, recorded
from mooring.cluster.observer import Change, Lane
from mooring.pictures.model import Loss, Mark, Picture, Shade, Stretch
from mooring.pictures.picture import render


def lane(node: str, kind: str, *changes: tuple[float, str]) -> Lane:
    return Lane(node, kind, [Change(at, state) for at, state in changes])


def demo(*lanes: Lane, **more: Any) -> Any:
    watch = SimpleNamespace(
        now=20.0, lanes={(each.node, each.kind): each for each in lanes}, runs=more.pop("runs", [])
    )
    fields: dict[str, Any] = {"marks": [], "waited": {}, "losses": [], **more}
    return SimpleNamespace(watch=watch, **fields)


SILENT = (
    lane("node-1", "reported", (1, "attached, in use"), (5, "attached, in use; node silent"), (9, "")),
    lane("node-1", "true", (1, "mounted"), (4, "no power, attached"), (9, "")),
)


def test_noting_the_same_state_again_is_no_change():
    held = lane("node-1", "true")
    for at, state in ((0, ""), (1, "attached"), (2, "attached"), (3, "")):
        held.note(at, state)
    assert held.changes == [Change(1, "attached"), Change(3, "")]


def test_each_node_has_what_was_reported_above_what_was_true():
    rows = rows_of(SILENT, 20)
    assert [(row.name, [each.name for each in row.lanes]) for row in rows] == [
        ("node-1", ["reported", "true"])
    ]


def test_while_a_node_is_silent_two_could_have_written_and_the_reason_is_the_controllers_own():
    words = "node node-1 does not answer and may still write; if the machine is off, say so"
    (shade,) = waits(rows_of(SILENT, 20), {"node-1": words})
    assert shade == Shade(
        5,
        9,
        "two nodes could have written: waited, because node node-1 does not answer and may still write",
    )


def test_a_silent_node_without_the_volume_made_nothing_wait():
    assert not [*waits(rows_of([lane("node-3", "reported", (5, "node silent"))], 20), {})]


def test_attached_to_two_nodes_is_what_must_not_be():
    rows = rows_of([lane("a", "true", (1, "attached")), lane("b", "true", (6, "mounted"))], 20)
    (shade,) = twice(rows)
    assert (shade.start, shade.end, shade.wrong) == (6, 20, True)


def test_what_is_only_reported_of_two_nodes_is_no_harm():
    rows = rows_of([lane("a", "reported", (1, "attached")), lane("b", "reported", (6, "attached"))], 20)
    assert not [*twice(rows)]


def test_a_pod_is_missed_between_its_runs_and_not_before_the_first():
    runs = [Change(2, "node-1"), Change(5, ""), Change(7.5, "node-2")]
    assert [*stretches(runs, 20)] == [
        Stretch(2, 5, "on node-1"),
        Stretch(5, 7.5, "away 2.5 s", away=True),
        Stretch(7.5, 20, "on node-2"),
    ]


def test_what_was_lost_is_shown_on_the_node_that_had_it():
    loss = Loss(4, "13 bytes")
    drawn = picture_of(demo(*SILENT, lane("node-2", "true", (9, "mounted")), losses=[("node-1", loss)]))
    lanes = {(row.name, each.name): each for row in drawn.panels[0].groups[0].rows for each in row.lanes}
    assert [place for place, each in lanes.items() if each.losses] == [("node-1", "true")]


def test_the_story_begins_with_its_first_mark():
    drawn = picture_of(demo(*SILENT, marks=[Mark(7, "a pod asks for a volume")]))
    assert drawn.panels[0].start == 6


def test_upstream_is_recorded_with_its_version_and_is_attached_twice_in_red():
    upstream, ours = recorded()
    assert upstream.title.startswith("Recorded from kube-controller-manager 1.36.3")
    assert [shade.wrong for group in upstream.groups for shade in group.shades] == [True]
    assert not [shade for group in ours.groups for shade in group.shades]


def test_both_programs_were_played_the_same_schedule():
    runs = facts()
    assert len(runs) == 2
    assert len({tuple(done.label for done in run.marks) for run in runs.values()}) == 1
    assert [run.harm for name, run in runs.items() if name == OURS] == [""]


def test_the_picture_says_that_upstream_is_a_record():
    text = render(Picture("", recorded()))
    assert ">Recorded from kube-controller-manager 1.36.3" in text
    assert ">Mooring, recorded on that same schedule<" in text
