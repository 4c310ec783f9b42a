"""Every example does on a running cluster what its own first lines say.

The comment at the head of an example is a script: after `$` a command, below it what it prints, which is waited for.
Ages, times and generated names are not compared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.cluster.demo import examples

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

PATIENCE_S = 90.0
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in examples().glob("*.yaml") if "# $ " in path.read_text())
PACKAGES = {"etcd": {"etcd": "etcd-server", "etcdctl": "etcd-client"}}
"""What an example needs on the nodes, with the Debian package that has it."""
MASKS = (
    (re.compile(r"pvc-[0-9a-f]{8}-[-0-9a-f]{27}"), "pvc-..."),
    (re.compile(r"-[a-z0-9]{10}(-[a-z0-9]{5})?(?=\s|$)"), "-..."),
    (re.compile(r"\bsince [-0-9T:Z]+"), "since"),
    (re.compile(r"\b[0-9]+[smhd]([0-9]+[smhd])?(?=\s|$)"), "AGE"),
    (re.compile(r"[ \t]+"), " "),
)


class Step(NamedTuple):
    command: str
    expected: str


def steps(example: Path) -> list[Step]:
    """The script at the head of an example."""
    found: list[Step] = []
    for line in example.read_text().splitlines():
        if not line.startswith("#"):
            break
        text = line[1:].removeprefix(" ")
        if text.startswith("$ "):
            found.append(Step(text[2:], ""))
        elif found:
            found[-1] = found[-1]._replace(expected=f"{found[-1].expected}{text}\n")
    return found


def comparable(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.strip() for line in text.splitlines()).strip()


class Shell(NamedTuple):
    environ: dict[str, str]

    def run(self, command: str) -> tuple[int, str]:
        """Exit status, and what it printed."""
        answer = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self.environ,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return answer.returncode, answer.stdout + answer.stderr

    def until(self, command: str, expected: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (printed := comparable(self.run(command)[1])) != comparable(expected):
            if time.monotonic() > deadline:
                assert printed == comparable(expected), command  # shows the two side by side
            time.sleep(0.2)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """A cluster of three nodes, and a shell whose kubectl and mooring speak to it."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on the PATH")
    data = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    programs = Path(sys.executable).parent
    kubeconfig = data / "kubeconfig"
    environ = {
        **os.environ,
        "ETCDCTL_API": "3",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
        "MOORING_DATA_DIR": str(data / "d"),
    }
    up = [str(programs / "mooring"), "up", "--port", "0", "--kubeconfig-out", str(kubeconfig)]
    up += ["--node-monitor-grace-period", "8"]
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(up, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    shell = Shell(environ)
    try:
        ready = " ".join(["True"] * 3)
        shell.until("kubectl get nodes -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'", ready)
        yield shell
    finally:
        process.terminate()
        process.wait(60)
        shell.run("mooring down")
        shutil.rmtree(data)


def test_there_are_enough_of_them():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_it_says(shell: Shell, example: Path):
    for program, package in PACKAGES.get(example.stem, {}).items():
        if shutil.which(program) is None:
            pytest.skip(f"{example.name} needs {program}: apt-get install {package}")
    try:
        for command, expected in steps(example):
            if expected.strip():
                shell.until(command, expected)
            else:
                status, printed = shell.run(command)
                assert status == 0, f"{command}\n{printed}"
    finally:
        shell.run(f"kubectl delete -f {example} --wait=false; kubectl delete pvc --all --wait=false")
        shell.until("kubectl get pods,pvc,pv", "No resources found")
