"""An agent without an API server: static pods with volumes of the machine, for real."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from waiting import until

from mooring.node.network import release

pytestmark = pytest.mark.root

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "command": ["sh", "-c", "echo x > /data/file; cat /data/file; exec sleep 1000"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
    },
}


async def test_static_pods_run_and_end_without_an_api_server(tmp_path: Path) -> None:
    manifests, root = tmp_path / "manifests", tmp_path / "node"
    manifests.mkdir()
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mooring.cli.main", "agent", "--name", "alone", "--standalone"),
        *("--root-dir", str(root), "--manifests", str(manifests), "--hide", str(tmp_path)),
        env=os.environ | {"MOORING_BOOT_ID": "boot-1"},
    )
    try:
        await until((root / "pods").is_dir)
        (manifests / "web.json").write_text(json.dumps(POD))
        await until(lambda: any("F x" in path.read_text() for path in root.glob("pods/*/logs/main.0.log")))
        (manifests / "web.json").unlink()
        await until(lambda: not list(root.glob("pods/*")))
    finally:
        agent.send_signal(signal.SIGUSR1)
        await asyncio.wait_for(agent.wait(), 20)
        release(root)
    assert agent.returncode == 0
