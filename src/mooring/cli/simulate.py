"""`mooring simulate`: the production code in virtual time, under faults, with every step checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.output import fail

if TYPE_CHECKING:
    from mooring.simulation.run import Outcome
    from mooring.simulation.search.summary import Summary

SHOWN = 3
"""How many violations of a seed are printed."""
SAME = "came out as the forerunner"


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(1), help="How many seeds to play.")
@click.option("--seed", default=0, show_default=True, help="The first of them.")
@click.option("--trace", "traced", is_flag=True, help="Print everything that happened in the first seed.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="Play a violation again that was stored.")
@click.option("--store", type=click.Path(path_type=Path), help="A directory for violations, made small: <seed>.json.")
@click.option("--workers", type=click.IntRange(1), help="Processes. Default: one for each processor.")
@click.option("--mutants", is_flag=True, help="Put known bugs back in, one after the other, and tell which are found.")
@click.option("--mutant", "only", help="Hunt these mutants only: B01,B02a,...")
@click.option("--rounds", default=1, show_default=True, type=click.IntRange(1), help="How often each mutant is hunted.")
@click.option("--systematic", is_flag=True, help="Each single fault at each point of a short story, one by one.")
@click.option("--exhaustive", is_flag=True, help="All runs that differ from a plain one in at most DEPTH things.")
@click.option("--depth", default=1, show_default=True, type=click.IntRange(1, 3), help="For --exhaustive.")
@click.option("--resume", type=click.Path(path_type=Path), help="A directory that keeps how far this has come.")
@click.option("--html", type=click.Path(path_type=Path), help="A page with figures and the timeline of the first seed.")
@click.option("--svg", type=click.Path(path_type=Path), help="That timeline alone.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def simulate(
    file: Path | None,
    seeds: int,
    seed: int,
    traced: bool,
    replay: Path | None,
    store: Path | None,
    workers: int | None,
    mutants: bool,
    only: str | None,
    rounds: int,
    systematic: bool,
    exhaustive: bool,
    depth: int,
    resume: Path | None,
    html: Path | None,
    svg: Path | None,
    output: str,
) -> None:
    """Plays whole clusters in virtual time, under faults, and checks what must never happen, and what must.

    FILE is a scenario (YAML): nodes, sets, minutes, faults, actions, only. Without it: three nodes, four volumes and
    thirty minutes. The same seed plays the same run, byte for byte. Exit status 1: an invariant was violated.
    """
    import msgspec

    from mooring.simulation.cluster.scenario import DEFAULT
    from mooring.simulation.cluster.scenario_file import ScenarioError, read_scenario
    from mooring.simulation.run import play
    from mooring.simulation.search import searches
    from mooring.simulation.search.progress import SavedProgress, SavedProgressError
    from mooring.simulation.search.shrink import keep
    from mooring.simulation.search.stored_run import read
    from mooring.simulation.search.systematic import ViolatedWithoutFaults

    try:
        scenario = read_scenario(file) if file is not None else DEFAULT
    except ScenarioError as error:
        fail(str(error))
    if store is not None and (mutants or only):
        sys.exit(0 if _store_regressions(only, seed, seeds, store) else 1)
    if mutants or only:
        sys.exit(0 if _hunt(only, seed, seeds, rounds, output) else 1)
    if replay is not None or traced:
        stored = read(replay) if replay is not None else None
        outcome = stored.play(lines=traced) if stored else play(seed, scenario, lines=True)
        _one(outcome, output)
        sys.exit(0 if outcome.ok else 1)
    try:
        mode = (
            searches.exhaustive(depth) if exhaustive else searches.systematic(scenario.driver) if systematic else None
        )
        mode = mode or searches.random(range(seed, seed + seeds), scenario)
        saved = SavedProgress(resume, mode.what) if resume is not None else None
    except (ViolatedWithoutFaults, SavedProgressError) as error:
        fail(str(error))
    if mode.description and output == "text":
        click.echo(mode.description)
    hidden = output == "json" or not sys.stderr.isatty()
    with click.progressbar(length=mode.size, label=mode.unit, file=sys.stderr, hidden=hidden) as bar:
        summary = mode.run(workers=workers, progress=bar.update, saved=saved)
    scenario = mode.scenario
    if store is not None:
        for path, run in keep(store, scenario, summary.failed):
            click.echo(f"{path}: {run.events} events, {run.violations[0]}", err=True)
    if html is not None or svg is not None:
        from mooring.cli.simulation_report import write_report

        title = f"mooring simulate {file.stem}" if file is not None else "mooring simulate"
        write_report(summary, scenario, seed, title, html=html, svg=svg)
    if output == "json":
        for outcome in summary.failed:
            outcome.choices = {}
        click.echo(msgspec.json.format(msgspec.json.encode(summary)).decode())
    else:
        _sum_up(summary, mode.unit)
    sys.exit(1 if summary.failed else 0)


def _store_regressions(only: str | None, first: int, most: int, directory: Path) -> bool:
    """The smallest run for each mutant that it spoils; whether there is one for each."""
    from mooring.simulation.search.mutants import MUTANTS
    from mooring.simulation.search.regressions import regression
    from mooring.simulation.search.stored_run import write

    names = [name.strip() for name in only.split(",")] if only else [*MUTANTS]
    if unknown := [name for name in names if name not in MUTANTS]:
        fail(f"no mutant {', '.join(unknown)}; there are {', '.join(MUTANTS)}")
    found = {name: regression(name, first=first, most=most) for name in names}
    for name, run in found.items():
        click.echo(f"{name}: {write(directory, run)}, {run.events} events" if run else f"{name}: none")
    return all(found.values())


def _hunt(only: str | None, first: int, most: int, rounds: int, output: str) -> bool:
    """One line for each mutant; whether all were killed."""
    import msgspec

    from mooring.simulation.search.mutants import MUTANTS, hunt_report
    from mooring.simulation.search.mutants.hunt import Verdict, hunt

    names = [name.strip() for name in only.split(",")] if only else [*MUTANTS]
    if unknown := [name for name in names if name not in MUTANTS]:
        fail(f"no mutant {', '.join(unknown)}; there are {', '.join(MUTANTS)}")
    verdicts: list[Verdict] = []
    for name in names:
        verdicts.append(hunt(name, first=first, most=most, rounds=rounds))
        if output == "text":
            click.echo(hunt_report.line(verdicts[-1]))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(verdicts)).decode())
    else:
        for line in [
            *(hunt_report.waiting() if not only else ()),
            *hunt_report.guarded(verdicts),
            *hunt_report.summary(verdicts),
        ]:
            click.echo(line)
    return all(verdict.killed for verdict in verdicts)


def _one(outcome: Outcome, output: str) -> None:
    import msgspec

    if output == "json":
        click.echo(msgspec.json.encode(outcome).decode())
        return
    for line in outcome.lines:
        click.echo(line)
    _violations(outcome)
    click.echo(f"seed {outcome.seed}: {outcome.steps} steps, {outcome.requests} requests, trace {outcome.digest}")


def _violations(outcome: Outcome) -> None:
    if outcome.ok:
        return
    click.echo(click.style(f"seed {outcome.seed}: violated {', '.join(outcome.invariants)}", fg="red"))
    for step in outcome.plan:
        click.echo(f"    {step}")
    for violation in outcome.violations[:SHOWN]:
        click.echo(f"  {violation}")


def _sum_up(summary: Summary, unit: str) -> None:
    from mooring.simulation.search.report import rows

    for outcome in summary.failed:
        _violations(outcome)
    description = [*rows(summary)]
    width = max(len(name) for name, _ in description)
    for name, figure in description:
        click.echo(f"{name:<{width}}  {figure}")
    click.echo(
        f"{summary.runs} runs, {summary.steps} callbacks, {summary.requests} requests in {summary.seconds:.1f} s: "
        f"{summary.per_second:.1f} runs/s, {summary.hours_per_cpu_hour:.0f} simulated hours per CPU hour"
    )
    if same := summary.counts.get(SAME):
        click.echo(f"{same} came out as their forerunner did, and were not followed further")
    click.echo(click.style(f"{len(summary.failed)} {unit} with violations", fg="red" if summary.failed else "green"))


COMMANDS = (simulate,)
