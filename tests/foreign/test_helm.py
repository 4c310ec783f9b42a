"""Helm against the embedded API server: install, upgrade, rollback and uninstall of a chart with a hook."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.kube.objects import ConfigMap, Pod, Secret, StatefulSet

CHART = Path(__file__).parent / "chart"
Until = Callable[[Callable[[], bool], str], None]


class Helm:
    def __init__(self, program: Path, cluster: Any) -> None:
        self.program = program
        folder: Path = cluster.folder
        places = {f"HELM_{name}_HOME": str(folder / "helm" / name) for name in ("CACHE", "CONFIG", "DATA")}
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


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(cluster: Any, helm: Path, until: Until):
    run, client = Helm(helm, cluster), cluster.client

    def pods() -> list[str]:
        return sorted(pod.name for pod in cluster.call(client.list(Pod, "default")).items if not pod.deleting)

    def statefulset() -> StatefulSet | None:
        return cluster.call(client.find(StatefulSet, "records", "default"))

    def hooked() -> str:
        return cluster.call(client.get(ConfigMap, "records-revision", "default")).data["revision"]

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
    until(lambda: statefulset() is None and pods() == [], "the end of the release's objects")
    assert json.loads(run("list", "--all", "-o", "json")) == []
    secrets = cluster.call(client.list(Secret, "default", label_selector="owner=helm")).items
    assert secrets == []
