"""What is left of volumes whose plugin this node does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog

from mooring.mounts.interface import Mount
from mooring.node.volumes import operations
from mooring.node.volumes.orphans import OrphanedVolume, remove_orphan
from mooring.volumes.errors import NoPluginMatched

Play = Any


@pytest.fixture
def said() -> Iterator[list[Any]]:
    """What is logged."""
    with structlog.testing.capture_logs() as entries:
        yield entries


def warnings(said: list[Any]) -> list[str]:
    return [f"{entry['event']}: {entry.get('problem')}" for entry in said if entry["log_level"] == "warning"]


def place_of(stage: Any, kind: str = "volumes", pod: str = "dead") -> Path:
    path: Path = stage.root / "pods" / pod / kind / "example.com~gone" / "data"
    path.mkdir(parents=True)
    return path


def test_an_orphan_is_told_once_with_what_to_do_and_stays_as_it_is(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        place = place_of(stage)
        (place / "precious").write_text("data")
        await stage.start()
        await asyncio.sleep(3 * 3600)
        (only,) = warnings(said)
        for part in (
            "no volume plugin matched name 'example.com/gone'",
            "directory not empty",
            f"`rmdir {place}`",
        ):
            assert part in only
        assert (place / "precious").read_text() == "data"

    play(story)


def test_it_is_told_again_when_it_is_something_else(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        place = place_of(stage)
        (place / "precious").write_text("data")
        stage.machine.mounts.add(str(place))
        await stage.start()
        await stage.until(lambda: warnings(said))  # it is looked at in a thread, which has no virtual time
        (first,) = warnings(said)
        assert "ext4 of /dev/x is mounted there" in first
        assert f"`umount {place}`" in first
        stage.machine.mounts.clear()
        await stage.until(lambda: len(warnings(said)) > 1)
        _, second = warnings(said)
        assert "directory not empty" in second

    play(story)


def test_what_a_person_has_emptied_or_removed_is_forgotten_with_its_pod(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        for pod in ("one", "two"):
            (place_of(stage, pod=pod) / "precious").write_text("data")
        await stage.start()
        await asyncio.sleep(3600)
        first = stage.root / "pods/one/volumes/example.com~gone/data"
        (first / "precious").unlink()
        second = stage.root / "pods/two/volumes/example.com~gone/data"
        second.rename(stage.root / "taken-away")  # in one step: the agent, too, removes what is empty
        await stage.until(lambda: not list((stage.root / "pods").iterdir()))
        assert len(warnings(said)) == 2

    play(story)


def test_an_empty_directory_is_removed_without_a_word(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        place_of(stage)
        await stage.start()
        await stage.until(lambda: not list((stage.root / "pods").iterdir()))
        assert warnings(said) == []

    play(story)


def test_a_raw_device_of_a_missing_plugin_stays(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        place = place_of(stage, "volumeDevices")
        place.rmdir()
        place.symlink_to("/dev/null")
        await stage.start()
        await asyncio.sleep(3 * 3600)
        (only,) = warnings(said)
        assert "not a directory" in only
        assert place.is_symlink()

    play(story)


def test_a_device_of_a_missing_plugin_stays_in_use_until_it_is_unmounted(play: Play, said: list[Any]) -> None:
    async def story(stage: Any) -> None:
        device = stage.root / "plugins" / "example.com~gone" / "mounts" / "d1"
        device.mkdir(parents=True)
        stage.machine.mounts.add(str(device))
        await stage.start()
        await asyncio.sleep(3 * 3600)
        (only,) = warnings(said)
        assert f"`umount {device}`" in only
        assert (await stage.node()).status.volumes_in_use == ("example.com/gone/d1",)
        await stage.kill()  # an agent that is started anew says it anew, and what it has written is no excuse
        await stage.start()
        await asyncio.sleep(3600)
        assert len(warnings(said)) == 2
        stage.machine.mounts.clear()
        await stage.until(lambda: _nothing_in_use(stage))

    async def _nothing_in_use(stage: Any) -> bool:
        return not (await stage.node()).status.volumes_in_use

    play(story)


# --- by itself


class Table:
    """What is mounted."""

    def __init__(self, *points: str) -> None:
        self._points = points

    async def mount_table(self) -> tuple[Mount, ...]:
        return tuple(Mount(1, 0, (8, 0), "/", each, frozenset(), "ext4", "/dev/x") for each in self._points)


async def left(path: Path, *mounted: str) -> str:
    """Why the directory of a plugin that is missing is left as it is; "" if it is removed."""
    table: Any = Table("/", *mounted)
    try:
        await remove_orphan(str(path), NoPluginMatched("no plugin"), table)
    except OrphanedVolume as error:
        return str(error)
    return ""


async def test_what_is_left_and_how_a_person_removes_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    before = f"no plugin; {tmp_path}, which no pod here uses any more, is left as it is: "
    middle = ". Install the plugin, and it is cleaned up; or, if the plugin is not to come back: "
    after = ". The agent looks again every 120 s"
    found, step = "directory not empty", f"move away what you need of it, then `rmdir {tmp_path}`"
    assert await left(tmp_path) == f"{before}{found}{middle}{step}{after}"
    found, step = "ext4 of /dev/x is mounted there", f"`umount {tmp_path}`"
    assert await left(tmp_path, str(tmp_path)) == f"{before}{found}{middle}{step}{after}"


async def test_an_empty_directory_is_removed_and_one_that_is_gone_is_no_problem(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for _ in range(2):
        assert await left(place, "/elsewhere") == ""
        assert not place.exists()


@pytest.mark.parametrize(
    "kind", ["pods/dead/volumes/example.com~gone/data", "plugins/example.com~gone/mounts/d1"]
)
def test_an_orphan_is_looked_at_every_two_minutes(
    play: Play, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Be it a pod's directory or a device: its plugin may be installed meanwhile, or a person may have
    removed it."""
    looks: list[float] = []

    async def remove(path: str, missing: NoPluginMatched, mounts: Any) -> None:
        looks.append(asyncio.get_running_loop().time())
        raise OrphanedVolume("left")

    monkeypatch.setattr(operations, "remove_orphan", remove)

    async def story(stage: Any) -> None:
        path = stage.root / kind
        path.mkdir(parents=True)
        if "plugins" in kind:
            stage.machine.mounts.add(str(path))
        await stage.start()
        await asyncio.sleep(1000)
        assert {round(later - earlier) for earlier, later in pairwise(looks)} == {120}
        assert len(looks) >= 8

    play(story)
