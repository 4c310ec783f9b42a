"""Runs one target's fuzzer.

    python -m tests.fuzz TARGET --seconds N [--corpus DIR] [--seed S]

It begins with the inputs of the corpus (tests/fuzz/corpus/TARGET unless another one is named) and the
target's seeds, and puts what finds new code there, so that the next run goes on from it. With atheris
coverage leads the way, else chance. An input that breaks a property is saved as crash-* beside the corpus; so
is one that takes more than 50 ms of CPU (stall-*), measured anew without instruments. The exit status is 0
only if there was none of them and the process has not grown by more than 200 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutation import mutated
from tests.fuzz.run import MOST_CPU_S, MOST_GROWN_MIB, Measured, corpus_of, resident_mib

TARGETS = Path(__file__).parent / "targets"
CORPUS = Path(__file__).parent / "corpus"


def main() -> int:
    """Parses the command line and runs the target."""
    names = sorted(path.stem for path in TARGETS.glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=names)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--atheris", action="store_true", help="let coverage lead the way")
    parser.add_argument("--replay", type=Path, help="measure this one input")
    given = parser.parse_args()
    corpus: Path = given.corpus or CORPUS / given.target
    corpus.mkdir(parents=True, exist_ok=True)
    if given.replay:
        return _replay(given.target, given.replay)
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4), "big")
    if given.atheris:
        return _led(given.target, given.seconds, corpus, seed)
    return _by_chance(given.target, given.seconds, corpus, seed)


def _replay(target: str, path: Path) -> int:
    measured = Measured(import_module(f"tests.fuzz.targets.{target}").check)
    measured.warm(import_module(f"tests.fuzz.targets.{target}").SEEDS)
    measured(path.read_bytes())
    print(f"{measured.longest * 1e3:.1f} ms of CPU")
    return int(measured.longest > MOST_CPU_S)


def _by_chance(target: str, seconds: float, corpus: Path, seed: int) -> int:
    module: Any = import_module(f"tests.fuzz.targets.{target}")
    inputs = corpus_of(corpus, module.SEEDS)
    measured, random = Measured(module.check), Random(seed)
    measured.warm(inputs)
    resting, until, failed = resident_mib(), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        data = mutated(random, inputs)
        try:
            took = measured(data)
        except Exception as error:
            failed += _save(corpus, "crash", data, error)
            continue
        if took > MOST_CPU_S and measured(data) > MOST_CPU_S:
            failed += _save(corpus, "stall", data, f"{took * 1e3:.0f} ms")
    return _report(target, seed, measured, resident_mib() - resting, failed)


def _report(target: str, seed: int, measured: Measured, grown: float, failed: int) -> int:
    print(
        f"{target}: seed {seed}, {measured.count} inputs, longest {measured.longest * 1e3:.1f} ms of CPU, "
        f"grown by {grown:.0f} MiB, {failed} findings",
        flush=True,
    )
    return int(failed > 0 or grown > MOST_GROWN_MIB)


def _save(corpus: Path, what: str, data: bytes, why: object) -> int:
    path = corpus.parent / f"{what}-{corpus.name}-{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    print(f"{path}: {why!r}"[:400], flush=True)
    return 1


def _led(target: str, seconds: float, corpus: Path, seed: int) -> int:
    """libFuzzer never returns: it runs in a process of its own, and what it found is looked at here."""
    before = {*corpus.parent.glob(f"crash-{target}-*")}
    script = (
        "import sys, atheris\n"
        "with atheris.instrument_imports(include=['mooring', 'tests.fuzz.targets']):\n"
        f"    import tests.fuzz.targets.{target} as target\n"
        "atheris.Setup(sys.argv, target.check)\n"
        "atheris.Fuzz()\n"
    )
    module: Any = import_module(f"tests.fuzz.targets.{target}")
    for data in module.SEEDS:
        (corpus / hashlib.sha256(data).hexdigest()[:40]).write_bytes(data)
    most_mib = int(resident_mib() + 4 * MOST_GROWN_MIB)
    options = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed}",
        "-max_len=65536",
        "-timeout=20",
        "-print_final_stats=1",
    ]
    options += [
        f"-rss_limit_mb={most_mib}",
        f"-artifact_prefix={corpus.parent}/crash-{target}-",
        "-verbosity=0",
    ]
    ended = subprocess.run([sys.executable, "-c", script, *options, str(corpus)], check=False).returncode
    found = {*corpus.parent.glob(f"crash-{target}-*")} - before
    measured = Measured(module.check)
    inputs = corpus_of(corpus, module.SEEDS)
    measured.warm(inputs[:200])
    slow = sum(1 for data in inputs if measured(data) > MOST_CPU_S and _save(corpus, "stall", data, "slow"))
    print(
        f"{target}: seed {seed}, {len(inputs)} inputs in the corpus, longest {measured.longest * 1e3:.1f} ms of CPU"
    )
    return int(bool(ended or found or slow))


if __name__ == "__main__":
    sys.exit(main())
