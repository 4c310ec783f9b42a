"""The cloud's durable records: one SQLite file.

Guarantees: each save is one transaction, on disk when it returns (WAL, full synchronisation). It must not
know what records mean. It blocks: one small write for each mutating call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from mooring.cloud.errors import DataDirectoryError
from mooring.cloud.interface import Journal


class SqliteJournal(Journal):
    """Records in the SQLite file at `path`, for one process at a time. Raises DataDirectoryError if the file
    cannot be opened."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise DataDirectoryError(f"{self._path} cannot be used: {error}") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise DataDirectoryError(
                f"{self._path} cannot be used: {error}; does another process use it?"
            ) from error

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        return self._database.execute("SELECT kind, id, content FROM records ORDER BY rowid").fetchall()

    def save(self, changes: Iterable[tuple[str, str, bytes | None]]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for kind, id, content in changes:
                self._save(kind, id, content)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def _save(self, kind: str, id: str, content: bytes | None) -> None:
        if content is None:
            self._database.execute("DELETE FROM records WHERE kind = ? AND id = ?", (kind, id))
            return
        self._database.execute(
            "INSERT INTO records (kind, id, content) VALUES (?, ?, ?)"
            " ON CONFLICT (kind, id) DO UPDATE SET content = excluded.content",
            (kind, id, content),
        )

    def _prepare(self) -> None:
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS records"
            " (kind TEXT NOT NULL, id TEXT NOT NULL, content BLOB NOT NULL, PRIMARY KEY (kind, id))"
        )
