"""kubectl as the administrator of the real kube-apiserver."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.real.server import RealServer

from mooring.apiserver.data_directory import write_kubeconfig


def kubectl(programs: Path, *words: str, given: str = "") -> str:
    """What it prints; an AssertionError with what it said if it failed."""
    done = subprocess.run(
        [programs / "kubectl", *words], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kubeconfig_of(real: RealServer, folder: Path) -> Path:
    path = folder / "kubeconfig"
    write_kubeconfig(path, real.url, real.token, real.authority.read_bytes())
    return path
