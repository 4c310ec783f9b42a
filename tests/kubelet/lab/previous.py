"""An older version of Mooring, built from its commit: what a cluster is upgraded from, and goes back to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMIT = os.environ.get("MOORING_PREVIOUS", "80f63d20f4ffd03ee645719f86806e804201e7e5")
CHECKOUT = Path(__file__).parents[3]


class NotThere(Exception):
    """This clone does not have the commit."""


def build(folder: Path) -> Path:
    """Installs it into a folder of packages, to go into PYTHONPATH; what it needs is this checkout's."""
    if _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode:
        raise NotThere(f"this clone has no commit {COMMIT[:10]} (a shallow one?): `git fetch --unshallow`")
    source, packages = folder / "source", folder / "packages"
    source.mkdir()
    archive = _git("archive", COMMIT)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(packages),
    ]
    subprocess.run([sys.executable, "-m", "pip", *install, str(source)], check=True)
    return packages


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(CHECKOUT), *words], check=False, capture_output=True)
