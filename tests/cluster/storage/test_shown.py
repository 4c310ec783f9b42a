"""What `mooring status` and `mooring storage list` show of storage servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.storage.shown import section
from mooring.cluster.tables import as_json, lines

ISCSI: dict[str, Any] = {
    "name": "fast",
    "kind": "iscsi",
    "address": "10.88.0.3",
    "size": 1 << 30,
    "disks": 2,
    "serves": True,
    "problem": "",
    "shutOut": ["node-1", "node-3"],
    "connected": ["node-2"],
}
STOPPED = ISCSI | {
    "name": "idle",
    "address": "",
    "serves": False,
    "shutOut": [],
    "connected": [],
    "problem": "nbdkit is missing",
}
DAMAGED = {"name": "old", "problem": "it is no JSON"}


async def shown(tmp_path: Path, answer: str | ClusterError) -> Any:
    async def handle(command: str, node: str, options: Mapping[str, Any]) -> str:
        assert (command, node, options) == ("storage-list", "", {})
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    socket = tmp_path / "control.sock"
    async with control.serving(socket, handle):
        return await section(socket)


async def test_each_server_has_a_row_with_who_uses_it_and_who_is_shut_out(tmp_path: Path) -> None:
    sections = await shown(tmp_path, json.dumps([ISCSI, STOPPED, DAMAGED]))
    assert as_json(sections)["servers"] == [
        {
            "server": "fast",
            "kind": "iscsi",
            "address": "10.88.0.3",
            "size": 1 << 30,
            "disks": 2,
            "connected": "node-2",
            "shut_out": "node-1, node-3",
            "state": "serves",
        },
        {
            "server": "idle",
            "kind": "iscsi",
            "address": "-",
            "size": 1 << 30,
            "disks": 2,
            "connected": "-",
            "shut_out": "-",
            "state": "nbdkit is missing",
        },
        {
            "server": "old",
            "kind": "-",
            "address": "-",
            "size": None,
            "disks": None,
            "connected": "-",
            "shut_out": "-",
            "state": "it is no JSON",
        },
    ]
    assert "node-1, node-3" in "\n".join(lines(sections))


async def test_a_cluster_without_servers_shows_no_table(tmp_path: Path) -> None:
    assert await shown(tmp_path, "[]") == []


async def test_a_cluster_whose_machines_can_use_none_shows_no_table(tmp_path: Path) -> None:
    assert await shown(tmp_path, ClusterError("storage servers serve machines with a kernel")) == []


async def test_without_a_running_cluster_there_is_no_table(tmp_path: Path) -> None:
    assert await section(tmp_path / "control.sock") == []
