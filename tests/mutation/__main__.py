"""Draws mutants and judges them: `python -m tests.mutation --seed N --count K`; see the package's
docstring."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec
from tests.mutation import by_simulator, measuring, report
from tests.mutation.campaign import Judge, Kept, OtherRound, Verdict, judged
from tests.mutation.drawing import drawn, head
from tests.mutation.mutants import Mutant, named
from tests.mutation.rooms import SAFETY, SOURCE, NoSuchRoom, checked


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Mutants drawn by chance.")
    parser.add_argument("--seed", default=None, help="what is drawn; default: the hash of HEAD")
    parser.add_argument("--count", type=int, default=300, help="how many; default: 300")
    parser.add_argument("--by", choices=["simulator", "tests", "both"], default="both")
    parser.add_argument("--rooms", nargs="+", default=[*SAFETY], metavar="FOLDER", help="of src/mooring")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants, whatever is drawn")
    parser.add_argument("--list", action="store_true", help="print what is drawn, and judge nothing")
    parser.add_argument("--show", nargs="+", metavar="NAME", help="print the diffs of these mutants")
    parser.add_argument("--base", type=int, default=0, help="the first seed of the simulator; default: 0")
    parser.add_argument("--seeds", type=int, default=200, help="of the simulator, at most; default: 200")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep the verdicts there, and go on from them"
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser.parse_args()


def main() -> int:
    """Returns the exit status: 1 below the bar."""
    options = parsed()
    try:
        rooms = checked(options.rooms)
        mutants = [named(name) for name in options.show or options.only or ()]
    except NoSuchRoom as error:
        sys.exit(str(error))
    except KeyError as error:
        sys.exit(f"there is no mutant {error} (any more): `--list` prints those that are drawn")
    seed = options.seed or head()
    mutants = mutants or drawn(seed, options.count, rooms)
    if options.list or options.show:
        for mutant in mutants:
            print(f"{mutant.name}\n{mutant.diff()}\n" if options.show else mutant.name)
        return 0
    by_simulator.warm()
    try:
        verdicts = _judged(mutants, options)
    except (measuring.NotClean, OtherRound) as error:
        sys.exit(str(error))
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode({"seed": seed, "verdicts": verdicts})).decode())
    else:
        which = f"{len(mutants)} mutants" + ("" if options.only else f" of seed {seed}")
        print(f"\n{which}, {options.seeds} seeds from {options.base} on\n")
        for line in report.lines(verdicts, options.by):
            print(line)
    return 0 if all(share.holds for share in report.shares(verdicts, options.by)) else 1


def _judged(mutants: list[Mutant], options: argparse.Namespace) -> list[Verdict]:
    what = f"{options.seeds} seeds from {options.base} on, sources {measuring.state_of(SOURCE)}"
    kept = Kept(options.resume, what, measuring.tests_state()) if options.resume else None
    seeds = tests = None
    if options.by != "tests":
        _tell(f"which lines {options.seeds} seeds execute ...")
        rooms = tuple(dict.fromkeys(mutant.room for mutant in mutants))
        seeds = measuring.seeds(options.base, options.seeds, options.workers, rooms)
    if options.by != "simulator":
        _tell("which lines the unit tests execute ...")
        tests = measuring.tests(options.workers)

    def say(verdict: Verdict, left: int) -> None:
        _tell(f"[{left} left] {report.line(verdict)}")

    judge = Judge(options.base, options.seeds, seeds, tests)
    return judged(mutants, judge, at_once=options.workers, kept=kept, say=say)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
