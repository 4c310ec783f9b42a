"""An agent without an API server: static pods with volumes of the machine, for real."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from waiting import until

from mooring.node.network import release
from mooring.volumes.plugins.disk_array import DiskArray

pytestmark = pytest.mark.root

PLUGIN_NAME = "mooring.dev/disk"

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


@asynccontextmanager
async def agent(tmp_path: Path, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent that ends, with its pods, in the end."""
    manifests, root = tmp_path / "manifests", tmp_path / "node"
    manifests.mkdir(exist_ok=True)
    command = (sys.executable, "-m", "mooring.cli.main", "agent", "--name", "alone", "--standalone")
    with (tmp_path / "log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(
            *command,
            *("--root-dir", str(root), "--manifests", str(manifests), "--hide", str(tmp_path), *flags),
            env=os.environ | {"MOORING_BOOT_ID": "boot-1"},
            stdout=log,
            stderr=log,
        )
    try:
        await until((root / "pods").is_dir)
        yield running
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGUSR1)
        await asyncio.wait_for(running.wait(), 20)
        release(root)
    assert running.returncode in (0, -signal.SIGKILL)


def logged(tmp_path: Path, words: str) -> bool:
    return any(words in path.read_text() for path in (tmp_path / "node").glob("pods/*/logs/main.*.log"))


async def test_static_pods_run_and_end_without_an_api_server(tmp_path: Path) -> None:
    async with agent(tmp_path):
        manifest = tmp_path / "manifests" / "web.json"
        manifest.write_text(json.dumps(POD))
        await until(lambda: logged(tmp_path, "F x"))
        manifest.unlink()
        await until(lambda: not list((tmp_path / "node").glob("pods/*")))


DISK_POD = POD | {
    "spec": POD["spec"]
    | {"volumes": [{"name": "data", "flexVolume": {"driver": PLUGIN_NAME, "options": {"disk": "d"}}}]}
}


@pytest.fixture
def array(tmp_path: Path) -> DiskArray:
    made = DiskArray(tmp_path / "array")
    made.create("d", 32 << 20)
    return made


async def test_an_agent_that_attaches_by_itself_does_so_for_static_pods_and_detaches_after_them(
    tmp_path: Path, array: DiskArray
) -> None:
    flags = (
        "--enable-controller-attach-detach=false",
        "--plugin-setting",
        f"{PLUGIN_NAME}:array={tmp_path}/array",
    )
    manifest = tmp_path / "manifests" / "web.json"
    async with agent(tmp_path, *flags) as first:
        manifest.write_text(json.dumps(DISK_POD))
        await until(lambda: logged(tmp_path, "F x"))
        assert array.attachments() == {"d": ("alone",)}
        first.kill()
    async with agent(tmp_path, *flags):
        assert array.attachments() == {"d": ("alone",)}
        manifest.unlink()
        await until(lambda: array.attachments() == {"d": ()})


async def test_a_volume_that_no_controller_can_attach_is_refused_with_what_to_do(
    tmp_path: Path, array: DiskArray
) -> None:
    async with agent(tmp_path, "--plugin-setting", f"{PLUGIN_NAME}:array={tmp_path}/array"):
        (tmp_path / "manifests" / "web.json").write_text(json.dumps(DISK_POD))
        said = "Start the agent with --enable-controller-attach-detach=false"
        await until(lambda: said in (tmp_path / "log").read_text())
        assert array.attachments() == {"d": ()}
