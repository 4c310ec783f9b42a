"""Calls as lines of a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mooring.csi.client import Client
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.trace import LONGEST, read, shown, tracer


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
