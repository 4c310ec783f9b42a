"""The demo without root, on directories; as root, on block devices, it is `make demo`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.cluster.processes import mooring
from mooring.cluster.stage import run

NOBODY = 65534

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def hidden_by_root_only_directories() -> Path | None:
    """The first directory on the way to the interpreter that only root may enter."""
    base = Path(sys.base_prefix)
    return next((each for each in reversed(base.parents) if not each.stat().st_mode & 0o001), None)


def without_root(command: list[str], home: Path) -> list[str]:
    """The command as an ordinary user. Where root alone may reach the interpreter, a mount namespace shows
    it."""
    if os.geteuid() != 0:
        return command
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    hidden = hidden_by_root_only_directories()
    if hidden is None:
        return drop
    script = (
        'set -e; base=$1; hidden=$2; hold=$3/hold; shift 3; mkdir -p "$hold"; mount --bind "$base" "$hold"; '
        'mount -t tmpfs -o mode=755 tmpfs "$hidden"; mkdir -p "$base"; mount --bind "$hold" "$base"; exec "$@"'
    )
    arguments = [sys.base_prefix, str(hidden), str(home)]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *arguments, *drop]


def user_namespaces_work(home: Path) -> bool:
    probe = without_root(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"], home)
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


def test_without_root_the_demo_runs_on_directories_and_says_so(data_dir: Path) -> None:
    if shutil.which("setpriv") is None or not user_namespaces_work(data_dir):
        pytest.skip("user namespaces are not available to ordinary users on this machine")
    data_dir.chmod(0o777)
    out = data_dir / "out"
    command = ["env", f"HOME={data_dir}", f"TMPDIR={data_dir}", *mooring("demo"), "--out", str(out)]
    status, output = asyncio.run(run(without_root(command, data_dir)))
    assert status == 0, output
    assert output.splitlines()[0].startswith("not root: running in a user namespace")
    assert (out / "timeline.svg").is_file()
