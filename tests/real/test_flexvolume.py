"""Upstream's own FlexVolume test drivers, unmodified: `dummy` and `dummy-attachable` of its e2e suite."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from flexvolume_life import install, life_of_a_pods_own_volume, life_of_an_attached_volume, plugins

from mooring.mounts import syscalls
from mooring.mounts.table import mounts_below, read_mount_table

pytestmark = pytest.mark.root

MODULES = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
PLACE = "test/e2e/testing-manifests/flexvolume"


@pytest.fixture
def upstream() -> Path:
    found = sorted(MODULES.glob(f"k8s.io/kubernetes@v1.36.*/{PLACE}"))
    if not found:
        pytest.skip("needs Go's module k8s.io/kubernetes v1.36: go mod download k8s.io/kubernetes@v1.36.3")
    return found[-1]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.setenv("FLEX_DUMMY_LOG", str(tmp_path / "flex-dummy.log"))
    yield tmp_path / "node"
    for mount in reversed(mounts_below(read_mount_table(), str(tmp_path))):
        syscalls.unmount(mount.mount_point)


def calls(log: Path) -> list[str]:
    """The calls that a driver has written down, without dates and arguments."""
    known = {"mount", "unmount", "attach", "detach", "waitforattach", "isattached"}
    known |= {"mountdevice", "unmountdevice", "expandvolume", "expandfs"}
    words = (line.split() for line in log.read_text().splitlines())
    return [
        found
        for line in words
        if (found := next((w.removeprefix("do") for w in line if w.removeprefix("do") in known), ""))
    ]


async def test_dummy_mounts_for_the_pod(upstream: Path, root: Path, tmp_path: Path) -> None:
    install(upstream / "dummy", tmp_path / "exec", "k8s/dummy")
    manager = await plugins(root, tmp_path / "exec")
    assert await life_of_a_pods_own_volume(manager, "k8s/dummy") == {"index.html"}
    assert calls(tmp_path / "flex-dummy.log") == ["mount", "unmount"]


async def test_dummy_attachable_goes_the_whole_way(upstream: Path, root: Path, tmp_path: Path) -> None:
    install(upstream / "dummy-attachable", tmp_path / "exec", "k8s/dummy-attachable")
    manager = await plugins(root, tmp_path / "exec")
    assert await life_of_an_attached_volume(manager, "k8s/dummy-attachable") == {"index.html"}
    assert calls(tmp_path / "flex-dummy.log") == [
        *("attach", "isattached", "waitforattach", "mountdevice", "expandvolume", "expandfs"),
        *("unmountdevice", "detach", "detach"),
    ]
