"""`mooring why`, by its own process, of an API server that runs here."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.apiserver.process import serve
from mooring.cli.main import cli
from mooring.kube import config
from mooring.kube.objects import PersistentVolumeClaim

CLAIM = {
    "metadata": {"name": "wanted"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


async def test_what_is_stuck_is_told_when_it_is_and_when_it_is_not_any_more(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    client = config.load(running.kubeconfig)
    words = ("why", "--all", "--watch", "--kubeconfig", str(running.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mooring.cli.main", *words),
        env={**os.environ, "TERM": "xterm"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        await client.create(PersistentVolumeClaim, CLAIM, "default")
        async with asyncio.timeout(60):
            told = (await process.stdout.readline()).decode()
            assert told[8:].startswith("  pvc/default/wanted: FailedBinding  no persistent volumes available")
            await client.delete(PersistentVolumeClaim, "wanted", "default")
            await client.patch(PersistentVolumeClaim, "wanted", {"metadata": {"finalizers": None}}, "default")
            while "is not stuck any more" not in (told := (await process.stdout.readline()).decode()):
                assert "pvc/default/wanted" in told
        process.send_signal(signal.SIGINT)
        assert (await process.stdout.read(), await process.wait()) == (b"", 0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await client.close()
        await running.close()


@pytest.mark.parametrize("words", [("pod/x",), ("--all", "-o", "json")])
def test_watch_is_of_all_and_of_lines(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["why", "--watch", *words])
    assert result.exit_code == 2
    assert "--all" in result.output
