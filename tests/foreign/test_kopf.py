"""A kopf operator on a CustomResourceDefinition of ours, against the embedded API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kopf", reason="needs the framework: pip install kopf")

from mooring.kube.errors import Invalid, NotFound

OPERATOR = Path(__file__).parent / "operators" / "doubling.py"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NUMBERS = "/apis/test.mooring.dev/v1/namespaces/default/numbers"
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

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        work = self.cluster.client.request(method, path, body=body, content_type=content_type)
        return json.loads(self.cluster.call(work))

    def create(self, name: str, number: Any) -> Any:
        body = {"apiVersion": "test.mooring.dev/v1", "kind": "Number", "metadata": {"name": name}}
        return self.ask("POST", NUMBERS, {**body, "spec": {"number": number}})

    def doubled(self, name: str) -> Any:
        return self.ask("GET", f"{NUMBERS}/{name}").get("status", {}).get("doubled")

    def exists(self, name: str) -> bool:
        try:
            self.ask("GET", f"{NUMBERS}/{name}")
        except NotFound:
            return False
        return True

    @property
    def served(self) -> bool:
        try:
            self.ask("GET", NUMBERS)
        except NotFound:
            return False
        return True


@pytest.fixture
def numbers(cluster: Any, until: Until) -> Numbers:
    found = Numbers(cluster)
    found.ask("POST", DEFINITIONS, DEFINITION)
    until(lambda: found.served, "the new kind is served")
    return found


@pytest.fixture
def operator(cluster: Any, numbers: Numbers) -> Generator[Path]:
    log = cluster.folder / "operator.log"
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", str(OPERATOR)]
    with log.open("w") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        yield log
        process.terminate()
        process.wait(20)


def test_the_operator_does_its_work_from_creation_to_deletion(operator: Path, numbers: Numbers, until: Until):
    numbers.create("n", 21)
    until(lambda: numbers.doubled("n") == 42, f"the operator doubles: {operator.read_text()[-2000:]}")
    patch = {"spec": {"number": 4}}
    numbers.ask("PATCH", f"{NUMBERS}/n", patch, "application/merge-patch+json")
    until(lambda: numbers.doubled("n") == 8, "the operator doubles what was changed")
    numbers.ask("DELETE", f"{NUMBERS}/n")
    until(lambda: not numbers.exists("n"), "the operator's finalizer lets the object go")
    assert "farewell to n" in operator.read_text()


def test_an_object_against_the_schema_is_refused(numbers: Numbers):
    with pytest.raises(Invalid, match=r"spec\.number"):
        numbers.create("n", "many")
