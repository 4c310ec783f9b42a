"""The plugin of docs/plugins.md works as it stands there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, Pod, Volume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="u"))


class Mounts:
    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.points: set[str] = set()

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def bind_mount(self, source: str, target: str, read_only: bool = False) -> None:
        self.bound[target] = source

    async def remove_mount_point(self, target: str) -> None:
        self.bound.pop(target, None)


def spec(options: dict[str, str]) -> VolumeSpec:
    return VolumeSpec.of_volume(
        Volume(name="v", flex_volume=FlexVolumeSource(driver="example.com/share", options=options))
    )


@pytest.fixture
def manager(tmp_path: Path) -> tuple[PluginManager, Mounts]:
    async def nothing(namespace: str, name: str) -> None:
        return None

    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    made: dict[str, Any] = {"__name__": "share"}
    exec(compile(code, str(PAGE), "exec"), made)
    mounts = Mounts()
    now = datetime(2030, 1, 1, tzinfo=UTC)
    host = NodeVolumeHost("a", tmp_path, mounts, lambda: now, nothing, nothing)  # type: ignore[arg-type]
    host = replace(host, plugin_settings={"example.com/share": {"root": str(tmp_path / "share")}})
    plugins: Sequence[Any] = [made["SharePlugin"]()]
    return PluginManager(plugins, host), mounts


async def test_it_shows_a_folder_to_a_pod_and_takes_it_away(
    manager: tuple[PluginManager, Mounts], tmp_path: Path
):
    plugins, mounts = manager
    assert not plugins.errors
    volume = spec({"folder": "pictures"})
    mounter = plugins.find_plugin_by_spec(volume).new_mounter(volume, POD)
    with pytest.raises(FileNotFoundError, match="not mounted"):
        await mounter.can_mount()
    mounts.points.add(str(tmp_path / "share"))
    await mounter.can_mount()
    await mounter.set_up()
    assert mounts.bound == {mounter.get_path(): str(tmp_path / "share" / "pictures")}
    assert os.path.isdir(tmp_path / "share" / "pictures")
    await plugins.find_plugin_by_name("example.com/share").new_unmounter("v", "u").tear_down()
    assert mounts.bound == {}


async def test_it_refuses_what_it_cannot_show(manager: tuple[PluginManager, Mounts]):
    plugins, _ = manager
    with pytest.raises(InvalidSpec, match="names no folder"):
        plugins.unique_volume_name(spec({}), "u")
        plugins.find_plugin_by_spec(spec({})).new_mounter(spec({}), POD)
