"""A third party's plugin: installed from its folder, found by its entry point, used through a power loss."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*command: str | Path, **environ: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of its own: what is installed here, and the plugin. Nothing is downloaded."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    flags = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *flags, "--target", packages, HERE / "shelf")
    return environment / "bin" / "python"


def test_it_is_found_by_its_entry_point_beside_those_that_come_with_mooring(python: Path):
    asked = (
        "import datetime; from mooring.volumes.host import ControllerVolumeHost as H;"
        "from mooring.volumes.plugin_manager import load_plugins;"
        "print(*(p.get_plugin_name() for p in load_plugins(H(datetime.datetime.now)).plugins))"
    )
    assert {"example.org/shelf", "kubernetes.io/empty-dir"} <= set(run(python, "-c", asked).split())


def test_its_volume_survives_the_loss_of_its_node(python: Path, tmp_path: Path):
    path = f"{ROOT}:{ROOT / 'tests' / 'doubles'}"
    assert run(python, "-m", "tests.third_party.story", tmp_path, PYTHONPATH=path).endswith("played\n")
