"""What a target costs, input by input."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from mooring.apiserver.work_limit import AT_ONCE, TooMuch, limited

MOST_CPU_S = 0.05
MOST_GROWN_MIB = 200.0


class Measured:
    """Calls a target, and remembers the most CPU that one input took, in seconds."""

    def __init__(self, check: Callable[[bytes], None]) -> None:
        self._check = check
        self.longest, self.count = 0.0, 0

    def __call__(self, data: bytes) -> float:
        begun = time.thread_time()
        try:
            with (
                limited(AT_ONCE),
                suppress(TooMuch),
            ):  # what is too much for a server's thread is done elsewhere
                self._check(data)
        finally:
            took = time.thread_time() - begun
            self.count += 1
            self.longest = max(self.longest, took)
        return took

    def warm(self, inputs: Iterable[bytes]) -> None:
        """Calls it with each input, unmeasured: what is read and cached once is not an input's doing."""
        for data in inputs:
            self(data)
        self.longest, self.count = 0.0, 0


def corpus_of(directory: Path, seeds: Sequence[bytes]) -> list[bytes]:
    """The inputs that are kept, and those that a target names."""
    kept = sorted(directory.iterdir()) if directory.is_dir() else []
    return [*seeds, *(path.read_bytes() for path in kept)]


def resident_mib() -> float:
    """The memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
