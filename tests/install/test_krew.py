"""What krew installs `kubectl mooring` from; tests/real/install/test_krew.py has krew itself do it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.install.test_distribution import ROOT, built, lent_packages

BUILD = ROOT / "deploy/krew/build"
URI = "https://files.example.com/kubectl-mooring.tar.gz"


def made(wheel: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """The archive and the manifest."""
    subprocess.run([sys.executable, BUILD, wheel, "--uri", URI, "--out", out], check=True)
    return out / "kubectl-mooring.tar.gz", yaml.safe_load((out / "mooring.krew.yaml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def plugin(wheel: Path) -> Iterator[Plugin]:
    folder = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    with tarfile.open(made(wheel, folder / "out")[0]) as archive:
        archive.extractall(folder / "store", filter="data")
    yield Plugin(folder)
    shutil.rmtree(folder)


class Plugin:
    """Installed: unpacked, and linked to from a folder of the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "bin").mkdir()
        (folder / "bin/kubectl-mooring").symlink_to(folder / "store/kubectl-mooring")

    def python(self, body: str = "") -> Path:
        """A Python whose new environments have what these tests have: pip fetches nothing. `body`: shell
        that comes first."""
        lent = lent_packages(self.folder)
        path = self.folder / "python"
        path.write_text(
            f'#!/bin/sh\n{body}\n{sys.executable} "$@" || exit\n'
            f'case "$*" in *"-m venv"*) for last; do :; done\n'
            f'echo {lent} > "$(echo "$last"/lib/python3*/site-packages)/lent.pth" ;; esac\n'
        )
        path.chmod(0o755)
        return path

    def run(self, *words: str, python: Path) -> subprocess.CompletedProcess[str]:
        environ = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.cache),
            "MOORING_PYTHON": str(python),
            "PIP_NO_INDEX": "1",
            "PYTHONPATH": "",
        }
        return subprocess.run(
            [self.folder / "bin/kubectl-mooring", *words],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def kept(self) -> list[str]:
        return sorted(each.name for each in self.cache.glob("mooring/kubectl/*"))


def test_the_manifest_names_the_archive_by_its_hash_and_address(wheel: Path, tmp_path: Path):
    archive, manifest = made(wheel, tmp_path)
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"] == URI
    with tarfile.open(archive) as packed:
        assert platform["bin"] in packed.getnames()


def test_the_same_wheel_makes_the_same_bytes(wheel: Path, tmp_path: Path):
    first, second = (made(wheel, tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second


def test_what_is_no_wheel_of_ours_is_refused(tmp_path: Path):
    command = [sys.executable, BUILD, tmp_path / "other-1.0-py3-none-any.whl", "--uri", URI]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make dist" in done.stderr


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_the_first_run_installs_and_each_later_one_only_starts(plugin: Plugin):
    python = plugin.python()
    first = plugin.run("why", "--help", python=python)
    assert first.returncode == 0, first.stderr
    assert "the first run puts its packages into" in first.stderr
    assert "Usage: kubectl mooring why" in first.stdout
    assert len(plugin.kept()) == 1
    later = plugin.run("version", python=python)
    assert later.stderr == ""
    assert later.stdout.startswith("mooring")


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_two_first_runs_at_once_make_one_environment(plugin: Plugin):
    python = plugin.python()
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda _: plugin.run("version", python=python), range(2)))
    assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
    assert len(plugin.kept()) == 1


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_what_pip_cannot_install_is_said_and_nothing_is_kept(plugin: Plugin):
    requirements = plugin.folder / "store/requirements.txt"
    requirements.write_text("no-such-package==1.0 --hash=sha256:" + "0" * 64 + "\n")
    done = plugin.run("version", python=plugin.python())
    assert done.returncode == 1
    assert "pip could not install what Mooring needs; nothing was kept" in done.stderr
    assert plugin.kept() == []


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_first_run_that_is_interrupted_leaves_nothing(plugin: Plugin):
    done = plugin.run(
        "version", python=plugin.python('case "$*" in *"-m venv"*) kill -TERM $PPID; sleep 1 ;; esac')
    )
    assert done.returncode != 0
    assert plugin.kept() == []


@pytest.mark.parametrize(("body", "said"), [("echo 3.9; exit 1", "is 3.9"), ("exit 127", "is not there")])
def test_a_python_that_will_not_do_is_named(plugin: Plugin, body: str, said: str):
    done = plugin.run("version", python=plugin.python(body))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert said in done.stderr
    assert plugin.kept() == []
