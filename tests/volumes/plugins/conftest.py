"""The plugins of a node without the node: a host whose mounts are only recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.kube.objects import ConfigMap, Secret
from mooring.volumes.host import NodeVolumeHost


class NotedMounts:
    """Mounts as a set of mount points; a directory stands for what is mounted."""

    def __init__(self) -> None:
        self.points: dict[str, tuple[str, tuple[str, ...]]] = {}

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def mount(self, source: str, target: str, fs_type: str, options: Sequence[str] = ()) -> None:
        os.makedirs(target, exist_ok=True)
        self.points[target] = (fs_type, tuple(options))

    async def unmount(self, target: str) -> None:
        self.points.pop(target, None)


class StoredObjects:
    """Objects by (namespace, name)."""

    def __init__(self) -> None:
        self.config_maps: dict[tuple[str, str], ConfigMap] = {}
        self.secrets: dict[tuple[str, str], Secret] = {}

    async def get_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return self.config_maps.get((namespace, name))

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        return self.secrets.get((namespace, name))


@pytest.fixture
def cluster() -> StoredObjects:
    return StoredObjects()


@pytest.fixture
def mounts() -> NotedMounts:
    return NotedMounts()


@pytest.fixture
def host(tmp_path: Path, cluster: StoredObjects, mounts: NotedMounts) -> NodeVolumeHost:
    now: Callable[[], datetime] = lambda: datetime(2030, 1, 1, tzinfo=UTC)  # noqa: E731
    return NodeVolumeHost(
        "a",
        tmp_path,
        mounts,  # type: ignore[arg-type]
        now,
        cluster.get_config_map,
        cluster.get_secret,
        plugin_settings={"kubernetes.io/host-path": {"recycle": "this-machine"}},
        allocatable={"cpu": "2", "memory": "1Gi"},
    )
