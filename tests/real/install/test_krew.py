"""Krew itself installs the plugin, and kubectl finds it: on a cluster that is upstream's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install.test_distribution import ROOT, built
from tests.install.test_krew import Plugin, made
from tests.real.server import RealServer

from mooring.apiserver.data_directory import write_kubeconfig

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield folder
    shutil.rmtree(folder)


def test_krew_installs_it_and_kubectl_mooring_explains_the_cluster(
    real: RealServer, programs: Path, folder: Path
):
    if not (programs / "krew").exists():
        pytest.skip("needs krew: run `make assets`")
    archive, _ = made(built(ROOT, "wheel", folder / "wheel"), folder / "out")
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, real.url, token=real.token, authority=real.authority.read_bytes())
    environ = {
        **os.environ,
        "KREW_ROOT": str(folder / "krew"),
        "PATH": f"{folder}/krew/bin:{programs}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "MOORING_PYTHON": str(Plugin(folder).python()),
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": "",
        "KUBECONFIG": str(kubeconfig),
    }

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(programs / "krew", "install", f"--manifest={folder}/out/mooring.krew.yaml", f"--archive={archive}")
    assert run("kubectl", "mooring", "why", "--all").strip() == "nothing is stuck"
