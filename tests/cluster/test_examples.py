"""Every example does on a running cluster what the comment at its head says."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from tests.cluster.scripted import ScriptedCommand, Shell, steps

from mooring.cluster.demo.scene import examples

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLES = sorted(path for path in examples().glob("*.yaml") if "# $ " in path.read_text())
PACKAGES = {"etcd": {"etcd": "etcd-server", "etcdctl": "etcd-client"}}
"""What an example needs on the nodes, with the Debian package that has it."""


def script(example: Path) -> list[ScriptedCommand]:
    head = itertools.takewhile(lambda line: line.startswith("#"), example.read_text().splitlines())
    return steps(line[1:].removeprefix(" ") for line in head)


def test_there_are_enough_of_them():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_it_says(shell: Shell, example: Path):
    for program, package in PACKAGES.get(example.stem, {}).items():
        if shutil.which(program) is None:
            pytest.skip(f"{example.name} needs {program}: apt-get install {package}")
    try:
        shell.play(script(example))
    finally:
        shell.run(f"kubectl delete -f {example} --wait=false")
        shell.clean()
