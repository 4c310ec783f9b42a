"""Scripts in prose, played on a running cluster: after `$` a command, below it what it prints, which is
waited for.

Ages, times and generated names are not compared. With MOORING_ACCEPT set, what is printed replaces what was
written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.volumes.out_of_service import TAINT as OUT_OF_SERVICE

PATIENCE_S = 60.0
ACCEPT_S = 12.0
ROOT = Path(__file__).parents[2]
NODES = ("node-1", "node-2", "node-3")
READY = "kubectl get nodes -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'"
DEFAULT_CLASS = "mooring-disk"
CHANGES_NODES = re.compile(r"\bmooring node\b|\bkubectl (cordon|drain|taint|[a-z]+ nodes? )")
MASKS = (
    (re.compile(r"pvc-[0-9a-f]{8}-[-0-9a-f]{27}"), "pvc-..."),
    (re.compile(r"snapcontent-[-0-9a-f]{36}"), "snapcontent-..."),
    (re.compile(r"\b(vol|snap|i)-[0-9a-f]{17}\b"), r"\1-..."),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "..."),
    (re.compile(r"-[a-z0-9]{10}(-[a-z0-9]{5})?(?=\s|$)"), "-..."),
    (re.compile(r"\bsince [-0-9T:Z]+"), "since"),
    (re.compile(r"\b[0-9]+[smhd]([0-9]+[smhd])?(?=\s|$)"), "AGE"),
    (re.compile(r"/dev/loop[0-9]+"), "/dev/loop..."),
    (re.compile(r"/[-\w./]*mooring-test-\w+"), "/..."),
    (re.compile(r"[ \t]+"), " "),
)


class ScriptedCommand(NamedTuple):
    command: str
    expected: str


def steps(lines: Iterable[str]) -> list[ScriptedCommand]:
    """The commands of a script, each with what it prints ("" where that does not matter, but the exit status
    does)."""
    found: list[ScriptedCommand] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(ScriptedCommand(line[2:], ""))
        elif found:
            found[-1] = found[-1]._replace(expected=f"{found[-1].expected}{line}\n")
    return found


def comparable(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.strip() for line in text.splitlines()).strip()


@dataclass
class Shell:
    """Runs commands whose kubectl and mooring speak to one cluster."""

    environ: dict[str, str]
    has_changed_nodes: bool = False

    def run(self, command: str) -> tuple[int, str]:
        """Exit status, and what it printed."""
        self.has_changed_nodes = self.has_changed_nodes or bool(CHANGES_NODES.search(command))
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
        """Repeats a command until it prints what is expected."""
        deadline = time.monotonic() + PATIENCE_S
        while (printed := comparable(self.run(command)[1])) != comparable(expected):
            if time.monotonic() > deadline:
                pytest.fail(
                    f"$ {command}\nprinted:\n{printed}\nexpected:\n{comparable(expected)}", pytrace=False
                )
            time.sleep(0.2)

    def play(self, script: Iterable[ScriptedCommand]) -> None:
        for command, expected in script:
            if expected.strip():
                self.until(command, expected)
            else:
                status, printed = self.run(command)
                assert status == 0, f"{command}\n{printed}"

    def printed(self, command: str) -> str:
        """What a command prints once some time has passed: for MOORING_ACCEPT."""
        time.sleep(ACCEPT_S)
        return self.run(command)[1]

    def clean(self) -> None:
        """Nothing that a script made is left, and every node is well."""
        if self.has_changed_nodes:
            for node in NODES:
                self.run(f"mooring node start {node}; kubectl taint nodes {node} {OUT_OF_SERVICE}-")
            self.run(f"kubectl uncordon {' '.join(NODES)}")
            self.has_changed_nodes = False
        kinds = "deployments,statefulsets,pods,volumesnapshots,pvc,pv,configmaps,secrets"
        self.run(f"kubectl delete {kinds} --all --wait=false")
        self.run(f"kubectl delete $(kubectl get storageclasses -o name | grep -v {DEFAULT_CLASS})")
        self.until("kubectl get deployments,statefulsets,pods,pvc,pv", "No resources found")
        self.until(READY, " ".join(["True"] * len(NODES)))


@contextmanager
def cluster_and_shell(*flags: str) -> Iterator[Shell]:
    """A cluster of three nodes for as long as the context lasts, with more flags of `mooring up`."""
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
    up += ["--node-monitor-grace-period", "8", *flags]
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(up, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    shell = Shell(environ)
    try:
        shell.until(READY, " ".join(["True"] * len(NODES)))
        yield shell
    finally:
        process.terminate()
        process.wait(60)
        shell.run("mooring down")
        shutil.rmtree(data)
