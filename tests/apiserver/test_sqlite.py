"""The SQLite log: durable, one owner at a time, clear when it cannot be read. `test_kill9` kills its
owner."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mooring.apiserver.errors import LogCorrupt, LogFailed
from mooring.apiserver.store.log import Batch, Record
from mooring.apiserver.store.sqlite_log import LogBusy, SqliteLog


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


def full(log: SqliteLog) -> None:
    """As if its file system had no room: SQLite answers SQLITE_FULL."""
    (pages,) = log._db.execute("PRAGMA page_count").fetchone()
    log._db.execute(f"PRAGMA max_page_count = {pages}")


LARGE = b"x" * 100_000


async def test_after_a_commit_that_had_no_room_the_log_goes_on_when_there_is_some(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1)], [], 0))
    full(log)
    with pytest.raises(LogFailed, match=r"store\.db cannot be written .*full.*make room"):
        await log.append(Batch([record(2, body=LARGE)], [], 0))
    assert await log.resume(1) == []
    await log.append(Batch([record(3, body=LARGE)], [], 0))
    log.close()
    again = SqliteLog(tmp_path / "store.db")
    assert [each.version for each in again.recover().records] == [1, 3]
    again.close()


async def test_a_batch_whose_failure_was_not_true_is_told(tmp_path: Path) -> None:
    """The answer of the disk got lost, and the records are there: a resumed log says so."""
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1)], [], 0))
    await log.append(Batch([record(2)], [], 0))
    assert await log.resume(1) == [record(2)]
    log.close()


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_taken_away_fails_every_commit_until_it_is_back(
    tmp_path: Path, replaced: bool
) -> None:
    """SQLite itself would go on, in a file without a name."""
    path, away = tmp_path / "store.db", tmp_path / "away.db"
    log = SqliteLog(path)
    path.rename(away)
    if replaced:
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(LogFailed, match=r"store\.db was taken away"):
            await log.append(Batch([record(1)], [], 0))
        with pytest.raises(LogFailed, match=r"store\.db was taken away"):
            await log.resume(0)
    away.rename(path)
    assert await log.resume(0) == []
    await log.append(Batch([record(2)], [], 0))
    log.close()


async def test_a_log_that_is_read_by_another_program_does_not_resume_before_that_ends(tmp_path: Path) -> None:
    """Its checkpoint would not be whole, so what is in the log would not certainly be on the disk."""
    path = tmp_path / "store.db"
    log = SqliteLog(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM history").fetchall()
        await log.append(Batch([record(1)], [], 0))
        with pytest.raises(LogFailed):
            await log.resume(1)
        reader.execute("ROLLBACK")
    assert await log.resume(1) == []
    log.close()
