"""`mooring status`, by its own process, of an API server that runs here: in a pipe, and on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from waiting import until

from mooring.apiserver.process import Running, serve
from mooring.cli.main import cli
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod

COMMAND = (sys.executable, "-m", "mooring.cli.main")


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    running = await serve(data_dir=tmp_path / "api")
    yield running
    await running.close()


@pytest.fixture
async def client(running: Running) -> AsyncIterator[Client]:
    client = config.load(running.kubeconfig)
    yield client
    await client.close()


async def add_pod(client: Client, name: str) -> None:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    await client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def started(running: Running, *words: str, **streams: Any) -> asyncio.subprocess.Process:
    environ = {**os.environ, "TERM": "xterm", "MOORING_DATA_DIR": "/nonexistent"}
    where = ("--kubeconfig", str(running.kubeconfig))
    return await asyncio.create_subprocess_exec(
        *COMMAND, *words, *where, env=environ, stderr=asyncio.subprocess.STDOUT, **streams
    )


async def line_with(process: asyncio.subprocess.Process, words: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while words not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended before it said {words!r}"
    return line


async def test_any_cluster_of_a_kubeconfig_is_shown(running: Running, client: Client) -> None:
    await add_pod(client, "web-0")
    process = await started(running, "status", "-o", "json", stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert json.loads(printed)["pods"] == [
        {"pod": "default/web-0", "state": "Pending", "node": "-", "known": True}
    ]


async def test_in_a_pipe_each_change_is_a_line_and_ctrl_c_ends_it_without_a_word(
    running: Running, client: Client
) -> None:
    await add_pod(client, "web-0")
    process = await started(running, "status", "--watch", stdout=asyncio.subprocess.PIPE)
    assert (await line_with(process, "web-0"))[8:] == "  pod default/web-0: Pending on (no node yet)\n"
    await client.create(Node, {"metadata": {"name": "n"}})
    assert (await line_with(process, "node n"))[8:] == "  node n: Unknown\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert (await process.stdout.read(), await process.wait()) == (b"", 0)


async def test_on_a_terminal_the_tables_are_drawn_anew_and_fit_into_its_window(
    running: Running, client: Client
) -> None:
    for number in range(30):
        await add_pod(client, f"web-{number:02}")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 70, 0, 0))
    process = await started(running, "status", "--watch", stdin=theirs, stdout=theirs)
    os.close(theirs)
    seen = bytearray()

    def look() -> str:
        seen.extend(os.read(ours, 65536))
        return seen.decode(errors="replace")

    loop = asyncio.get_running_loop()
    loop.add_reader(ours, look)
    try:
        await until(lambda: "… 23 more" in seen.decode(errors="replace"), state=lambda: bytes(seen))
        await client.create(Node, {"metadata": {"name": "fresh"}})
        await until(lambda: "fresh" in seen.decode(errors="replace"), state=lambda: bytes(seen))
        assert b"\x1b[11F" in seen
        os.write(ours, b"\x03")  # as Ctrl-C does
        process.send_signal(signal.SIGINT)  # the process is not the terminal's own
        assert await process.wait() == 0
    finally:
        loop.remove_reader(ours)
        os.close(ours)


async def test_a_server_that_goes_is_said_and_that_it_is_back(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path / "api")
    process = await started(running, "status", "--watch", stdout=asyncio.subprocess.PIPE)
    client = config.load(running.kubeconfig)
    try:
        await add_pod(client, "web-0")
        await line_with(process, "web-0")
        port = int(running.url.rpartition(":")[2])
        await running.close()
        assert "may be old" in await line_with(process, "API server: is not heard")
        again = await serve(data_dir=tmp_path / "api", port=port)
        try:
            await line_with(process, "API server: is heard")
        finally:
            await again.close()
    finally:
        process.terminate()
        await process.wait()
        await client.close()


@pytest.mark.parametrize("other", [("--volumes",), ("-o", "json")])
def test_watch_goes_with_nothing_that_is_no_table_of_objects(other: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["status", "--watch", *other])
    assert result.exit_code == 2
    assert "--watch" in result.output
