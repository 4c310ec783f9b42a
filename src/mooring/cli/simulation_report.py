"""The picture and the page of a simulated run: played once more, drawn, written where that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from mooring.pictures.picture import render
from mooring.simulation.checks.rules import rule_of
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.swarm import description
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import Outcome, play
from mooring.simulation.search.picture import RunPicture
from mooring.simulation.search.report import Row, page, violation_page
from mooring.simulation.search.summary import Summary

Observe = Callable[[Trace], object]


def write_report(
    summary: Summary, scenario: Scenario, seed: int, title: str, *, html: Path | None, svg: Path | None
) -> None:
    """Plays the seed once more and writes what was asked for."""
    outcome, picture = draw(lambda observe: play(seed, scenario, observe=observe))
    _write(
        picture, page(summary, outcome, picture, title, _facts(outcome.scenario)), seed, html=html, svg=svg
    )


def write_replay(
    again: Callable[[Observe], Outcome], title: str, *, html: Path | None, svg: Path | None
) -> Outcome:
    """Plays a run once more, and writes what was asked for: what was reported and what was true, the moment
    of the violation, and the rule that was violated."""
    outcome, picture = draw(again, title)
    rules = [(name, rule_of(name)) for name in outcome.invariants]
    body = violation_page(outcome, picture, title, rules, _facts(outcome.scenario))
    _write(picture, body, outcome.seed, html=html, svg=svg)
    return outcome


def draw(again: Callable[[Observe], Outcome], title: str = "") -> tuple[Outcome, str]:
    """A run and its picture."""
    seen: list[RunPicture] = []
    outcome = again(lambda trace: seen.append(RunPicture(trace)))
    return outcome, render(seen[0].of(outcome, title or f"Seed {outcome.seed}"))


def _write(picture: str, body: str, seed: int, *, html: Path | None, svg: Path | None) -> None:
    for path, text in ((svg, picture), (html, body)):
        if path is not None:
            path.write_text(text)
            click.echo(f"{path}: seed {seed}", err=True)


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
