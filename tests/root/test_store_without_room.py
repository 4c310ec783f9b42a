"""A file system without room: writes are refused, nothing acknowledged is lost, and the server goes on by
itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.process import Running, serve
from mooring.apiserver.store import object_store
from mooring.mounts import syscalls

pytestmark = pytest.mark.root
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    syscalls.mount("tmpfs", str(directory), "tmpfs", 0, "size=4m")
    yield directory
    syscalls.unmount(str(directory))


async def write(running: Running, name: str) -> int:
    body: dict[str, Any] = {"metadata": {"name": name}, "data": {"k": "x" * 50_000}}
    return (await running.server.call("POST", CONFIG_MAPS, body=body)).status


async def ready(running: Running) -> tuple[int, str]:
    answer = await running.server.call("GET", "/readyz")
    return answer.status, answer.body.decode()


async def test_without_room_nothing_is_lost_and_with_room_it_goes_on(
    small: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(object_store, "RESUME_S", 0.2)
    running = await serve(data_dir=small)
    assert (await ready(running))[0] == 200
    with (small / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        for _ in range(1000):
            filler.write(b"x" * 65536)
    acknowledged: list[str] = []
    statuses = [await write(running, f"m{number}") for number in range(60)]
    acknowledged += [f"m{number}" for number, status in enumerate(statuses) if status == 201]
    assert statuses[-1] == 503
    status, why = await ready(running)
    assert status == 503
    assert "store.db cannot be written" in why
    assert "make room" in why
    assert (await running.server.call("GET", "/livez")).status == 200
    assert (await running.server.call("GET", CONFIG_MAPS)).status == 200, "reads go on"
    (small / "filler").unlink()
    for _ in range(100):
        if (await ready(running))[0] == 200:
            break
        await asyncio.sleep(0.1)
    assert await write(running, "after") == 201
    await running.close()
    again = await serve(data_dir=small)
    for name in (*acknowledged, "after"):
        assert (await again.server.call("GET", f"{CONFIG_MAPS}/{name}")).status == 200, name
    await again.close()
