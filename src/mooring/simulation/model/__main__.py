"""`python -m mooring.simulation.model`: makes all searches and prints what they have seen."""

from __future__ import annotations

import sys
import time

from mooring.simulation.model.runs import HARM, HOLD, Run
from mooring.simulation.model.search import Found, search


def _made(run: Run) -> tuple[Found, float]:
    began = time.perf_counter()
    return search(run.settings, liveness=run.liveness), time.perf_counter() - began


def main() -> int:
    """0 if everything held, and every rule that was switched off was missed."""
    wrong = 0
    for run in HOLD:
        found, took = _made(run)
        held = not found.violation and not found.dead and found.complete
        wrong += not held
        print(
            f"{'holds' if held else 'FAILS':6} {run.name:62} {found.states:8} states {took:6.1f} s",
            flush=True,
        )
    for run in HARM:
        found, took = _made(run)
        wrong += not found.violation
        without = "+".join(sorted(run.settings.off))
        print(
            f"{'harm' if found.violation else 'NONE':6} without {without:54} {found.states:8} states {took:6.1f} s"
        )
        print(f"       {found.violation} after {len(found.way)} steps: {' · '.join(found.way)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
