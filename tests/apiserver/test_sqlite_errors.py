"""What the SQLite log does when its file system does not do as it should, and what it says then."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.errors import LogCorrupt, LogFailed
from mooring.apiserver.store import sqlite_log
from mooring.apiserver.store.log import Batch, Record, Recovery
from mooring.apiserver.store.sqlite_log import LogBusy, SqliteLog


def record(version: int) -> Record:
    return Record(version, "things", "ns", "a", False, b"{}")


def recovered(path: Path) -> list[int]:
    """The versions that another process finds."""
    log = SqliteLog(path)
    found = [each.version for each in log.recover().records]
    log.close()
    return found


class BrokenConnection:
    """SQLite answers every statement with this error."""

    in_transaction = False

    def __init__(self, name: str | None) -> None:
        self._error = sqlite3.OperationalError("it is broken")
        if name is not None:
            self._error.sqlite_errorname = name

    def execute(self, *_: Any) -> Any:
        raise self._error

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SQLITE_FULL", "make room on its file system; the server goes on by itself"),
        ("SQLITE_IOERR", "look at the disk (dmesg); the server tries again by itself"),
        ("SQLITE_IOERR_FSYNC", "look at the disk (dmesg); the server tries again by itself"),
        (
            "SQLITE_READONLY_DBMOVED",
            "its file system and directory must be writable; the server tries again by itself",
        ),
        ("SQLITE_CANTOPEN", "its directory must be there and writable; the server tries again by itself"),
        ("SQLITE_FULLER", "the server tries again by itself"),
        ("SQLITE_BUSY", "the server tries again by itself"),
        (None, "the server tries again by itself"),
    ],
)
async def test_a_commit_that_fails_says_what_to_do(tmp_path: Path, name: str | None, advice: str) -> None:
    """Extended codes begin with the name of their kind."""
    path = tmp_path / "store.db"
    log = SqliteLog(path)
    connection, log._db = log._db, BrokenConnection(name)  # type: ignore[assignment]
    with pytest.raises(LogFailed) as raised:
        await log.append(Batch([record(1)], [], 0))
    assert str(raised.value) == f"the API server's store {path} cannot be written (it is broken): {advice}"
    log._db = connection
    log.close()


@pytest.mark.parametrize("name", ["SQLITE_CANTOPEN", "SQLITE_FULL"])
async def test_a_log_that_cannot_be_opened_anew_says_so_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1)], [], 0))
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *_, **__: BrokenConnection(name))
        with pytest.raises(LogFailed, match="it is broken"):
            await log.resume(0)
    assert await log.resume(0) == [record(1)]
    log.close()


async def test_a_log_whose_checkpoint_fails_has_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteLog(tmp_path / "store.db")
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_log, "_open", lambda _: BrokenConnection("SQLITE_IOERR_FSYNC"))
        with pytest.raises(LogFailed, match="look at the disk"):
            await log.resume(0)
    assert await log.resume(0) == []
    log.close()


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    log = SqliteLog(path)
    connection, log._db = log._db, BrokenConnection("SQLITE_CORRUPT")  # type: ignore[assignment]
    with pytest.raises(LogCorrupt) as raised:
        log.recover()
    assert str(raised.value) == f"cannot read the API server's store {path}: it is broken"
    log._db = connection
    log.close()


def test_a_log_whose_directory_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(LogFailed) as raised:
        SqliteLog(tmp_path / "missing" / "store.db")
    assert str(raised.value) == (
        f"cannot open the API server's lock {tmp_path}/missing/store.db.lock: No such file or directory: "
        "it must be writable for this user"
    )


def test_a_log_that_cannot_be_opened_lets_its_lock_go(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.mkdir()
    with pytest.raises(LogFailed, match=r"store .*store\.db: Is a directory: it must be writable"):
        SqliteLog(path)
    path.rmdir()
    SqliteLog(path).close()


def test_a_log_for_which_there_is_no_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "store.db", os.open

    def no_room(file: Any, flags: int, *mode: int) -> int:
        if Path(file).name == "store.db":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, flags, *mode)

    monkeypatch.setattr(os, "open", no_room)
    with pytest.raises(LogFailed, match="No space left on device: make room on its file system"):
        SqliteLog(path)


def test_a_new_log_has_no_records_and_no_floor(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    assert log.recover() == Recovery([], 0)
    log.close()


async def test_each_commit_is_synced_also_after_the_log_has_resumed(tmp_path: Path) -> None:
    """With less, a power failure takes batches that were acknowledged."""
    log = SqliteLog(tmp_path / "store.db")
    for _ in range(2):
        asked = ("PRAGMA journal_mode", "PRAGMA synchronous")
        assert [log._db.execute(each).fetchone()[0] for each in asked] == ["wal", 2]
        await log.resume(0)
    log.close()


def test_a_log_is_opened_and_synced_as_it_asks_whatever_is_the_default_where_sqlite_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect

    def built_otherwise(name: str, *, uri: bool = False, **options: Any) -> sqlite3.Connection:
        assert uri, "it would be taken for the name of a file"
        connection = real(name, uri=uri, **options)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", built_otherwise)
    log = SqliteLog(tmp_path / "store.db")
    assert log._db.execute("PRAGMA synchronous").fetchone() == (2,)
    log.close()


async def test_a_log_goes_on_after_a_batch_that_it_refused(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    await log.append(Batch([record(1)], [], 0))
    with pytest.raises(LogFailed, match="UNIQUE"):
        await log.append(Batch([record(2), record(1)], [], 0))
    await log.append(Batch([record(3)], [], 0))
    log.close()
    assert recovered(tmp_path / "store.db") == [1, 3]


async def test_a_log_that_is_closed_has_finished_its_batch_and_let_its_file_go(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    appended = log.append(Batch([record(1)], [], 0))
    log.close()
    await appended
    with pytest.raises(sqlite3.ProgrammingError):
        log._db.execute("SELECT 1")
    assert recovered(tmp_path / "store.db") == [1]


async def test_a_log_that_resumes_lets_its_former_connection_go(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    former = log._db
    await log.resume(0)
    with pytest.raises(sqlite3.ProgrammingError):
        former.execute("SELECT 1")
    log.close()


async def test_what_a_resumed_log_holds_is_in_its_file_and_not_beside_it(tmp_path: Path) -> None:
    """What only the kernel's cache has of the file beside it, a power failure would take."""
    path = tmp_path / "store.db"
    log = SqliteLog(path)
    await log.append(Batch([record(1)], [], 0))
    assert path.with_name("store.db-wal").stat().st_size > 0
    await log.resume(1)
    assert path.with_name("store.db-wal").stat().st_size == 0
    log.close()


