"""A `Log` in one SQLite file: WAL, synchronous FULL, one transaction and one fsync for each batch.

The commit runs in one worker thread, so that the event loop never waits for the disk. Two processes cannot open the
same file: the second gets `LogBusy`.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mooring.apiserver.errors import LogCorrupt
from mooring.apiserver.log import Batch, Record, Recovery

_SCHEMA = """
CREATE TABLE IF NOT EXISTS history (
  version INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  deleted INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY CHECK (id = 0), version INTEGER NOT NULL);
"""


class LogBusy(Exception):
    """Another process has this log open; the message names the file."""


class SqliteLog:
    """History in `path` (created if missing), locked for this process until `close()`.

    Raises `LogBusy` if another process holds it, `LogCorrupt` if the file is no database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _lock(path.with_name(path.name + ".lock"))
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise LogCorrupt(f"cannot open the API server's store {path}: {error}") from error
        path.chmod(0o600)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="store-log")

    def append(self, batch: Batch) -> Awaitable[None]:
        return asyncio.get_running_loop().run_in_executor(self._worker, self._commit, batch)

    def recover(self) -> Recovery:
        try:
            rows = self._db.execute(
                "SELECT version, resource, namespace, name, deleted, body FROM history ORDER BY version"
            )
            records = [
                Record(v, resource, namespace, name, bool(d), body) for v, resource, namespace, name, d, body in rows
            ]
            floor = self._db.execute("SELECT version FROM floor").fetchone()
        except sqlite3.DatabaseError as error:
            raise LogCorrupt(f"cannot read the API server's store {self._path}: {error}") from error
        return Recovery(records, floor[0] if floor else 0)

    def close(self) -> None:
        self._worker.shutdown(wait=True)
        self._db.close()
        os.close(self._lock)

    def _commit(self, batch: Batch) -> None:
        db = self._db
        rows = [(r.version, r.resource, r.namespace, r.name, r.deleted, r.body) for r in batch.records]
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", rows)
            db.executemany("DELETE FROM history WHERE version = ?", [(version,) for version in batch.forgotten])
            db.execute("INSERT OR REPLACE INTO floor VALUES (0, ?)", (batch.floor,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LogBusy(
            f"another API server has {path.parent} open; stop it first, or use another data directory"
        ) from error
    return descriptor
