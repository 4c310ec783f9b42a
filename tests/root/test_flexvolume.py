"""FlexVolume drivers that really mount."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from flexvolume_life import install, life_of_a_pods_own_volume, life_of_an_attached_volume, plugins

from mooring.mounts import syscalls
from mooring.mounts.table import mounts_below, read_mount_table

pytestmark = pytest.mark.root

DRIVERS = Path(__file__).parents[1] / "doubles" / "flexvolume_drivers"


@pytest.fixture
def root(tmp_path: Path) -> Generator[Path]:
    yield tmp_path / "node"
    for mount in reversed(mounts_below(read_mount_table(), str(tmp_path))):
        syscalls.unmount(mount.mount_point)


async def test_a_driver_without_attach_mounts_for_the_pod(root: Path, tmp_path: Path) -> None:
    install(DRIVERS / "memory", tmp_path / "exec", "example.com/memory")
    manager = await plugins(root, tmp_path / "exec")
    assert await life_of_a_pods_own_volume(manager, "example.com/memory") == {"options"}


async def test_a_driver_with_attach_mounts_for_the_node_and_pods_see_that(root: Path, tmp_path: Path) -> None:
    install(DRIVERS / "attached", tmp_path / "exec", "example.com/attached")
    manager = await plugins(root, tmp_path / "exec")
    assert await life_of_an_attached_volume(manager, "example.com/attached") == {"options"}
