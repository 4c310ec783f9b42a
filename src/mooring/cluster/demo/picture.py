"""The demo's picture: what its observer saw of the volume, in the words of `mooring.pictures`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mooring.cluster.demo.scene import CLAIM, NODES, POD, Demo
from mooring.cluster.observer import Change, Lane
from mooring.pictures import model
from mooring.pictures.bands import bands, shared, silences
from mooring.pictures.looks import Look

TITLE = f"One volume, {NODES} nodes: what the API reports, and what is true"
HOLDING = frozenset({Look.ATTACHED, Look.MOUNTED, Look.OFF_ATTACHED})
"""What is true of a node that could write, or could once it has power again."""
BEFORE_S = 1.0
"""The picture begins so long before the first mark."""


def picture_of(demo: Demo, beneath: Sequence[model.Panel] = ()) -> model.Picture:
    """The demo's story, and other panels beneath it."""
    end = demo.watch.now
    rows = rows_of(list(demo.watch.lanes.values()), end, demo.losses)
    group = model.Group(
        name=CLAIM,
        rows=rows,
        lines=[model.Line(f"pod {POD}", list(stretches(demo.watch.runs, end)))],
        shades=[*twice(rows), *waits(rows, demo.waited)],
    )
    start = max(min((mark.at for mark in demo.marks), default=0.0) - BEFORE_S, 0.0)
    story = model.Panel([group], end, start, demo.marks, title="Mooring, as just played" if beneath else "")
    return model.Picture(TITLE, [story, *beneath])


def rows_of(
    lanes: Sequence[Lane], end: float, losses: Sequence[tuple[str, model.Loss]] = ()
) -> list[model.Row]:
    """A row for each node: what was reported above what was true."""
    return [
        model.Row(
            node,
            [
                model.Lane(
                    kind,
                    bands(
                        [
                            (c.at, c.state)
                            for lane in lanes
                            if (lane.node, lane.kind) == (node, kind)
                            for c in lane.changes
                        ],
                        end,
                    ),
                    [loss for where, loss in losses if where == node and kind == "true"],
                )
                for kind in ("reported", "true")
            ],
        )
        for node in sorted({lane.node for lane in lanes})
    ]


def stretches(runs: Sequence[Change], end: float) -> Iterator[model.Stretch]:
    """Where the pod ran, and how long it was away in between; before its first run it is not missed."""
    for change, after in pairwise([*runs, Change(end, "")]):
        if change.state:
            yield model.Stretch(change.at, after.at, f"on {change.state}")
        elif change is not runs[0]:
            yield model.Stretch(change.at, after.at, f"away {after.at - change.at:.1f} s", away=True)


def twice(rows: Sequence[model.Row]) -> Iterator[model.Shade]:
    """When the volume really was attached to two nodes."""
    lanes = [(row.name, lane.bands) for row in rows for lane in row.lanes if lane.name == "true"]
    for start, end, first, second in shared(lanes, HOLDING):
        words = f"attached to {first} and to {second} at the same time: either can write it"
        yield model.Shade(start, end, words, wrong=True)


def waits(rows: Sequence[model.Row], reasons: dict[str, str]) -> Iterator[model.Shade]:
    """When a node was silent that could still write: had another one got the volume, two could have written.
    `reasons`: by node, in the controller's own words."""
    for row in rows:
        reason = reasons.get(row.name) or f"node {row.name} does not answer and may still write"
        words = f"two nodes could have written: waited, because {reason.partition(';')[0]}"
        reported = [band for lane in row.lanes if lane.name == "reported" for band in lane.bands]
        yield from (model.Shade(start, end, words) for start, end in silences(reported))
