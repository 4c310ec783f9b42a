"""What kube-controller-manager and Mooring did on one and the same schedule, drawn beneath the demo's story.

`recorded.json` holds facts: by program, the times (seconds) and states of each node's lanes, what was done
when, and the harm that came of it. `python -m tests.real.hazards.record` makes it anew, on the real
kube-apiserver, with storage and kubelets that are played and so known.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.cluster.demo.picture import rows_of, twice
from mooring.cluster.observer import Change, Lane
from mooring.pictures.model import Group, Mark, Panel

FACTS = Path(__file__).with_name("recorded.json")
OURS = "mooring"
SCHEDULE = "killed after an attach and before the node's status says so, while the pod goes to another node"
HOW = (
    "Recorded on the real kube-apiserver; the storage, which refuses nothing, and the kubelets are played: "
    "python -m tests.real.hazards.record."
)


class Done(msgspec.Struct):
    """Something that was done at `at`; `crash`: to the controller."""

    at: float
    label: str
    crash: bool = False


class Run(msgspec.Struct):
    """What a program did. `harm` is "" if none; `lanes`: by node and kind, from when on which state."""

    harm: str
    end: float
    marks: list[Done]
    lanes: dict[str, dict[str, list[tuple[float, str]]]]


def facts() -> dict[str, Run]:
    """By program, as in "kube-controller-manager 1.36.3"."""
    return msgspec.json.decode(FACTS.read_bytes(), type=dict[str, Run])


def recorded() -> list[Panel]:
    """A panel for each program, upstream's first."""
    runs = sorted(facts().items(), key=lambda item: item[0] == OURS)
    return [_panel(program, run) for program, run in runs]


def _panel(program: str, run: Run) -> Panel:
    lanes = [
        Lane(node, kind, [Change(at, state) for at, state in changes])
        for node, kinds in run.lanes.items()
        for kind, changes in kinds.items()
    ]
    rows = rows_of(lanes, run.end)
    marks = [Mark(done.at, done.label) for done in run.marks]
    if program == OURS:
        title, notes = "Mooring, recorded on that same schedule", [f"Harm: {run.harm or 'none'}."]
    else:
        title, notes = f"Recorded from {program}: {SCHEDULE}", [f"Harm: {run.harm or 'none'}. {HOW}"]
    group = Group("volume", rows, shades=list(twice(rows)))
    return Panel([group], run.end, marks=marks, title=title, notes=notes)
