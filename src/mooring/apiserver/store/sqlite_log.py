"""A `Log` in one SQLite file: WAL, synchronous FULL, one transaction and one fsync for each batch.

The commit runs in one worker thread, so that the event loop never waits for the disk. Two processes cannot
open the same file: the second gets `LogBusy`. Only the owner can read the file and those that SQLite makes
beside it.

After a failed commit (no space, an I/O error) the file is opened anew. A reader may then see data that is not
on disk, because a failed fsync leaves pages in the kernel's cache that are never written. So everything is
copied into the database file and synced (a checkpoint) before the log goes on. A file that is removed or
replaced while it is open fails every commit, because what was written to it would end with this process.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mooring.apiserver.errors import LogCorrupt, LogFailed
from mooring.apiserver.store.log import Batch, Record, Recovery

_SCHEMA = """
CREATE TABLE IF NOT EXISTS history (
  version INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  deleted INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY CHECK (id = 0), version INTEGER NOT NULL);
"""
_SELECT = "SELECT version, resource, namespace, name, deleted, body FROM history"
_ADVICE = {
    "SQLITE_FULL": "make room on its file system; the server goes on by itself",
    "SQLITE_IOERR": "look at the disk (dmesg); the server tries again by itself",
    "SQLITE_READONLY": "its file system and directory must be writable; the server tries again by itself",
    "SQLITE_CANTOPEN": "its directory must be there and writable; the server tries again by itself",
}
_BESIDE = ("-wal", "-shm")


class LogBusy(Exception):
    """Another process has this log open; the message names the file."""


class SqliteLog:
    """History in `path` (created if missing), locked for this process until `close()`.

    Raises `LogBusy` if another process holds it, `LogCorrupt` if the file is no database, `LogFailed` if it
    cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _lock(path.with_name(path.name + ".lock"))
        try:
            self._file = _private_file(path)
            self._db = _open(path)
        except BaseException:
            os.close(self._lock)
            raise
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="store-log")

    def append(self, batch: Batch) -> Awaitable[None]:
        return asyncio.get_running_loop().run_in_executor(self._worker, self._commit, batch)

    async def resume(self, after: int) -> Sequence[Record]:
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._reopen, after)

    def recover(self) -> Recovery:
        try:
            records = [_record(row) for row in self._db.execute(f"{_SELECT} ORDER BY version")]
            (floor,) = self._db.execute("SELECT version FROM floor").fetchone() or (0,)
        except sqlite3.DatabaseError as error:
            raise LogCorrupt(f"cannot read the API server's store {self._path}: {error}") from error
        return Recovery(records, floor)

    def close(self) -> None:
        self._worker.shutdown(wait=True)
        self._db.close()
        os.close(self._lock)

    def _commit(self, batch: Batch) -> None:
        try:
            # Before, so that nothing is written to a file that ends with this process; after, because it can
            # be taken away while it is written, and the batch must not be acknowledged then.
            self._check_in_place()
            self._write(batch)
            self._check_in_place()
        except sqlite3.Error as error:
            raise _failed(self._path, error) from error

    def _write(self, batch: Batch) -> None:
        db = self._db  # in autocommit mode: a transaction begins and ends where it says so here
        rows = [(r.version, r.resource, r.namespace, r.name, r.deleted, r.body) for r in batch.records]
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", rows)
            db.executemany(
                "DELETE FROM history WHERE version = ?", [(version,) for version in batch.forgotten]
            )
            db.execute("INSERT OR REPLACE INTO floor VALUES (0, ?)", (batch.floor,))
            db.execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself after some errors (full disk, I/O): a second ROLLBACK would raise.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _reopen(self, after: int) -> Sequence[Record]:
        self._check_in_place()
        try:
            self._db.close()
            self._db = _open(self._path)
            (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            records = [
                _record(row)
                for row in self._db.execute(f"{_SELECT} WHERE version > ? ORDER BY version", (after,))
            ]
        except sqlite3.Error as error:
            raise _failed(self._path, error) from error
        if busy:
            raise LogFailed(f"another program reads the API server's store {self._path}: end it")
        return records

    def _check_in_place(self) -> None:
        try:
            there = _identity(os.stat(self._path))
        except OSError as error:
            there = None
            why = error.strerror
        else:
            why = "another file is there now"
        if there != self._file:
            raise LogFailed(
                f"the API server's store {self._path} was taken away while it was open ({why}): put it back, or stop "
                "the server and restore a copy; what it holds in memory is not written anywhere else"
            )


def _open(path: Path) -> sqlite3.Connection:
    """The database in a file that is there: it is never made here, so that none takes the place of one that
    is lost."""
    try:
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, check_same_thread=False, isolation_level=None
        )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.executescript(_SCHEMA)
    except sqlite3.DatabaseError as error:
        if _kind(error) in _ADVICE:
            raise _failed(path, error) from error
        raise LogCorrupt(f"cannot open the API server's store {path}: {error}") from error
    return db


def _private_file(path: Path) -> tuple[int, int]:
    """Makes the file if it is missing; closes it and those beside it to others. SQLite gives them the file's
    mode."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            made = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        for beside in (path.with_name(path.name + suffix) for suffix in _BESIDE):
            if beside.exists():
                beside.chmod(0o600)
    except OSError as error:
        raise LogFailed(
            f"cannot open the API server's store {path}: {error.strerror}: {_advice(error)}"
        ) from error
    return _identity(made)


def _advice(error: OSError) -> str:
    return (
        "make room on its file system" if error.errno == errno.ENOSPC else "it must be writable for this user"
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _kind(error: sqlite3.Error) -> str:
    """`SQLITE_FULL`, `SQLITE_IOERR`, ...: the extended codes of one kind begin with its name."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return next((kind for kind in _ADVICE if name.startswith(f"{kind}_")), name)


def _failed(path: Path, error: sqlite3.Error) -> LogFailed:
    advice = _ADVICE.get(_kind(error), "the server tries again by itself")
    return LogFailed(f"the API server's store {path} cannot be written ({error}): {advice}")


def _record(row: tuple[int, str, str, str, int, bytes]) -> Record:
    version, resource, namespace, name, deleted, body = row
    return Record(version, resource, namespace, name, bool(deleted), body)


def _lock(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogFailed(
            f"cannot open the API server's lock {path}: {error.strerror}: {_advice(error)}"
        ) from error
    # A file of its own, because SQLite locks the database for each transaction only, and in WAL mode lets a
    # second process write in between. The kernel lets go of this one with the process, however that ends.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LogBusy(
            f"another API server has {path.parent} open; stop it first, or use another data directory"
        ) from error
    return descriptor
