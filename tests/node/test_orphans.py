"""What is left of volumes whose plugin this node does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

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
        await asyncio.sleep(3600)
        (first,) = warnings(said)
        assert "ext4 of /dev/x is mounted there" in first
        assert f"`umount {place}`" in first
        stage.machine.mounts.clear()
        await asyncio.sleep(3600)
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
