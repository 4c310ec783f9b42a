"""`mooring simulate`: the production code in virtual time, under faults, with every step checked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.groups import Group
from mooring.cli.output import fail

if TYPE_CHECKING:
    from mooring.simulation.cluster.scenario import Scenario
    from mooring.simulation.run import Outcome
    from mooring.simulation.search.searches import Search
    from mooring.simulation.search.summary import Summary

F = TypeVar("F", bound=Callable[..., Any])

VIOLATIONS_SHOWN = 3
"""Of each seed."""
SAME = "came out as the forerunner"


class _RunByDefault(Group):
    """`mooring simulate FILE --seeds 5` is `mooring simulate run FILE --seeds 5`, and `mooring simulate
    --replay FILE` is `mooring simulate replay FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = _replay_as_command(args)
        first = args[0] if args else ""
        if first in self.commands or first in self.get_help_option_names(ctx):
            return super().parse_args(ctx, args)
        if first and not first.startswith("-") and not Path(first).exists():
            commands = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"{first} is neither a command ({commands}) nor a scenario's file", ctx)
        return super().parse_args(ctx, ["run", *args])


def _replay_as_command(args: list[str]) -> list[str]:
    """Where no command comes first, `--replay FILE` is one."""
    if not args or not args[0].startswith("-"):
        return args
    for at, word in enumerate(args):
        name, equals, file = word.partition("=")
        if name == "--replay":
            return ["replay", *([file] if equals else []), *args[:at], *args[at + 1 :]]
    return args


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


POLICY = click.option(
    "--policy",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A Python file with rules in place of ours: may_release, choose (docs/safety.md).",
)
SCENARIO = click.argument("file", required=False, type=click.Path(path_type=Path, exists=True))
SEED = click.option("--seed", default=0, show_default=True, help="The first seed.")
SEEDS = click.option(
    "--seeds", default=20, show_default=True, type=click.IntRange(1), help="How many seeds to play."
)
NAMES = click.argument("names", nargs=-1, metavar="[NAME]...")
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
SEARCHING = _options(
    click.option("--workers", type=click.IntRange(1), help="Processes. Default: one for each processor."),
    click.option(
        "--store",
        type=click.Path(path_type=Path),
        help="A directory for violations: <seed>.json, made small.",
    ),
    click.option(
        "--resume",
        type=click.Path(path_type=Path),
        help="A directory with the progress, to go on from there.",
    ),
    OUTPUT,
)


@click.group(cls=_RunByDefault)
def simulate() -> None:
    """Plays whole clusters in virtual time, under faults, and checks what must never happen, and what must.

    Without a command: `run`; with --replay FILE: `replay`. The same seed plays the same run, byte for byte.
    Exit status 1: an invariant was violated, or a mutant was not found.
    """


@simulate.command()
@SCENARIO
@_options(SEEDS, SEED, POLICY, SEARCHING)
@click.option(
    "--html", type=click.Path(path_type=Path), help="A page with figures and the timeline of the first seed."
)
@click.option("--svg", type=click.Path(path_type=Path), help="That timeline alone.")
@click.option(
    "--coverage",
    is_flag=True,
    help="Print how often each invariant had something to look at after each fault.",
)
def run(
    file: Path | None,
    seeds: int,
    seed: int,
    html: Path | None,
    svg: Path | None,
    coverage: bool,
    policy: Path | None,
    **options: Any,
) -> None:
    """Plays random runs: each seed draws its faults, its users and its order of events.

    FILE is a scenario (YAML): nodes, sets, minutes, faults, actions, only. Without it each seed draws all of
    that itself: its storage and driver, its workloads, and which faults there are.
    """
    from mooring.simulation.search import searches

    scenario = _with_policy(_scenario(file), policy)
    summary = _search(searches.random(range(seed, seed + seeds), scenario), **options)
    if coverage and options["output"] == "text":
        from mooring.simulation.search.coverage import table

        for line in table(summary.cells):
            click.echo(line)
    if html is not None or svg is not None:
        from mooring.cli.simulation_report import write_report

        title = f"mooring simulate {file.stem}" if file is not None else "mooring simulate"
        write_report(summary, scenario, seed, title, html=html, svg=svg)
    sys.exit(1 if summary.failed else 0)


@simulate.command()
@SCENARIO
@click.option("--seed", default=0, show_default=True, help="The seed to play.")
@_options(POLICY, OUTPUT)
def trace(file: Path | None, seed: int, policy: Path | None, output: str) -> None:
    """Prints everything that happened in one seed. FILE is a scenario, as for `run`."""
    from mooring.simulation.run import play

    _print_run(play(seed, _with_policy(_scenario(file), policy), lines=True), output)


@simulate.command()
@click.argument("stored", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--trace", "traced", is_flag=True, help="Print everything that happened.")
@click.option(
    "--without-mutant", is_flag=True, help="Play the code as it is, whatever the run was found with."
)
@click.option(
    "--svg", type=click.Path(path_type=Path), help="A picture: what was reported, what was true, when."
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="A page with that picture, the rule and the trace."
)
@OUTPUT
def replay(
    stored: Path, traced: bool, without_mutant: bool, svg: Path | None, html: Path | None, output: str
) -> None:
    """Plays a violation again that `--store` or `regressions` has stored.

    A run that needs a mutant to be violated is played with that mutant.
    """
    import msgspec

    from mooring.simulation.search.mutants import MUTANTS
    from mooring.simulation.search.stored_run import read

    try:
        found = read(stored)
    except msgspec.DecodeError as error:
        fail(f"{stored} is not a stored run: {error}")
    mutant = None
    if found.mutant:
        if found.mutant not in MUTANTS:
            fail(f"{stored} needs the mutant {found.mutant}, which is not there any more")
        mutant = MUTANTS[found.mutant]
        how = "played without it" if without_mutant else "put in for this run"
        click.echo(f"{stored} is violated with the mutant {found.mutant} ({mutant.fault}): {how}", err=True)
    with nullcontext() if mutant is None or without_mutant else mutant.applied():
        if svg is None and html is None:
            outcome = found.play(lines=traced)
        else:
            from mooring.cli.simulation_report import write_replay

            title = stored.name if mutant is None or without_mutant else f"{stored.name}, with {found.mutant}"
            title += "" if mutant is None or without_mutant else f": {mutant.fault}"
            outcome = write_replay(
                lambda observe: found.play(lines=True, observe=observe), title, svg=svg, html=html
            )
    outcome.lines = outcome.lines if traced else []
    _print_run(outcome, output)


@simulate.command()
@click.option(
    "--driver",
    type=click.Choice(["plugin", "ebs"]),
    default="plugin",
    show_default=True,
    help="How the cluster reaches its storage. ebs: the calls of EC2 are points, too.",
)
@click.option(
    "--fencing", is_flag=True, help="A node is lost and fenced: the points of the fencing controller."
)
@SEARCHING
def systematic(driver: str, fencing: bool, **options: Any) -> None:
    """Plays each single fault at each point of a short story, one by one."""
    from mooring.simulation.search import searches

    sys.exit(
        1 if _search(_prepared(lambda: searches.systematic(driver, fencing=fencing)), **options).failed else 0
    )


@simulate.command()
@click.option("--depth", default=1, show_default=True, type=click.IntRange(1, 3), help="In how many things.")
@SEARCHING
def exhaustive(depth: int, **options: Any) -> None:
    """Plays all runs that differ from a plain one in at most DEPTH things: a fault, or another order of
    events."""
    from mooring.simulation.search import searches

    sys.exit(1 if _search(_prepared(lambda: searches.exhaustive(depth)), **options).failed else 0)


@simulate.command()
@NAMES
@_options(SEEDS, SEED)
@click.option(
    "--rounds", default=1, show_default=True, type=click.IntRange(1), help="How often each is hunted."
)
@OUTPUT
def mutants(names: tuple[str, ...], seeds: int, seed: int, rounds: int, output: str) -> None:
    """Puts known bugs back in, one after the other, and says which are found. NAME: B01 B02a ...; all by
    default."""
    import msgspec

    from mooring.simulation.search.mutants import hunt_report
    from mooring.simulation.search.mutants.hunt import Verdict, hunt

    verdicts: list[Verdict] = []
    for name in _known(names):
        verdicts.append(hunt(name, first=seed, most=seeds, rounds=rounds))
        if output == "text":
            click.echo(hunt_report.line(verdicts[-1]))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(verdicts)).decode())
    else:
        waiting = () if names else hunt_report.waiting()
        for line in [*waiting, *hunt_report.guarded(verdicts), *hunt_report.summary(verdicts)]:
            click.echo(line)
    sys.exit(0 if all(verdict.killed for verdict in verdicts) else 1)


@simulate.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@NAMES
@_options(SEEDS, SEED)
def regressions(directory: Path, names: tuple[str, ...], seeds: int, seed: int) -> None:
    """Stores in DIRECTORY, for each mutant, the smallest run found that is violated with it and not
    without."""
    from mooring.simulation.search.regressions import regression
    from mooring.simulation.search.stored_run import write

    found = {name: regression(name, first=seed, most=seeds) for name in _known(names)}
    for name, small in found.items():
        click.echo(f"{name}: {write(directory, small)}, {small.events} events" if small else f"{name}: none")
    sys.exit(0 if all(found.values()) else 1)


def _scenario(file: Path | None) -> Scenario:
    from mooring.simulation.cluster.scenario import DEFAULT
    from mooring.simulation.cluster.scenario_file import ScenarioError, read_scenario

    try:
        return read_scenario(file) if file is not None else DEFAULT
    except ScenarioError as error:
        fail(str(error))


def _with_policy(scenario: Scenario, policy: Path | None) -> Scenario:
    """The scenario with the user's rules, which are read once so that a mistake in them is said at once."""
    import msgspec

    from mooring.simulation.cluster.user_rules import UserRulesError, rules_of

    file = str(policy.resolve()) if policy is not None else scenario.policy
    try:
        if file:
            rules_of(file)
    except UserRulesError as error:
        fail(str(error))
    return msgspec.structs.replace(scenario, policy=file)


def _known(names: Sequence[str]) -> list[str]:
    """These mutants, or all."""
    from mooring.simulation.search.mutants import MUTANTS

    if unknown := [name for name in names if name not in MUTANTS]:
        fail(f"no mutant {', '.join(unknown)}; there are {', '.join(MUTANTS)}")
    return [*names] or [*MUTANTS]


def _prepared(make: Callable[[], Search]) -> Search:
    from mooring.simulation.search.systematic import ViolatedWithoutFaults

    try:
        return make()
    except ViolatedWithoutFaults as error:
        fail(str(error))


def _search(
    search: Search, *, workers: int | None, store: Path | None, resume: Path | None, output: str
) -> Summary:
    """Runs the search, stores what it found, and prints the sums."""
    from mooring.simulation.search.progress import SavedProgress, SavedProgressError
    from mooring.simulation.search.shrink import keep

    try:
        saved = SavedProgress(resume, search.what) if resume is not None else None
    except SavedProgressError as error:
        fail(str(error))
    if search.description and output == "text":
        click.echo(search.description)
    hidden = output == "json" or not sys.stderr.isatty()
    with click.progressbar(length=search.size, label=search.unit, file=sys.stderr, hidden=hidden) as bar:
        summary = search.run(workers=workers, progress=bar.update, saved=saved)
    if store is not None:
        for path, small in keep(store, summary.failed):
            click.echo(f"{path}: {small.events} events, {small.violations[0]}", err=True)
    _print_summary(summary, search.unit, output)
    return summary


def _print_run(outcome: Outcome, output: str) -> None:
    """One run, and exits with its status."""
    import msgspec

    if output == "json":
        click.echo(msgspec.json.encode(outcome).decode())
    else:
        for line in outcome.lines:
            click.echo(line)
        _print_violations(outcome)
        click.echo(
            f"seed {outcome.seed}: {outcome.steps} steps, {outcome.requests} requests, trace {outcome.digest}"
        )
    sys.exit(0 if outcome.ok else 1)


def _print_violations(outcome: Outcome) -> None:
    from mooring.simulation.cluster.swarm import description

    if outcome.ok:
        return
    click.echo(click.style(f"seed {outcome.seed}: violated {', '.join(outcome.invariants)}", fg="red"))
    click.echo(f"  {description(outcome.scenario)}")
    for step in outcome.plan:
        click.echo(f"    {step}")
    for violation in outcome.violations[:VIOLATIONS_SHOWN]:
        click.echo(f"  {violation}")


def _print_summary(summary: Summary, unit: str, output: str) -> None:
    import msgspec

    from mooring.simulation.search.report import rows

    if output == "json":
        for outcome in summary.failed:
            outcome.choices = {}
        click.echo(msgspec.json.format(msgspec.json.encode(summary)).decode())
        return
    for outcome in summary.failed:
        _print_violations(outcome)
    figures = [*rows(summary)]
    width = max(len(name) for name, _ in figures)
    for name, figure in figures:
        click.echo(f"{name:<{width}}  {figure}")
    click.echo(
        f"{summary.runs} runs, {summary.steps} callbacks, {summary.requests} requests in {summary.seconds:.1f} s: "
        f"{summary.per_second:.1f} runs/s, {summary.hours_per_cpu_hour:.0f} simulated hours per CPU hour"
    )
    if same := summary.counts.get(SAME):
        click.echo(f"{same} came out as their forerunner did, and were not followed further")
    click.echo(
        click.style(f"{len(summary.failed)} {unit} with violations", fg="red" if summary.failed else "green")
    )


COMMANDS = (simulate,)
