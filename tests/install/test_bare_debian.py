"""From the wheel to an answer of `mooring why` in two commands, where there is only Debian's Python.

The Debian root is a real one, of Debian's packages; the commands run in it with nothing of this machine but
its network, over which a played cluster is reached. What cannot be downloaded skips these tests, and says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install.test_distribution import ROOT, built

from mooring.testing import Options, PlayedCluster, in_process

pytestmark = [
    pytest.mark.root,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("mmdebstrap") is None, reason="needs mmdebstrap: apt-get install mmdebstrap"
    ),
]

SUITE, PYTHON = "bookworm", "3.11"
SOURCES = ("src", "examples", "deploy", "pyproject.toml", "README.md", "LICENSE", "hatch_build.py")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
DOWNLOAD_S = 400.0
INSTALL = "pip install --break-system-packages --no-index --find-links /wheels /wheels/mooring-*.whl"
WHY = "mooring why --all --kubeconfig /root/kubeconfig"
STUCK = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "lonely"},
    "spec": {
        "containers": [{"name": "main", "image": "app", "command": ["run"]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "forgotten"}}],
    },
}
EXPLAINED = (
    "pod/default/lonely  ClaimNotFound  pvc/default/forgotten: claim default/forgotten does not exist\n"
)


class Debian:
    """A root file system, and commands in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["chroot", str(self.root), "/bin/sh", "-c", command],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def say(self, command: str) -> str:
        """What it prints. It must succeed."""
        done = self.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


def downloaded(*command: str) -> None:
    """Runs what downloads something; where that fails, nothing may be wrong with this checkout."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} had not downloaded everything after {DOWNLOAD_S:.0f} s")
    if done.returncode != 0:
        pytest.skip(f"{Path(command[0]).name} could not download: {(done.stderr or done.stdout)[-300:]}")


def wheel(folder: Path) -> Path:
    """Built from a copy: other tests may read the checkout's generated modules just now."""
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True)
        else:
            shutil.copy2(ROOT / name, source / name)
    return built(source, "wheel", folder / "wheel")


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """With Mooring installed from its wheel, by one command."""
    folder = tmp_path_factory.mktemp("bare")
    root = folder / "root"
    made = wheel(folder)
    packages = "--include=python3,python3-pip"
    downloaded("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", packages, SUITE, str(root))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    versions = ["--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp"]
    downloaded(*pip, *versions, "--dest", str(root / "wheels"), str(made))
    try:
        found = Debian(root)
        found.say(INSTALL)
        yield found
    finally:
        shutil.rmtree(root)


@pytest.fixture
def cluster(debian: Debian) -> Iterator[PlayedCluster]:
    """On a port of loopback; its kubeconfig is in the Debian root."""
    with in_process(Options()) as cluster:
        shutil.copy2(cluster.kubeconfig, debian.root / "root/kubeconfig")
        yield cluster


def test_the_second_command_says_that_nothing_is_stuck(debian: Debian, cluster: PlayedCluster):
    assert debian.say(WHY) == "nothing is stuck\n"


def test_the_second_command_says_why_a_pod_is_stuck(debian: Debian, cluster: PlayedCluster):
    cluster.apply(STUCK)

    def is_explained() -> bool:
        done = debian.run(WHY)
        assert done.stdout == EXPLAINED, done.stdout + done.stderr
        return done.returncode == 1

    cluster.eventually(is_explained)


def test_without_a_cluster_it_says_what_it_needs(debian: Debian):
    done = debian.run("mooring why --all --kubeconfig /root/no-such-file")
    assert done.returncode != 0
    assert "/root/no-such-file" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_its_version_and_its_commands(debian: Debian):
    assert json.loads(debian.say("mooring version -o json"))["mooring"]
    assert "why" in debian.say("mooring --help")
