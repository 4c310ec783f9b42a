"""Helm against the embedded API server: install, upgrade, rollback and uninstall of a chart with a hook."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from mooring.testing import PlayedCluster

CHART = Path(__file__).parent / "chart"
Until = Callable[[Callable[[], bool], str], None]


class Helm:
    def __init__(self, program: Path, cluster: PlayedCluster) -> None:
        self.program = program
        folder = cluster.data_dir / "helm"
        places = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
        self.environment = os.environ | places | {"KUBECONFIG": str(cluster.kubeconfig)}

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [self.program, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def history(self) -> list[str]:
        return [each["status"] for each in json.loads(self("history", "records", "-o", "json"))]


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    cluster: PlayedCluster, helm: Path, until: Until
):
    run = Helm(helm, cluster)

    def pods() -> list[str]:
        living = [
            pod["metadata"] for pod in cluster.list("pods") if "deletionTimestamp" not in pod["metadata"]
        ]
        return sorted(metadata["name"] for metadata in living)

    def hooked() -> str:
        found = cluster.get("configmap/records-revision")
        assert found is not None
        return found["data"]["revision"]

    run("install", "records", str(CHART))
    until(lambda: pods() == ["records-0"], "the pod of the first revision")
    assert hooked() == "1"

    run("upgrade", "records", str(CHART), "--set", "replicas=3,greeting=goodbye")
    until(lambda: pods() == ["records-0", "records-1", "records-2"], "the pods of the second revision")
    assert hooked() == "2"
    assert run.history() == ["superseded", "deployed"]

    run("rollback", "records", "1")
    until(lambda: pods() == ["records-0"], "the pod of the first revision again")
    assert hooked() == "1", "the hook of that revision ran again"
    assert "replicas: 1" in run("get", "manifest", "records")
    assert run.history()[-1] == "deployed"

    run("uninstall", "records")
    until(
        lambda: cluster.get("statefulset/records") is None and pods() == [],
        "the end of the release's objects",
    )
    assert json.loads(run("list", "--all", "-o", "json")) == []
    secrets = [secret["metadata"].get("labels", {}) for secret in cluster.list("secrets")]
    assert not [labels for labels in secrets if labels.get("owner") == "helm"]
