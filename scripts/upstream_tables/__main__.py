"""Writes `tests/upstream/tables/*.json`: the cases of upstream's table tests, as facts.

    python scripts/upstream_tables [PACKAGE...]      # needs Go, which fetches the module; about ten minutes

Upstream's tests are copied to a cache folder and rewritten there (`patch.go`): each loop over a table of
cases writes the table out, with the variables in its scope, instead of running it (`dump.go`). No text of
upstream's tests is taken over: objects, names of cases, expected events and results, and the names of the
functions that a case calls. `tests/upstream/tables.py` reads the files and describes their form.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from compact import compact

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TARGET = ROOT / "tests/upstream/tables"
ASSETS = ROOT / "tests/real/assets/kubernetes"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mooring/upstream-tables"

PACKAGES = {
    "persistentvolume": "pkg/controller/volume/persistentvolume",
    "pvcprotection": "pkg/controller/volume/pvcprotection",
    "pvprotection": "pkg/controller/volume/pvprotection",
    "expand": "pkg/controller/volume/expand",
    "podgc": "pkg/controller/podgc",
    "tainteviction": "pkg/controller/tainteviction",
    "nodelifecycle": "pkg/controller/nodelifecycle",
    "statefulset": "pkg/controller/statefulset",
    "volumebinding": "pkg/scheduler/framework/plugins/volumebinding",
    "volumerestrictions": "pkg/scheduler/framework/plugins/volumerestrictions",
    "volumezone": "pkg/scheduler/framework/plugins/volumezone",
    "nodevolumelimits": "pkg/scheduler/framework/plugins/nodevolumelimits",
}
MODULE = "k8s.io/kubernetes"
TEST_LIMIT_S = 60
"""Tests without a table run as they are; what they find is of no interest, so a slow one is ended."""


def go(*arguments: str, folder: Path, **environment: str) -> str:
    """Runs the go tool and returns what it printed."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def prepared() -> tuple[Path, str]:
    """Returns the folder of a fresh copy of upstream's module, and its version."""
    version = re.findall(rf"^require {MODULE} (\S+)$", (ASSETS / "go.mod").read_text(), re.M)[0]
    source = Path(json.loads(go("mod", "download", "-json", f"{MODULE}@{version}", folder=ASSETS))["Dir"])
    copy = CACHE / version
    if not copy.exists():
        shutil.copytree(source, copy)
        subprocess.run(["chmod", "-R", "u+w", copy], check=True)
        (copy / "go.work").unlink(missing_ok=True)
    for path in PACKAGES.values():
        shutil.rmtree(copy / path)
        shutil.copytree(source / path, copy / path)
        subprocess.run(["chmod", "-R", "u+w", copy / path], check=True)
    main = CACHE / "main"
    main.mkdir(exist_ok=True)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(ASSETS / name, main / name)
    go("mod", "edit", f"-replace={MODULE}={copy}", folder=main)
    return copy, version


def tables_of(copy: Path, path: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the names of a package's test functions, and the tables that they loop over."""
    folder, program, out = copy / path, CACHE / "tables.test", CACHE / "tables.jsonl"
    tests = json.loads(go("run", str(HERE / "patch.go"), str(folder), str(HERE / "dump.go"), folder=HERE))[
        "tests"
    ]
    go(
        "test",
        "-mod=mod",
        "-trimpath",
        "-vet=off",
        "-c",
        "-o",
        str(program),
        f"{MODULE}/{path}",
        folder=CACHE / "main",
    )
    out.unlink(missing_ok=True)
    for test in [*tests, "TestDumpOfPackageVariables"]:
        try:
            subprocess.run(
                [program, "-test.run", f"^{test}$"],
                cwd=folder, timeout=TEST_LIMIT_S, capture_output=True, check=False,
                env={**os.environ, "UPSTREAM_TABLES_OUT": str(out)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"{test} has no table, or was too slow", file=sys.stderr)
    return tests, [json.loads(line) for line in out.read_text().splitlines()]


def main() -> None:
    """Writes one file for each package."""
    wanted = sys.argv[1:] or list(PACKAGES)
    copy, version = prepared()
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        tests, entries = tables_of(copy, PACKAGES[name])
        text = compact(f"{MODULE}/{PACKAGES[name]}", version, tests, entries)
        (TARGET / f"{name}.json").write_text(text)
        print(f"{name}: {len(text) // 1024} KiB")


if __name__ == "__main__":
    main()
