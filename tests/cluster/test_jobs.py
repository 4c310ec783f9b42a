"""A Job on real processes, with kubectl: each index runs once, and `kubectl delete` leaves no pod."""

from __future__ import annotations

import pytest

from mooring.cluster.stage import Stage

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 3
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.37", command: [sh, -c, "echo index $JOB_COMPLETION_INDEX"]}
"""


async def test_an_indexed_job_completes_and_goes_with_its_pods(stage: Stage) -> None:
    if not stage.kubectl:
        pytest.skip("needs kubectl")
    manifest = stage.layout.root / "job.yaml"
    manifest.write_text(JOB)
    await stage.kubectl_do("apply", "-f", str(manifest))
    await stage.kubectl_do("wait", "--for=condition=complete", "job/j", "--timeout=60s")
    shown = await stage.kubectl_do("get", "jobs")
    assert shown.split()[:5] == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert "3/3" in shown
    output = await stage.kubectl_do("logs", "-l", "batch.kubernetes.io/job-completion-index=2")
    assert output.strip() == "index 2"
    await stage.kubectl_do("delete", "job", "j")
    await stage.until("no pod is left", lambda: _none_left(stage))


async def _none_left(stage: Stage) -> bool:
    return "No resources found" in await stage.kubectl_do("get", "pods")
