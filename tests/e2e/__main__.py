"""Plays upstream's end-to-end suite against `mooring up`: `python -m tests.e2e` (`make e2e`). Needs root.

python -m tests.e2e [--reduced] [--times N] [--out DIR] [--focus PATTERN] [SUITE...]
python -m tests.e2e --list     # what is played, and what is not, with the reason
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.e2e import images
from tests.e2e.cluster import cluster
from tests.e2e.suite import (
    NotOffered,
    Outcome,
    Suite,
    chosen,
    load,
    may_grow_mounted,
    play,
    programs,
    specs,
    summary,
)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description="Upstream's end-to-end suite.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: all")
    parser.add_argument("--reduced", action="store_true", help="what CI plays of each")
    parser.add_argument("--times", type=int, default=1, help="rounds; every spec has to pass in each")
    parser.add_argument("--focus", default="", help="only specs that match this, of the suites")
    parser.add_argument("--out", type=Path, help="keep reports and logs here")
    parser.add_argument("--list", action="store_true", help="play nothing")
    return parser.parse_args()


def selected(suites: list[Suite], names: list[str]) -> list[Suite]:
    """Exits with a message if there is no suite of a name."""
    if unknown := set(names) - {suite.name for suite in suites}:
        known = ", ".join(suite.name for suite in suites)
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {known}")
    return [suite for suite in suites if suite.name in (names or [suite.name])]


def narrowed(suite: Suite, pattern: str, names: list[str]) -> Suite | None:
    """Returns only the specs that match `pattern`, too, by their whole names: a pattern cannot demand two
    things. None if there are none."""
    wanted = [name for name in chosen(suite, names) if pattern and re.search(pattern, name)]
    focus = "|".join(re.escape(name).replace("\\ ", " ") for name in wanted)
    return replace(suite, focus=f"(?:{focus})") if wanted else None


def show(suites: list[Suite], skips: list[NotOffered], folder: Path) -> None:
    """What is played and what is not."""
    names = specs(folder)
    for suite in suites:
        of_suite = chosen(suite, names)
        left_out = [n for n in of_suite if any(re.search(each.pattern, n) for each in skips)]
        print(
            f"{suite.name}: {len(of_suite) - len(left_out)} played, {len(left_out)} not offered: {suite.about}"
        )
    for each in skips:
        print(f"not offered: {each.pattern}\n    {each.reason}")


async def run(suites: list[Suite], skips: list[NotOffered], folder: Path, options: argparse.Namespace) -> int:
    """Plays all of them on one cluster; the number of specs that did not pass."""
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    work = Path(tempfile.mkdtemp(prefix="e2e-"))
    failed: list[Outcome] = []
    try:
        for image in images.images(folder / "agnhost", folder / "nnp"):
            images.write(image, work / "images")
        async with cluster(work, work / "images") as stage:
            for round_ in range(options.times):
                for suite in suites:
                    outcomes = await play(suite, skips, folder, work, stage.layout.kubeconfig)
                    print(f"{suite.name} ({round_ + 1} of {options.times}): {summary(outcomes)}", flush=True)
                    failed += report(outcomes)
        keep(work, options.out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return len(failed)


def report(outcomes: list[Outcome]) -> list[Outcome]:
    """Prints what did not pass, and returns it."""
    failed = [each for each in outcomes if not each.passed]
    for each in failed:
        print(f"  - {each.name}\n      {each.state} after {each.seconds:.0f} s, {each.where}")
        print("      " + " | ".join(each.message.split("\n"))[:600], flush=True)
    return failed


def keep(work: Path, out: Path | None) -> None:
    """Logs and reports, of the suite and of the cluster."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for path in (
            *work.glob("*.log"),
            *work.glob("*.json"),
            *work.glob("d/*.log"),
            *work.glob("d/logs/*"),
        ):
            if path.is_file():
                shutil.copy(path, out)


def main() -> int:
    options = parsed()
    suites, skips = load()
    folder = programs()
    if folder is None:
        print(
            "upstream's suite is not built: run `scripts/assets e2e` (needs Go; about ten minutes)",
            file=sys.stderr,
        )
        return 3
    suites = selected(suites, options.suites)
    if options.reduced or options.focus:
        names = specs(folder)
        small = (narrowed(each, options.focus or each.reduced, names) for each in suites)
        suites = [each for each in small if each is not None]
    if options.list:
        show(suites, skips, folder)
        return 0
    if not may_grow_mounted():
        print("online expansion is not played: this machine has no CAP_SYS_RESOURCE", flush=True)
    if packages := images.missing():
        print(f"missing Debian packages: {' '.join(packages)}", file=sys.stderr)
        return 3
    try:
        return min(1, asyncio.run(run(suites, skips, folder, options)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("ended before it was done; everything is taken down", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
