"""Calls as lines of a file."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mooring.cli import csi_trace
from mooring.csi import trace
from mooring.csi.client import Client
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.trace import LONGEST, older_part, read, shown, tracer


class AnsweringDriver:
    def __init__(self, error: CsiError | None = None) -> None:
        self.error = error

    async def call(self, rpc: Any, request: Any, timeout_s: float) -> Any:
        if self.error is not None:
            raise self.error
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id="v"))

    async def close(self) -> None:
        return


async def create(path: Path, driver: AnsweringDriver) -> None:
    observe = tracer(path, "node-1", lambda: datetime(2030, 1, 1, 12, tzinfo=UTC))
    client = Client(driver, [lambda exchange: observe("a.example.com", exchange)])
    request = csi.CreateVolumeRequest(name="n" * 300, secrets={"token": "hunter2"})
    try:
        await client.controller.create_volume(request, timeout_s=1)
    except CsiError:
        return


async def test_a_call_is_a_line_with_request_and_answer_and_no_secret(tmp_path: Path):
    path = tmp_path / "csi.jsonl"
    await create(path, AnsweringDriver())
    await create(path, AnsweringDriver(CsiError(Code.UNAVAILABLE, "away", "CreateVolume")))
    text = path.read_text()
    assert "hunter2" not in text
    done, failed = (json.loads(line) for line in text.splitlines())
    assert (done["driver"], done["caller"], done["method"], done["code"]) == (
        "a.example.com",
        "node-1",
        "CreateVolume",
        "OK",
    )
    assert done["reply"] == {"volume": {"volume_id": "v"}}
    assert (failed["code"], failed["message"]) == ("Unavailable", "away")


async def test_a_call_has_its_answer_also_where_it_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    observe = tracer(tmp_path / "csi.jsonl", "node-1", lambda: datetime(2030, 1, 1, 12, tzinfo=UTC))
    client = Client(AnsweringDriver(), [lambda exchange: observe("a.example.com", exchange)])
    monkeypatch.setattr(os, "write", full)
    made = await client.controller.create_volume(csi.CreateVolumeRequest(name="n"), timeout_s=1)
    assert made.volume.volume_id == "v"


async def test_a_trace_that_has_grown_begins_anew_and_one_older_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trace, "LARGEST", 2000)
    path, driver = tmp_path / "csi.jsonl", AnsweringDriver()
    for _ in range(50):
        await create(path, driver)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["csi.jsonl", "csi.jsonl.1"]
    assert all(each.stat().st_size < 3000 for each in tmp_path.iterdir())


async def test_a_trace_is_followed_into_its_next_part(tmp_path: Path):
    path, driver = tmp_path / "csi.jsonl", AnsweringDriver()
    await create(path, driver)
    calls = csi_trace.calls(path, follow=True)
    assert next(calls)["code"] == "OK"
    path.rename(older_part(path))
    await create(path, AnsweringDriver(CsiError(Code.UNAVAILABLE, "away", "CreateVolume")))
    assert next(calls)["code"] == "Unavailable"


async def test_for_people_a_call_is_short(tmp_path: Path):
    path = tmp_path / "csi.jsonl"
    await create(path, AnsweringDriver(CsiError(Code.UNAVAILABLE, "away", "CreateVolume")))
    (call,) = read(iter(path.read_text().splitlines(keepends=True)))
    head, asked = shown(call).splitlines()
    assert head.startswith("12:00:00.000  node-1       CreateVolume")
    assert head.endswith("Unavailable: away")
    assert len(asked.strip()) <= LONGEST


def test_a_line_that_is_being_written_is_left_out():
    assert list(read(iter(['{"a": 1}\n', '{"b"']))) == [{"a": 1}]
