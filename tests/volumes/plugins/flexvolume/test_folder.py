"""Drivers are found in their directory, whatever happens there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import waiting
from tests.volumes.plugins.flexvolume.conftest import Write, calls

from mooring.node.flexvolume import watch_drivers
from mooring.node.inotify import Inotify
from mooring.volumes.plugins.flexvolume.folder import DriverFolder

NAME = "example.com/disk"
GOOD = """echo '{"status":"Success"}'"""
WITHOUT_ATTACH = """echo '{"status":"Success","capabilities":{"attach":false}}'"""


@asynccontextmanager
async def followed(directory: Path) -> AsyncIterator[DriverFolder]:
    folder = DriverFolder(directory, 5.0)
    task = asyncio.create_task(folder.run(watch_drivers(Inotify)))
    try:
        yield folder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_driver_that_is_there_is_asked_once_for_its_init(directory: Path, write: Write) -> None:
    executable = write(GOOD)
    folder = DriverFolder(directory)
    assert not await folder.scan()
    assert not await folder.scan()
    assert list(folder.drivers) == [NAME]
    assert calls(executable) == [["init"]]


async def test_what_is_no_driver_is_left_alone(directory: Path, write: Write) -> None:
    write(GOOD, ".hidden~disk")
    write(GOOD, "disk")
    write(GOOD, "a~b~c")
    write(GOOD, "example.com~text").chmod(0o644)
    (directory / "example.com~directory" / "directory").mkdir(parents=True)
    (directory / "file~x").write_text("")
    folder = DriverFolder(directory)
    assert not await folder.scan()
    assert folder.drivers == {}


async def test_a_directory_that_does_not_exist_has_no_drivers(tmp_path: Path) -> None:
    folder = DriverFolder(tmp_path / "none")
    assert not await folder.scan()


async def test_a_driver_that_fails_is_asked_again_and_keeps_no_other_from_being_found(
    directory: Path, write: Write
) -> None:
    write("sleep 1000", "example.com~hangs")
    write("echo garbage", "example.com~garbage")
    write(GOOD)
    folder = DriverFolder(directory, 1.0)
    assert await folder.scan()
    assert list(folder.drivers) == [NAME]
    assert "did not end" in folder.problems["example.com/hangs"]
    assert "not JSON" in folder.problems["example.com/garbage"]


async def test_a_driver_that_is_written_to_while_it_answers_is_not_taken(
    directory: Path, write: Write
) -> None:
    write(f"""echo '# more' >> "$0"; {GOOD}""")
    folder = DriverFolder(directory)
    assert await folder.scan()
    assert folder.drivers == {}


async def test_a_driver_that_is_added_is_found(directory: Path, write: Write) -> None:
    async with followed(directory) as folder:
        await asyncio.sleep(0.1)
        write(GOOD)
        await waiting.until(lambda: NAME in folder.drivers, "the driver")


async def test_a_driver_that_is_made_executable_is_found(directory: Path, write: Write) -> None:
    executable = write(GOOD)
    executable.chmod(0o644)
    async with followed(directory) as folder:
        await asyncio.sleep(0.2)
        assert folder.drivers == {}
        executable.chmod(0o755)
        await waiting.until(lambda: NAME in folder.drivers, "the driver")


async def test_a_driver_that_is_replaced_is_asked_anew(directory: Path, write: Write) -> None:
    write(GOOD)
    async with followed(directory) as folder:
        await waiting.until(lambda: NAME in folder.drivers, "the driver")
        write(WITHOUT_ATTACH)
        await waiting.until(lambda: not folder.drivers[NAME].capabilities.attach, "the new driver")


async def test_what_a_driver_said_counts_until_its_replacement_answers(directory: Path, write: Write) -> None:
    write(WITHOUT_ATTACH)
    folder = DriverFolder(directory)
    await folder.scan()
    write("exit 1")
    assert await folder.scan()
    assert not folder.drivers[NAME].capabilities.attach
    assert NAME not in folder.gone


async def test_a_driver_that_is_removed_is_remembered_as_gone_and_may_come_back(
    directory: Path, write: Write
) -> None:
    executable = write(GOOD)
    async with followed(directory) as folder:
        await waiting.until(lambda: NAME in folder.drivers, "the driver")
        executable.unlink()
        await waiting.until(lambda: NAME in folder.gone, "its removal")
        assert NAME in folder.drivers
        write(GOOD)
        await waiting.until(lambda: NAME not in folder.gone, "its return")
