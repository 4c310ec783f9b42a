"""Real stateful sets under faults: `python -m tests.machines.stateful`. Needs root.

python -m tests.machines.stateful --set etcd|postgres [--seed N] [--minutes M] [--machines KIND]
                                  [--faults A,B] [--flags FLAGS] [-o json]

Prints what happens, and a table at the end; status 1 if a promise was violated or not all could be judged, 2
if it cannot run here. A seed draws the same faults again; when they hit is up to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from tests.machines.stateful.plan import FAULTS
from tests.machines.stateful.run import SOFTWARE, Options, missing, run, table


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.machines.stateful")
    parser.add_argument("--set", dest="software", choices=sorted(SOFTWARE), required=True)
    parser.add_argument("--seed", type=int, default=None, help="default: any, which is printed")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--machines", default="", help="as `mooring up --machines` takes it")
    parser.add_argument("--faults", default="", help="only these: " + ", ".join(each.name for each in FAULTS))
    parser.add_argument("--flags", default="", help="of the software, in addition")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return parser.parse_args()


def main() -> int:
    given = parsed()
    only = {name for name in given.faults.split(",") if name}
    if unknown := only - {fault.name for fault in FAULTS}:
        print(f"--faults: there is no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("needs root: its volumes are block devices", file=sys.stderr)
        return 2
    if problem := missing(given.software):
        print(problem, file=sys.stderr)
        return 2
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4))
    print(f"seed {seed}", file=sys.stderr)
    options = Options(
        given.software,
        seed,
        given.minutes * 60,
        machines=given.machines,
        faults=tuple(each for each in FAULTS if not only or each.name in only),
        flags=given.flags,
    )
    report = asyncio.run(run(options, lambda line: print(line, file=sys.stderr, flush=True)))
    print(json.dumps(report.as_json(), indent=2) if given.output == "json" else table(report))
    return 0 if report.verdict == "kept" else 1


if __name__ == "__main__":
    sys.exit(main())
