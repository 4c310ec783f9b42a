"""The words of `mooring node …` reach the cluster, and errors come back as sentences."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.cluster.control import say, serving
from mooring.cluster.layout import ClusterError


async def obey(command: str, node: str) -> str:
    if command == "break":
        raise RuntimeError("out of order")
    if node != "node-1":
        raise ClusterError(f"no node {node!r} here")
    return f"{command} {node}: done"


async def test_a_command_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        assert await say(tmp_path / "control.sock", "stop", "node-1") == "stop node-1: done"


async def test_a_refusal_reaches_the_user(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        with pytest.raises(ClusterError, match="no node 'x' here"):
            await say(tmp_path / "control.sock", "stop", "x")


async def test_a_failure_reaches_the_user_and_the_server_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "control.sock", obey):
        with pytest.raises(ClusterError, match="out of order"):
            await say(tmp_path / "control.sock", "break", "node-1")
        assert await say(tmp_path / "control.sock", "start", "node-1")


async def test_nonsense_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serving(path, obey):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"nonsense\n")
        assert b"error" in await reader.readline()
        writer.close()
        assert await say(path, "start", "node-1")


async def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    async with serving(deep / "control.sock", obey):
        assert await say(deep / "control.sock", "stop", "node-1")


async def test_without_a_cluster_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="start it with `mooring up`"):
        await say(tmp_path / "control.sock", "stop", "node-1")


async def test_the_socket_is_private_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with serving(path, obey):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
