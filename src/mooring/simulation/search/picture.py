"""A run as a picture: of each volume what was reported above what was true, its pods, and what was violated.

Of a run that violates something, the volumes that it is about are shown, the seconds around the moment once
more, the rule in words, and what happened just before. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.pictures import model
from mooring.pictures.bands import bands, shared, silences
from mooring.pictures.looks import Look
from mooring.simulation.checks.rules import rule_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.run import Outcome
from mooring.simulation.search.story import Story
from mooring.simulation.search.timeline import VolumeTimeline
from mooring.simulation.search.words import in_words, step_in_words

KINDS = ("reported", "true")
BEFORE_S, AFTER_S = 5.0, 10.0
"""The seconds around a violation that are shown once more."""
TOLD = 16
"""Things that happened before it are told, so many."""
MOST_GROUPS = 24
_TWO_WRITERS = "S4"
_VIOLATION = re.compile(r"(?P<name>\S+) at (?P<at>[\d.]+) s \(event \d+\): (?P<what>.*)", re.DOTALL)


class RunPicture:
    """Follows a run from its beginning, and draws it when it is over."""

    def __init__(self, trace: Trace) -> None:
        self._seen = VolumeTimeline(trace)
        self._story = Story(trace)

    def of(self, outcome: Outcome, title: str) -> model.Picture:
        """The whole picture."""
        self._story.close()
        volumes = self._volumes(outcome)
        groups = [self._group(volume, outcome) for volume in volumes[:MOST_GROUPS]]
        end, moment = outcome.scenario.end_s, _first(outcome)
        panels = [model.Panel(groups, end, marks=self._marks(outcome))]
        if moment is not None and end > BEFORE_S + AFTER_S:
            start, until = max(moment - BEFORE_S, 0.0), min(moment + AFTER_S, end)
            words = "The seconds around that moment"
            panels.append(model.Panel(groups, until, start, panels[0].marks, words))
        notes = [*self._notes(outcome), *self._left_out(len(groups))]
        return model.Picture(title, panels, notes, self._listing(volumes, outcome, moment))

    def _volumes(self, outcome: Outcome) -> list[str]:
        """Those that a violation names, or a pod of; if it names none, or there is none, all."""
        every, said = self._seen.volumes(), " ".join(outcome.violations)
        named = [
            volume
            for volume in every
            if _names(said, volume) or any(_names(said, pod) for pod in self._story.pods[volume])
        ]
        return named or every

    def _left_out(self, shown: int) -> Iterator[str]:
        if others := len(self._seen.volumes()) - shown:
            yield f"Not shown: {others} other volume{'s' if others > 1 else ''}."

    # --- one volume

    def _group(self, volume: str, outcome: Outcome) -> model.Group:
        end = outcome.scenario.end_s
        nodes = sorted({place[1] for place, _ in self._seen.changes if place[0] == volume})
        rows = [model.Row(node, [self._lane(volume, node, kind, end) for kind in KINDS]) for node in nodes]
        lines = [
            model.Line(f"pod {pod}", sorted(self._stretches(pod, outcome), key=lambda each: each.start))
            for pod in sorted(self._story.pods[volume])
        ]
        shades = [*_waits(rows), *(_twice(rows) if self._has_two_writers(volume, outcome) else ())]
        return model.Group(self._seen.name(volume), rows, lines, shades)

    def _lane(self, volume: str, node: str, kind: str, end: float) -> model.Lane:
        losses = self._story.losses[volume, node] if kind == "true" else []
        changes = self._seen.changes[(volume, node), kind]
        words = "a write that the storage did not take"
        return model.Lane(kind, bands(changes, end), [model.Loss(at, words) for at in losses])

    def _stretches(self, pod: str, outcome: Outcome) -> Iterator[model.Stretch]:
        runs, end = self._story.runs[pod], outcome.scenario.end_s
        for start, until, node in runs:
            yield model.Stretch(start, end if until is None else until, f"on {node}")
        for gap in outcome.gaps:
            if gap.pod == pod:
                back = min((start for start, _, _ in runs if start >= gap.at), default=end)
                words = f"away {back - gap.at:.0f} s"
                if back - gap.at > gap.seconds + 1:
                    words += f", {gap.seconds:.0f} of them not as a user wished"
                yield model.Stretch(gap.at, back, words, away=True)

    def _has_two_writers(self, volume: str, outcome: Outcome) -> bool:
        return any(v.startswith(f"{_TWO_WRITERS} ") and _names(v, volume) for v in outcome.violations)

    # --- the whole run

    def _marks(self, outcome: Outcome) -> list[model.Mark]:
        marks = [model.Mark(step.at, step_in_words(step.what, step.on)) for step in outcome.plan]
        marks.append(model.Mark(outcome.scenario.heal_s, "everything is healed"))
        return marks + [model.Mark(at, f"{name} is violated", wrong=True) for name, at in outcome.moments()]

    def _notes(self, outcome: Outcome) -> Iterator[str]:
        """Of each rule that was violated, what was seen first, and what it says."""
        told: set[str] = set()
        for violation in outcome.violations:
            found = _VIOLATION.match(violation)
            name = found["name"] if found else violation.partition(" ")[0]
            if name not in told:
                told.add(name)
                what = f"{name}, at {found['at']} s: {found['what']}" if found else violation
                yield self._named(what)
                yield f"The rule {name}: {rule_of(name)}"

    def _named(self, text: str) -> str:
        """With the names of claims in place of those of their volumes."""
        for volume in self._seen.volumes():
            text = text.replace(volume, self._seen.name(volume))
        return text

    def _listing(self, volumes: list[str], outcome: Outcome, moment: float | None) -> list[str]:
        """What happened up to the violation, to these volumes and to what is no volume."""
        if moment is None:
            return []
        told = [
            (event.time, event.number, in_words(event, self._seen.name))
            for event in self._story.events
            if event.time <= moment and self._concerns(event, volumes)
        ]
        told += [
            (at, 0, f"the API says of {self._seen.name(volume)} on {node}: {state or 'nothing'}")
            for ((volume, node), kind), changes in self._seen.changes.items()
            for at, state in changes
            if kind == "reported" and at <= moment and volume in volumes
        ]
        lines = [f"{at:10.3f} s  {words}" for at, _, words in sorted(told) if words]
        violated = " and ".join(name for name, at in outcome.moments() if at == moment)
        return [*lines[-TOLD:], f"{moment:10.3f} s  {violated} is violated"]

    def _concerns(self, event: Event, volumes: list[str]) -> bool:
        """Whether an event is of one of the volumes, of a pod of theirs, or of neither a volume nor a pod."""
        volume, pod = event.fields.get("volume"), event.fields.get("pod")
        if volume is not None:
            return volume in volumes
        return pod is None or any(pod.rpartition("/")[2] in self._story.pods[each] for each in volumes)


def _first(outcome: Outcome) -> float | None:
    return min((at for _, at in outcome.moments()), default=None)


def _names(text: str, name: str) -> bool:
    """Whether a text has the name, and not as a part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _waits(rows: list[model.Row]) -> Iterator[model.Shade]:
    for row in rows:
        words = (
            f"two nodes could have written: waited, because {row.name} did not answer and might still write"
        )
        for start, end in silences(row.lanes[0].bands):
            yield model.Shade(start, end, words)


def _twice(rows: list[model.Row]) -> Iterator[model.Shade]:
    for start, end, first, second in shared(
        [(r.name, r.lanes[1].bands) for r in rows], frozenset({Look.MOUNTED})
    ):
        words = f"mounted on {first} and on {second} at the same time"
        yield model.Shade(start, end, words, wrong=True)
