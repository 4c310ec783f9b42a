"""The action for GitHub's runners: what its steps' scripts do, run as a runner runs them; on this machine.

A runner gives a step its environment, files for outputs and for later steps' variables and paths, and runs
its script by `bash --noprofile --norc -eo pipefail`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.install.test_distribution import ROOT, built, lent_packages

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")


@dataclass
class Runner:
    """A job. `said` is what the last step printed."""

    folder: Path
    inputs: Mapping[str, str]
    environ: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    said: str = ""

    def run(self, step: Mapping[str, Any]) -> int:
        """The exit status of a step's script."""
        files = {name: self.folder / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("")
        script = self.folder / "script.sh"
        script.write_text(step["run"])
        given = {name: INPUT.sub(self._input, str(value)) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            env={**os.environ, **self.environ, **given, **{name: str(path) for name, path in files.items()}},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.said = done.stdout
        self.outputs[step.get("id", "")] = _assignments(files["GITHUB_OUTPUT"])
        self.environ |= _assignments(files["GITHUB_ENV"])
        for added in files["GITHUB_PATH"].read_text().splitlines():
            self.environ["PATH"] = f"{added}{os.pathsep}{self.environ['PATH']}"
        return done.returncode

    def output(self, name: str) -> str:
        """Of the whole action."""
        step, _, key = (
            ACTION["outputs"][name]["value"].strip("${ }").removeprefix("steps.").partition(".outputs.")
        )
        return self.outputs[step][key]

    def _input(self, found: re.Match[str]) -> str:
        declared = ACTION["inputs"][found[1]]
        return self.inputs.get(found[1], declared["default"])


def _assignments(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield folder
    shutil.rmtree(folder)


def job(folder: Path, **inputs: str) -> Runner:
    """pip fetches nothing: what Mooring needs is that of this environment."""
    environ = {
        "RUNNER_TEMP": str(folder),
        "GITHUB_ACTION_PATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": "",
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
    }
    named = {name.replace("_", "-"): value for name, value in inputs.items()}
    return Runner(folder, {"python": sys.executable, "data-dir": str(folder / "d"), **named}, environ)


def lend_packages(folder: Path) -> None:
    """What Mooring depends on, from the environment of these tests; neither Mooring nor pip."""
    (site,) = (folder / "mooring/lib").glob("python3*/site-packages")
    (site / "lent.pth").write_text(f"{lent_packages(folder)}\n")


def test_what_users_give_reaches_no_script_but_as_a_variable():
    """A text in a script could be more than a word to the shell."""
    assert [step["name"] for step in STEPS if "${{" in step["run"]] == []


def test_every_input_is_used_and_every_one_that_is_used_is_declared():
    used = {name for step in STEPS for value in step["env"].values() for name in INPUT.findall(str(value))}
    assert used == set(ACTION["inputs"])


def test_the_page_tells_of_each_input_and_output():
    page = (ROOT / "docs/github-action.md").read_text()
    named = [*ACTION["inputs"], *ACTION["outputs"]]
    assert [name for name in named if f"`{name}`" not in page] == []


def test_a_python_that_is_too_old_is_named(folder: Path):
    old = folder / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    runner = job(folder, python=str(old))
    assert runner.run(STEPS[0]) == 1
    assert "::error::Mooring needs Python 3.11" in runner.said


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_without_a_wheel_the_actions_own_checkout_is_installed(folder: Path):
    runner = job(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "mooring/lib" / version / "site-packages").mkdir(parents=True)
    lend_packages(folder)  # also what builds a wheel
    runner.environ["PIP_NO_BUILD_ISOLATION"] = "0"  # pip reads it the other way round
    assert runner.run(STEPS[0]) == 0, runner.said
    where = "import mooring.cli; print(mooring.cli.__file__)"
    assert runner.run({"run": f'"$RUNNER_TEMP/mooring/bin/python" -c "{where}"; mooring version'}) == 0
    assert runner.said.startswith(f"{folder}/mooring/lib"), runner.said
    assert "\nmooring " in runner.said


@pytest.mark.root
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_job_gets_a_cluster_whose_nodes_are_ready(folder: Path):
    wheel = built(ROOT, "wheel", folder / "wheel")
    socket = f"unix://{folder}/{{node}}.sock"
    runner = job(
        folder,
        wheel=str(wheel),
        nodes="2",
        csi=f"folder.example.com={socket}",
        csi_faults="NodePublishVolume:UNAVAILABLE:0.5\nCreateVolume:2s\n",
        flags="--port 0\n--node-monitor-grace-period 8",
    )
    install, up = STEPS
    assert runner.run(install) == 0, runner.said
    lend_packages(folder)
    try:
        assert runner.run(up) == 0, runner.said
        assert runner.output("kubeconfig") == runner.environ["KUBECONFIG"]
        later = {"run": "mooring status -o json"}
        assert runner.run(later) == 0, runner.said
        assert [node["state"] for node in json.loads(runner.said)["nodes"]] == ["Ready", "Ready"]
        told = " ".join(commands(folder / "d"))
        assert "NodePublishVolume:UNAVAILABLE:0.5" in told
        assert "CreateVolume:2s" in told
        assert runner.run({"run": 'python3 -c "import sys; print(sys.prefix)"'}) == 0
        assert str(folder) not in runner.said, "the job's own python stays the one that it had"
    finally:
        assert runner.run({"run": "mooring down"}) == 0, runner.said


@pytest.mark.root
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_cluster_that_does_not_start_ends_the_step_with_what_was_said(folder: Path):
    programs = folder / "mooring/bin"
    programs.mkdir(parents=True)
    (programs / "mooring").symlink_to(Path(sys.executable).with_name("mooring"))
    runner = job(folder, flags="--port 0 --fail-at-once", timeout="100000")
    assert runner.run(STEPS[1]) == 1
    assert "--fail-at-once" in runner.said
    assert "::error::the cluster is not ready" in runner.said


def commands(data_dir: Path) -> Iterator[str]:
    """The command lines of the processes of a cluster."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(data_dir) in line:
            yield line
