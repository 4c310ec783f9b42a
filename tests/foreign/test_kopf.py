"""A kopf operator on a CustomResourceDefinition of ours, against the embedded API server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kopf", reason="needs the framework: pip install kopf")

from mooring.kube.errors import Invalid
from mooring.testing import PlayedCluster

OPERATOR = Path(__file__).parent / "operators" / "doubling.py"
Until = Callable[[Callable[[], bool], str], None]

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "numbers.test.mooring.dev"},
    "spec": {
        "group": "test.mooring.dev",
        "scope": "Namespaced",
        "names": {"plural": "numbers", "singular": "number", "kind": "Number"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


class Numbers:
    """Objects of our kind, as a user without any library's types handles them."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster

    def apply(self, name: str, number: Any) -> None:
        body = {"apiVersion": "test.mooring.dev/v1", "kind": "Number", "metadata": {"name": name}}
        self.cluster.apply({**body, "spec": {"number": number}})

    def doubled(self, name: str) -> Any:
        return (self.cluster.get(f"number/{name}") or {}).get("status", {}).get("doubled")


@pytest.fixture
def numbers(cluster: PlayedCluster) -> Numbers:
    cluster.apply(DEFINITION)
    return Numbers(cluster)


@pytest.fixture
def operator(cluster: PlayedCluster, numbers: Numbers) -> Generator[Path]:
    log = cluster.data_dir / "operator.log"
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", str(OPERATOR)]
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        yield log
        process.terminate()
        process.wait(20)


def test_the_operator_does_its_work_from_creation_to_deletion(
    cluster: PlayedCluster, operator: Path, numbers: Numbers, until: Until
):
    numbers.apply("n", 21)
    until(lambda: numbers.doubled("n") == 42, f"the operator doubles: {operator.read_text()[-2000:]}")
    numbers.apply("n", 4)
    until(lambda: numbers.doubled("n") == 8, "the operator doubles what was changed")
    cluster.delete("number/n")
    until(lambda: cluster.get("number/n") is None, "the operator's finalizer lets the object go")
    assert "farewell to n" in operator.read_text()


def test_an_object_against_the_schema_is_refused(numbers: Numbers):
    with pytest.raises(Invalid, match=r"spec\.number"):
        numbers.apply("n", "many")
