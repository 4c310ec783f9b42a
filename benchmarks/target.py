"""A server under measurement, and what is stored in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

Figures = dict[str, float]
PODS_PATH = "/api/v1/namespaces/default/pods"


@dataclass
class Target:
    """A server under measurement."""

    name: str
    url: str
    token: str
    authority: Path
    pids: list[int]
    ready: float
    session: aiohttp.ClientSession = field(init=False)

    async def call(self, method: str, path: str, body: Any = None) -> bytes:
        content = {
            "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"
        }
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(method, self.url + path, data=data, headers=content) as answer:
            found = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{self.name}: {method} {path}: {answer.status} {found[:300]!r}")
            return found


def resident(pids: Sequence[int]) -> int:
    """Bytes of resident memory of processes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def pod(name: str) -> dict[str, Any]:
    """A pod of the size that a small real one has."""
    env = [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(12)]
    container = {"name": "main", "image": "registry/app:1", "command": ["run"], "env": env}
    labels = {"app": "bench", "part": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }
