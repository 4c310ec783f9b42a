"""The SQLite log: durable, one owner at a time, clear when it cannot be read. (`test_kill9` kills its owner.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.apiserver.errors import LogCorrupt
from mooring.apiserver.log import Batch, Record
from mooring.apiserver.sqlite import LogBusy, SqliteLog


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
