"""What came of a round: by room, the survivors, and whether the bar is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.mutation.campaign import Verdict

BY_SIMULATOR, BY_BOTH, NOT_PLAYED_BY_TESTS, MOST_EQUIVALENT = 0.85, 0.97, 0.95, 0.10


@dataclass(frozen=True)
class Share:
    """So many of so many, and what is asked for: at least, or at most, that share."""

    what: str
    some: int
    whole: int
    bar: float
    most: bool = False

    @property
    def holds(self) -> bool:
        if not self.whole:
            return True
        share = self.some / self.whole
        return share <= self.bar if self.most else share >= self.bar

    def __str__(self) -> str:
        percent = f"{100 * self.some / self.whole:.1f} %" if self.whole else "-"
        asked = f"{'at most' if self.most else 'at least'} {100 * self.bar:.0f} %"
        return f"{self.what}: {self.some} of {self.whole}, {percent} ({asked}){'' if self.holds else '  BELOW THE BAR'}"


def shares(verdicts: Sequence[Verdict], by: str) -> list[Share]:
    """The bar. Of those on lines that no seed executes, the simulator is not asked for anything."""
    different = [verdict for verdict in verdicts if not verdict.equivalent]
    equivalent = len(verdicts) - len(different)
    found = [Share("equivalent", equivalent, len(verdicts), MOST_EQUIVALENT, most=True)]
    if by == "tests":
        return [_killed("killed by unit tests", different, BY_BOTH), *found]
    played = [verdict for verdict in different if verdict.played]
    found.insert(0, _by_simulator(played))
    if by == "both":
        found.insert(1, _killed("killed by simulator and unit tests together", different, BY_BOTH))
        rest = [verdict for verdict in different if not verdict.played]
        found.insert(
            2, _killed("killed by unit tests, of those that no seed executes", rest, NOT_PLAYED_BY_TESTS)
        )
    return found


def _killed(what: str, verdicts: Sequence[Verdict], bar: float) -> Share:
    return Share(what, sum(verdict.killed for verdict in verdicts), len(verdicts), bar)


def _by_simulator(verdicts: Sequence[Verdict]) -> Share:
    killed = sum(verdict.by_simulator for verdict in verdicts)
    return Share(
        "killed by the simulator alone, of those that a seed executes", killed, len(verdicts), BY_SIMULATOR
    )


def line(verdict: Verdict) -> str:
    """One mutant, while it is judged."""
    said: list[str] = []
    if verdict.executed == 0:
        said.append("no seed executes it")
    if simulator := verdict.simulator:
        told = {
            "": f"survives {simulator.seeds} seeds ({simulator.played} execute it)",
            "violated": f"{', '.join(simulator.invariants)} in {simulator.seeds} seeds",
        }
        said.append(
            told.get(simulator.how, f"{simulator.how} in {simulator.seeds} seeds: {simulator.message}")
        )
        said[-1] += f", {simulator.seconds:.0f} s"
    if tests := verdict.tests:
        told = {"": f"survives {tests.tests} tests", "failed": f"fails {tests.killer}"}
        said.append(told.get(tests.how, f"{tests.how} in {tests.tests} tests") + f", {tests.seconds:.0f} s")
    return f"{'killed  ' if verdict.killed else 'SURVIVES'} {verdict.name}: {'; '.join(said)}"


def lines(verdicts: Sequence[Verdict], by: str) -> Iterator[str]:
    """The whole report; its last line has the sums."""
    yield from _table(verdicts)
    survivors = [verdict for verdict in verdicts if not verdict.killed and not verdict.equivalent]
    if survivors:
        yield f"\nSURVIVORS ({len(survivors)})"
    for verdict in survivors:
        yield f"\n{line(verdict)}\n{verdict.diff}"
    if by == "both":
        missed = [
            verdict
            for verdict in verdicts
            if verdict.played and verdict.by_tests and not verdict.by_simulator
        ]
        if missed:
            yield f"\nKILLED BY UNIT TESTS ONLY, THOUGH SEEDS EXECUTE THEM ({len(missed)})"
        yield from (f"{verdict.name} ({verdict.executed} seeds)" for verdict in missed)
    if wrong := [verdict for verdict in verdicts if verdict.proof and verdict.killed]:
        yield "\nPROVEN EQUIVALENT, AND KILLED: these proofs are wrong"
        yield from (line(verdict) for verdict in wrong)
    yield ""
    if by != "tests":
        apart = sum(not verdict.played for verdict in verdicts)
        yield f"on lines that no seed executes: {apart} of {len(verdicts)} ({100 * apart / (len(verdicts) or 1):.0f} %)"
    yield from (str(share) for share in shares(verdicts, by))
    killed, equivalent = (
        sum(verdict.killed for verdict in verdicts),
        sum(each.equivalent for each in verdicts),
    )
    yield f"killed {killed} of {len(verdicts) - equivalent} (equivalent {equivalent})"


COLUMNS = (
    "mutants",
    "simulator",
    "tests only",
    "neither",
    "equivalent",
    "| not played",
    "by tests",
    "by none",
)


def _table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Rooms; those on lines that no seed executes apart, on the right."""
    rooms = [*dict.fromkeys(verdict.room for verdict in verdicts), "all"]
    width = max(len(room) for room in rooms)
    yield f"{'':<{width}}  " + "  ".join(COLUMNS)
    for room in rooms:
        found = [verdict for verdict in verdicts if room in ("all", verdict.room)]
        played = [verdict for verdict in found if verdict.played or verdict.executed is None]
        apart = [verdict for verdict in found if verdict not in played]
        figures = (
            len(found),
            sum(verdict.by_simulator for verdict in played),
            sum(verdict.by_tests and not verdict.by_simulator for verdict in played),
            sum(not verdict.killed and not verdict.equivalent for verdict in played),
            sum(verdict.equivalent for verdict in found),
            len(apart),
            sum(verdict.killed for verdict in apart),
            sum(not verdict.killed and not verdict.equivalent for verdict in apart),
        )
        cells = (f"{figure:>{len(title)}}" for figure, title in zip(figures, COLUMNS, strict=True))
        yield f"{room:<{width}}  " + "  ".join(cells)
