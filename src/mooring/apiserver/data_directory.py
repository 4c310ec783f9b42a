"""The files of a server's data directory: the store, the secret that tokens are made from, kubeconfigs.

Guarantees: only the owner can read the secrets in it, even if the directory existed before and is open to
others. One of a newer version of Mooring is refused, one of an older version is brought up to date
(`mooring.data_schema`). A directory that has lost a file is refused with the file's name and left unchanged:
an empty store in the place of a lost one would be taken for the truth, and all volumes for unused ones.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mooring.apiserver.access.tokens import Tokens
from mooring.data_schema import SchemaRefused, Step, check, nothing, upgrade

STORE, TOKENS = "store.db", "tokens.json"
STEPS: tuple[Step, ...] = (nothing,)
"""From each schema to the next; the first one came with the numbers."""
_SECRET_BYTES = 32
_AGAIN = "restore the directory from a copy, or use another one for a new cluster"


class DataDirectoryDamaged(Exception):
    """A file of the data directory is missing or cannot be used, or is of a newer version; the message names
    it and says what to do."""


def prepare(data_dir: Path) -> None:
    """Makes the directory if it is missing. Raises DataDirectoryDamaged where a cluster was and its store is
    lost, and where it is of a newer version.

    Called before the store is opened. The store is made before the tokens, so tokens without a store are a
    loss."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DataDirectoryDamaged(
            f"the data directory {data_dir} cannot be made: {error.strerror}"
        ) from error
    _of_a_known_schema(data_dir, check)
    store = data_dir / STORE
    if (data_dir / TOKENS).exists() and not _is_store(store):
        raise DataDirectoryDamaged(
            f"{data_dir} had a cluster, but its store {store} is missing or empty: {_AGAIN}"
        )


def bring_up_to_date(data_dir: Path) -> None:
    """To the present schema. For who holds the store's lock. Raises DataDirectoryDamaged."""
    _of_a_known_schema(data_dir, upgrade)


def _of_a_known_schema(data_dir: Path, look: Callable[[Path, Sequence[Step]], int]) -> None:
    try:
        look(data_dir, STEPS)
    except SchemaRefused as error:
        raise DataDirectoryDamaged(str(error)) from error


def _is_store(store: Path) -> bool:
    """Whether a store was created in the file. The store itself checks whether it is intact."""
    if not store.is_file() or not store.stat().st_size:
        return False
    try:
        with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("SELECT 1 FROM history LIMIT 1")
            return True
    except sqlite3.OperationalError as error:
        return "no such table" not in str(error)
    except sqlite3.DatabaseError:
        return True


def load_tokens(data_dir: Path) -> Tokens:
    """The tokens of a data directory: read from `tokens.json`, which is made (mode 0600) if missing.

    Node tokens are derived from the secret in it, so another process may mint them while the server is
    running. Raises DataDirectoryDamaged.
    """
    path = data_dir / TOKENS
    try:
        if not path.exists():
            made = secrets.token_bytes(_SECRET_BYTES)
            content = {"secret": made.hex(), "admin": Tokens(made).admin()}
            write_private(path, json.dumps(content, indent=2) + "\n")
        secret = bytes.fromhex(_field(json.loads(path.read_bytes()), "secret"))
        path.chmod(0o600)
    except OSError as error:
        raise DataDirectoryDamaged(f"{path} cannot be read or made: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataDirectoryDamaged(f"{path} is damaged ({type(error).__name__}): {_AGAIN}") from None
    if len(secret) < _SECRET_BYTES:
        raise DataDirectoryDamaged(f"{path} is damaged (its secret has {len(secret)} bytes): {_AGAIN}")
    return Tokens(secret)


def _field(content: Any, name: str) -> str:
    if not isinstance(content, dict) or not isinstance(content.get(name), str):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError(name)
    return content[name]  # pyright: ignore[reportUnknownVariableType]


def write_kubeconfig(path: Path, url: str, token: str, authority: bytes, name: str = "mooring") -> None:
    """A kubeconfig with one cluster, user and context, replaced atomically, mode 0600."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_private(path, json.dumps(config, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replaces a file atomically by one that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
