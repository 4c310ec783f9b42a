"""Mooring's own image, as `deploy/image/build` makes it, and what cannot make it here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.kubelet.lab.network import outside

BUILD = Path(__file__).parents[3] / "deploy" / "image" / "build"
NAME = "localhost/mooring:test"
TOOLS = ("mmdebstrap", "buildah")
NO_PACKAGES = 3
"""Its status where Debian's or Python's packages cannot be downloaded."""


class CannotBuild(Exception):
    """Why there is no image here, though nothing may be wrong with it."""


def build(folder: Path) -> Path:
    """An OCI archive of it, there. Raises CannotBuild."""
    absent = [each for each in TOOLS if shutil.which(each) is None]
    if absent:
        raise CannotBuild(f"needs Debian's {', '.join(absent)}")
    archive = folder / "mooring.oci.tar"
    command = [*outside(), str(BUILD), "--out", str(archive), "--name", NAME]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == NO_PACKAGES:
        raise CannotBuild(f"packages could not be downloaded: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return archive
