"""A cloud's data directory: its lock, its access key, and its address.

<root>/lock               held by the process that serves
<root>/schema.json        the number of the form in which all this is (`mooring.data_schema`)
<root>/cloud.db           all records (`journal`)
<root>/credentials.json   the access key (0600), made at the first start
<root>/endpoint.json      where the process that serves, or served last, listens; a restart listens there
<root>/volumes, snapshots, instances: `devices`
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from mooring.cloud.errors import DataDirectoryError
from mooring.data_schema import SchemaRefused, Step, nothing, upgrade

STEPS: tuple[Step, ...] = (nothing,)
"""From each schema to the next; the first one came with the numbers."""
_T = TypeVar("_T")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass(frozen=True)
class Credentials:
    """The one access key of the cloud's one account."""

    access_key: str
    secret_key: str = field(repr=False)


class Endpoint(msgspec.Struct, frozen=True):
    """Where a cloud listens."""

    port: int
    region: str


class DataDirectory:
    """The directory `root`, which is created if it is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def database(self) -> Path:
        """The SQLite file of all records."""
        return self.root / "cloud.db"

    @contextmanager
    def held(self) -> Generator[None]:
        """Locks the directory while entered, and brings it up to date. Raises DataDirectoryError if another
        process holds the lock, or the directory is of a newer version."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirectoryError(
                f"the data directory {self.root} cannot be used: {error.strerror}"
            ) from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataDirectoryError(
                    f"another `mooring cloud` serves from {self.root}: stop it first"
                ) from None
            try:
                upgrade(self.root, STEPS)
            except SchemaRefused as error:
                raise DataDirectoryError(str(error)) from error
            yield
        finally:
            os.close(lock)

    def credentials(self, rng: Random) -> Credentials:
        """The access key; made from `rng` if there is none yet."""
        path = self.root / "credentials.json"
        if not path.exists():
            made = Credentials(f"AKIA{_letters(rng, 16)}", _letters(rng, 40))
            _write(path, msgspec.json.encode({"access_key": made.access_key, "secret_key": made.secret_key}))
        return _read(path, Credentials)

    def endpoint(self) -> Endpoint | None:
        """Where the cloud listens, or listened last."""
        path = self.root / "endpoint.json"
        return _read(path, Endpoint) if path.exists() else None

    def write_endpoint(self, endpoint: Endpoint) -> None:
        """Writes the cloud's address, for clients on this machine."""
        _write(self.root / "endpoint.json", msgspec.json.encode(endpoint))


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataDirectoryError(
            f"{path} cannot be read ({error}): remove it, and start the cloud again"
        ) from error


def _letters(rng: Random, count: int) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(count))


def _write(path: Path, content: bytes) -> None:
    half = path.with_name(f".half-{path.name}")
    half.unlink(missing_ok=True)
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    os.rename(half, path)
