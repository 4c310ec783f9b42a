"""How long the API server's thread is taken at a time, under attacks that each would block it: CPU
milliseconds.

    python -m benchmarks.stalls

One row for each attack: the answer's status, the longest turn of the loop, and how much the process has grown
over what it was at rest. The last row is the longest of all; the exit status is 1 if it is over 50 ms.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.attacks import ATTACKS, prepare
from tests.fuzz.served import served
from tests.fuzz.stalls import watched

MOST_MS = 50.0


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Prints the table."""
    longest = 0.0
    chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory, served(Path(directory)) as server, watched() as stalls:
        prepare(server)
        resting = _resident_mib()
        print(f"{'attack':36} {'status':>6} {'stall ms':>9} {'grown MiB':>9} {'took s':>7}")
        for name, attack in ATTACKS.items():
            if chosen and not any(each in name for each in chosen):
                continue
            stalls.reset()
            begun = time.monotonic()
            answer = attack(server)
            took = time.monotonic() - begun
            longest = max(longest, stalls.longest)
            grown = _resident_mib() - resting
            print(
                f"{name:36} {answer.status:6} {stalls.longest * 1e3:9.1f} {grown:9.1f} {took:7.1f}",
                flush=True,
            )
            if stalls.longest * 1e3 > MOST_MS:
                print(f"    {stalls.what}")
    print(f"{'longest':36} {'':6} {longest * 1e3:9.1f}")
    return int(longest * 1e3 > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
