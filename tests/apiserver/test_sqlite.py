"""The SQLite log: durable, one owner at a time, clear when it cannot be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.apiserver.errors import LogCorrupt
from mooring.apiserver.log import Batch, Record
from mooring.apiserver.sqlite import LogBusy, SqliteLog

WRITER = """
import asyncio, sys
from pathlib import Path
from mooring.apiserver.sqlite import SqliteLog
from mooring.apiserver.store import Store

async def write(store, name):
    n = 0
    while True:
        n += 1
        body = {"metadata": {"uid": name}, "n": n}
        item = await store.write("things", ("", name), body)
        sys.stdout.write(f"{name} {n} {item.version}\\n")
        sys.stdout.flush()

async def main():
    store = Store(SqliteLog(Path(sys.argv[1])), lambda resource, obj: {}, window=100)
    await asyncio.gather(*(write(store, f"w{i}") for i in range(8)))

asyncio.run(main())
"""


def record(version: int, name: str = "a", body: bytes = b"{}") -> Record:
    return Record(version, "things", "ns", name, False, body)


async def test_what_was_appended_is_recovered(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1), record(2, "b", b"\x00")], [], 0))
    await log.append(Batch([record(3)], [1], 1))
    log.close()
    again = SqliteLog(tmp_path / "store.db")
    recovery = again.recover()
    assert list(recovery.records) == [record(2, "b", b"\x00"), record(3)]
    assert recovery.floor == 1
    again.close()


async def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1)], [], 0))
    with pytest.raises(Exception, match="UNIQUE"):
        await log.append(Batch([record(2), record(1)], [], 0))
    assert list(log.recover().records) == [record(1)]
    log.close()


def test_only_one_process_can_have_a_log_open(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    with pytest.raises(LogBusy, match="another API server"):
        SqliteLog(tmp_path / "store.db")
    log.close()
    SqliteLog(tmp_path / "store.db").close()


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"this is not a database, not even nearly" * 100)
    with pytest.raises(LogCorrupt, match=r"store\.db"):
        SqliteLog(tmp_path / "store.db")


def test_the_file_is_private(tmp_path: Path) -> None:
    SqliteLog(tmp_path / "store.db").close()
    assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


def test_kill_9_loses_nothing_acknowledged_and_reuses_no_version(tmp_path: Path) -> None:
    """Writers are killed in the midst of their work, again and again; what they were told to be written is there."""
    acknowledged: dict[str, int] = {}
    versions: set[int] = set()
    for _ in range(int(os.environ.get("MOORING_KILL_ROUNDS", "4"))):
        for name, n, version in _write_until_killed(tmp_path / "store.db", lines=150):
            acknowledged[name] = n
            assert version not in versions, "a version was used twice"
            versions.add(version)
        found = _newest(tmp_path / "store.db")
        for name, n in acknowledged.items():
            assert found[name] >= n, f"{name}: {n} was acknowledged, {found[name]} was found"
        acknowledged = {}


def _write_until_killed(path: Path, lines: int) -> list[tuple[str, int, int]]:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(lines)]
    os.kill(writer.pid, signal.SIGKILL)
    told += writer.stdout.read().splitlines(keepends=True)
    writer.stdout.close()
    writer.wait()
    whole = [line.split() for line in told if line.endswith("\n")]
    return [(name, int(n), int(version)) for name, n, version in whole]


def _newest(path: Path) -> dict[str, int]:
    import json

    log = SqliteLog(path)
    found = {record.name: json.loads(record.body)["n"] for record in log.recover().records}
    log.close()
    return found