async def test_a_batch_is_not_acknowledged_if_its_file_was_taken_away_while_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, away = tmp_path / "store.db", tmp_path / "away.db"
    log = SqliteLog(path)
    real = log._write

    def taken_away(batch: Batch) -> None:
        real(batch)
        path.rename(away)

    monkeypatch.setattr(log, "_write", taken_away)
    with pytest.raises(LogFailed) as raised:
        await log.append(Batch([record(1)], [], 0))
    assert str(raised.value) == (
        f"the API server's store {path} was taken away while it was open (No such file or directory): put it "
        "back, or stop the server and restore a copy; what it holds in memory is not written anywhere else"
    )
    away.rename(path)
    assert await log.resume(0) == [record(1)], "it is known by now what came of it"
    log.close()


@pytest.mark.parametrize("beside", ["store.db-wal", "store.db-shm"])
def test_what_is_beside_the_file_is_private_too(tmp_path: Path, beside: str) -> None:
    log = SqliteLog(tmp_path / "store.db")
    (tmp_path / beside).chmod(0o644)
    os.close(log._lock)  # its process was killed
    again = SqliteLog(tmp_path / "store.db")
    assert (tmp_path / beside).stat().st_mode & 0o777 == 0o600
    again.close()
    log._db.close()


def test_a_new_file_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = list[int](), os.fchmod

    def noted(descriptor: int, mode: int) -> None:
        seen.append(os.fstat(descriptor).st_mode & 0o777)
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", noted)
    SqliteLog(tmp_path / "store.db").close()
    assert seen == [0o600]


def open_in(directory: Path) -> list[str]:
    """The names of the files there that this process has open."""
    held = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sorted(each.name for each in held if each.is_relative_to(directory))


def test_a_log_that_is_closed_or_refused_has_no_file_open_any_more(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "store.db")
    before = open_in(tmp_path)
    with pytest.raises(LogBusy):
        SqliteLog(tmp_path / "store.db")
    assert open_in(tmp_path) == before
    log.close()
    assert open_in(tmp_path) == []


def test_a_lock_and_a_store_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch(0o666)
    (tmp_path / "store.db").chmod(0o666)
    SqliteLog(tmp_path / "store.db").close()
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        "store.db": 0o600,
        "store.db.lock": 0o600,
    }
