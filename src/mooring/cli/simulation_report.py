"""The picture and the page of a simulated run: its lanes in the language of the demo's timeline."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.cluster.observer import Change, Lane
from mooring.cluster.timeline import Mark, render
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.swarm import description
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import Outcome, play
from mooring.simulation.search.report import Row, page
from mooring.simulation.search.summary import Summary
from mooring.simulation.search.timeline import VolumeTimeline

HEALED = "healed"


def write_report(
    summary: Summary, scenario: Scenario, seed: int, title: str, *, html: Path | None, svg: Path | None
) -> None:
    """Plays the seed once more and writes what was asked for."""
    outcome, picture = draw(seed, scenario)
    if svg is not None:
        svg.write_text(picture)
    if html is not None:
        html.write_text(page(summary, outcome, picture, title, _facts(outcome.scenario)))
    for path in (svg, html):
        if path is not None:
            click.echo(f"{path}: seed {seed}", err=True)


def draw(seed: int, scenario: Scenario) -> tuple[Outcome, str]:
    """A run and its picture: one row for each volume on each node that ever had to do with it."""
    seen: list[VolumeTimeline] = []

    def observe(trace: Trace) -> None:
        seen.append(VolumeTimeline(trace))

    outcome = play(seed, scenario, observe=observe)
    lanes = [
        Lane(seen[0].label(place), kind, [Change(at, state) for at, state in changes])
        for (place, kind), changes in seen[0].changes.items()
    ]
    marks = [Mark(step.at, f"{step.what} {step.on}") for step in outcome.plan]
    scenario = outcome.scenario
    return outcome, render(lanes, [*marks, Mark(scenario.heal_s, HEALED)], scenario.end_s, f"Seed {seed}")


def _facts(scenario: Scenario) -> list[Row]:
    after = scenario.force_detach_after_s
    return [
        ("cluster", description(scenario)),
        (
            "time",
            f"{scenario.minutes:g} simulated minutes; from {scenario.heal_s:g} s on everything is healed",
        ),
        ("faults", f"about {scenario.faults} of {', '.join(scenario.only) or 'all kinds'}"),
        ("users' actions", f"about {scenario.actions}"),
        (
            "a silent node",
            f"Unknown after {scenario.grace_period_s:g} s, evicted after {scenario.evict_after_s} s more",
        ),
        (
            "volumes of a silent node",
            f"taken after {after:g} s if they can be cut off" if after else "stay where they are",
        ),
    ]
