"""How many seeds of the small scenario `mooring simulate` plays in a second, on all processors.

    python -m benchmarks.simulation [SEEDS]

Three nodes, four volumes, thirty simulated minutes each, with about eight faults and eight actions of users.
Prints seeds a second, simulated hours for an hour of a processor, and what a seed is made of.
"""

from __future__ import annotations

import os
import sys

from mooring.simulation.cluster.scenario import USUAL
from mooring.simulation.search import searches


def main() -> None:
    """Plays the seeds from 0 on."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    summary = searches.random(range(seeds), USUAL).run()
    print(
        f"{summary.runs} seeds on {os.cpu_count()} processors in {summary.seconds:.1f} s: "
        f"{summary.per_second:.1f} seeds/s, {summary.hours_per_cpu_hour:.0f} simulated hours per CPU hour"
    )
    each = f"{summary.busy / summary.runs * 1000:.0f} ms of a processor, {summary.steps // summary.runs} callbacks"
    print(
        f"a seed: {each}, {summary.requests // summary.runs} requests; {len(summary.failed)} with violations"
    )


if __name__ == "__main__":
    main()
